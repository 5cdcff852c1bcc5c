/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole: owns the sources, the model and the sinks, and is the only place that knows how they hang together. Holds
 * no thresholds and no formats.
 */
#pragma once

#include <systemd/sd-event.h>

#include "config/config.h"

struct pipeline;

/* Builds everything and starts counting. Takes over `config` (always). `config_file` is borrowed, for reloads; NULL:
 * none. On failure logs why and returns -errno; *ret_exit is the exit code that fits (daemon/exit.h). */
int pipeline_new(sd_event *event, struct config *config, const char *config_file, struct pipeline **ret, int *ret_exit);
struct pipeline *pipeline_free(struct pipeline *p);

/* Reads the configuration again. If anything in it is wrong the old one stays; every error is logged. */
void pipeline_reload(struct pipeline *p);

/* The longest that one turn of the loop took, as the caller measured it. */
void pipeline_note_turn(struct pipeline *p, uint64_t ns);
