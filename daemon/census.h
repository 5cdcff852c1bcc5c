/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The census: follows cgroups from birth to death and brings what the sources count into the aggregate under the right
 * name. Belongs to the pipeline: it joins the probe, memory.stat, the names and the filter, which do not know each
 * other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/ladder.h"
#include "daemon/model/aggregate.h"
#include "daemon/model/identity.h"
#include "daemon/model/self.h"

struct census;

/* The ladder, the aggregate and the counters are borrowed. -ENOMEM; logs what it goes on without. */
int census_new(const struct config *config, struct ladder *ladder, struct aggregate *aggregate, struct self_stats *self,
	       struct census **ret);
struct census *census_free(struct census *c);

/* Readable when cgroups were born or died, -EBADF if there is no such thing; handle with census_hear(). */
int census_life_fd(const struct census *c);
/* Handles a bounded number of births and deaths, and where many die takes their slots back without waiting for a tick. */
void census_hear(struct census *c, uint64_t now_ns);
/* Brings the totals up to date: all that was counted until now is in the aggregate. `now_ns` is monotonic. */
void census_refresh(struct census *c, uint64_t now_ns);
/* Once an interval, after census_refresh(): buries the dead, takes their slots back, reads memory.stat, looks for
 * deaths that were not announced, gives folded cgroups another chance. */
void census_tick(struct census *c, uint64_t now_ns);
/* Whether the configuration includes the cgroup; one without a name is. */
bool census_wants(struct census *c, uint64_t id, uint64_t now_ns);
/* What a cgroup is, whether it has a series or not; the caller owns *ret. -ENOMEM. */
int census_identify(struct census *c, uint64_t id, uint64_t now_ns, struct identity **ret);
/* Takes over the new filter. Cgroups that pass no more fold into other, those that pass now get their own series from
 * their next fault on; no count is reset. */
void census_set_filter(struct census *c, struct filter *filter, uint64_t now_ns);
