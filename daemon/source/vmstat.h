/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the whole host from /proc/vmstat.
 */
#pragma once

#include "daemon/model/snapshot.h"

/* Reads vma_lock_success, _abort, _retry and _miss from `path` (NULL: /proc/vmstat). -ENOENT if this kernel does not count them
 * (CONFIG_PER_VMA_LOCK_STATS, 6.4 and later), -errno. */
int vmstat_vma_lock(const char *path, struct vma_lock_stats *ret);
