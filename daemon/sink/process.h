/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about this process, for the process_* metrics that every Prometheus client has.
 */
#pragma once

#include "daemon/model/snapshot.h"

/* Brings `p` up to date; needs no more than /proc/self. start_unix_ns is found out once, while it is 0, and then kept,
 * so that a step of the clock does not look like a restart. What cannot be read becomes 0. */
void process_read(struct process_stats *p);
