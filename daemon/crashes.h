/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the kernel's records of fatal bad accesses to the crashes that sinks tell: gives them names, limits them, waits for the word
 * whether a core was written, keeps a history. Belongs to the pipeline: it joins the probe and the census.
 */
#pragma once

#include <stdint.h>

#include "config/config.h"
#include "daemon/census.h"
#include "daemon/ladder.h"
#include "daemon/model/crash.h"
#include "daemon/model/self.h"

struct crashes;

/* The ladder, the census and the counters are borrowed. `published` is called for each crash that leaves a record, which is borrowed
 * for the length of the call. -ENOMEM. */
int crashes_new(const struct config *config, struct ladder *ladder, struct census *census, struct self_stats *self,
		void (*published)(const struct crash *crash, void *userdata), void *userdata, struct crashes **ret);
struct crashes *crashes_free(struct crashes *c);
/* Takes over history and limit of a new configuration. -ENOMEM (then nothing changed). */
int crashes_configure(struct crashes *c, const struct config *config);

/* Readable when there are records, -EBADF if there will be none; handle with crashes_hear(). */
int crashes_fd(const struct crashes *c);
/* Handles a bounded number of records. The same instant on the monotonic and the wall clock. */
void crashes_hear(struct crashes *c, uint64_t now_ns, uint64_t now_unix_ns);
/* Once an interval: publishes those whose end nobody told. */
void crashes_tick(struct crashes *c, uint64_t now_ns);

/* The oldest kept crash numbered above `after`, borrowed until the next call; NULL if none. */
const struct crash *crashes_next(const struct crashes *c, uint64_t after);
