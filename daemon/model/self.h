/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon tells about itself. Each figure is declared once, here, with its name and its explanation; exposition
 * and documentation are made from this list. To add a figure: add a line; to move it: self.<field>++.
 *
 * SELF_METRICS(M): M(field, kind, name, label, value, help)
 *   field  in struct self_stats, uint64_t; a gauge holds its present value
 *   kind   counter or gauge; seconds is a gauge of nanoseconds that is shown in seconds, its name ends so
 *   name   of the metric family without prefix "faultd_" and, for counters, without suffix "_total"
 *   label  label name or NULL; lines of one family stand together, only the first one's help counts
 * Sums over one family make sense: what is counted in other units has a family of its own.
 */
#pragma once

#include <stdint.h>

/* clang-format off */
#define SELF_METRICS(M)                                                                                                 \
	M(drop_no_slot, counter, "drops", "reason", "no_slot",                                                          \
	  "Times that something could not be done exactly, by reason. no_slot, table_full, table_busy: faults of a cgroup were " \
	  "counted under other; slot_leaked: a slot could not be given back; uncounted: a fault was lost; cgroup_ring: the birth " \
	  "or death of a cgroup was learnt late; cgroup_limit: a cgroup was folded into other; bad_uncounted: a bad access was lost; " \
	  "bad_note: a bad access may be told as another kind for want of memory; bad_latency: its time is not known; " \
	  "cpu_gap: a CPU came online and was not watched for up to an interval (page faults by perf only).")             \
	M(drop_table_full, counter, "drops", "reason", "table_full", "")                                                \
	M(drop_table_busy, counter, "drops", "reason", "table_busy", "")                                                \
	M(drop_slot_leaked, counter, "drops", "reason", "slot_leaked", "")                                              \
	M(drop_uncounted, counter, "drops", "reason", "uncounted", "")                                                  \
	M(drop_cgroup_ring, counter, "drops", "reason", "cgroup_ring", "")                                              \
	M(drop_cgroup_limit, counter, "drops", "reason", "cgroup_limit", "")                                            \
	M(drop_bad_uncounted, counter, "drops", "reason", "bad_uncounted", "")                                          \
	M(drop_bad_note, counter, "drops", "reason", "bad_note", "")                                                    \
	M(drop_bad_latency, counter, "drops", "reason", "bad_latency", "")                                              \
	M(drop_cpu_gap, counter, "drops", "reason", "cpu_gap", "")                                                      \
	M(crash_kept, counter, "crash_records", "result", "kept",                                                       \
	  "Fatal bad accesses, by what became of their records. suppressed: over bad_access.records_per_minute; excluded: of a cgroup " \
	  "that the configuration does not include; ring_full: the daemon did not keep up; lost: there was no memory.")                              \
	M(crash_suppressed, counter, "crash_records", "result", "suppressed", "")                                       \
	M(crash_excluded, counter, "crash_records", "result", "excluded", "")                                           \
	M(crash_ring_lost, counter, "crash_records", "result", "ring_full", "")                                         \
	M(crash_lost, counter, "crash_records", "result", "lost", "")                                                   \
	M(journal_written, counter, "journal_entries", "result", "written",                                             \
	  "Crash records to the journal, by result; lost: the journal did not take them.")                               \
	M(journal_lost, counter, "journal_entries", "result", "lost", "")                                               \
	M(recursion_misses, counter, "probe_recursion_misses", NULL, "",                                                \
	  "Runs of a probe that the kernel skipped because it was already running on that CPU; such faults are not counted.") \
	M(cgroups_live, gauge, "cgroups", "state", "live", "Cgroups that have series of their own, by state; other holds the rest.") \
	M(cgroups_dead, gauge, "cgroups", "state", "dead", "")                                                          \
	M(cgroups_max, gauge, "cgroups_limit", NULL, "", "Cgroups that may have series of their own at once.")          \
	M(slots_used, gauge, "probe_slots_used", NULL, "", "Counter slots in use in the kernel.")                       \
	M(slots_max, gauge, "probe_slots", NULL, "", "Counter slots that the probe has in the kernel.")                 \
	M(probe_memory_bytes, gauge, "probe_memory_bytes", NULL, "", "Kernel memory of the probe's counters.")          \
	M(reloads_ok, counter, "config_reloads", "result", "ok", "Reloads of the configuration, by result.")            \
	M(reloads_failed, counter, "config_reloads", "result", "failed", "")                                            \
	M(config_ok, gauge, "config_last_reload_successful", NULL, "",                                                  \
	  "1 if the last load or reload of the configuration succeeded, 0 if an older one is still in use.")            \
	M(ship_sent, counter, "ship_batches", "outcome", "sent", "Attempts to deliver a batch to the collector, by outcome.") \
	M(ship_retried, counter, "ship_batches", "outcome", "retried", "")                                              \
	M(ship_rejected, counter, "ship_batches", "outcome", "rejected", "")                                            \
	M(ship_points, counter, "ship_data_points", NULL, "", "Data points delivered to the collector.")                \
	M(drop_queue_full, counter, "ship_dropped_data_points", "reason", "queue_full",                                 \
	  "Data points that the collector never got, by reason. queue_full: the oldest gave way to newer ones; rejected: the "  \
	  "collector refused the batch; too_large: over the collector's size limit; partial: refused within an accepted batch.") \
	M(drop_rejected, counter, "ship_dropped_data_points", "reason", "rejected", "")                                 \
	M(drop_too_large, counter, "ship_dropped_data_points", "reason", "too_large", "")                               \
	M(drop_partial, counter, "ship_dropped_data_points", "reason", "partial", "")                                   \
	M(ship_log_records, counter, "ship_log_records", NULL, "", "Crash records delivered to the collector as log records.") \
	M(drop_log_queue_full, counter, "ship_dropped_log_records", "reason", "queue_full",                             \
	  "Crash records that the collector never got, by reason. queue_full, rejected, too_large, partial: as for data points; " \
	  "unsupported: the collector takes no log records (404, 405, 501; 400 until it took some); no_memory: could not be encoded.")         \
	M(drop_log_rejected, counter, "ship_dropped_log_records", "reason", "rejected", "")                             \
	M(drop_log_too_large, counter, "ship_dropped_log_records", "reason", "too_large", "")                           \
	M(drop_log_partial, counter, "ship_dropped_log_records", "reason", "partial", "")                               \
	M(drop_log_unsupported, counter, "ship_dropped_log_records", "reason", "unsupported", "")                       \
	M(drop_log_no_memory, counter, "ship_dropped_log_records", "reason", "no_memory", "")                           \
	M(ship_bytes, counter, "ship_sent_bytes", NULL, "", "Bytes of delivered request bodies, after compression.")    \
	M(queue_batches, gauge, "ship_queue_batches", NULL, "", "Batches that wait for delivery.")                      \
	M(queue_bytes, gauge, "ship_queue_bytes", NULL, "", "Bytes that wait for delivery.")                            \
	M(queue_max_bytes, gauge, "ship_queue_limit_bytes", NULL, "", "Bytes that may wait for delivery before batches are dropped: the oldest, metrics first. Log records may take half.") \
	M(scrapes, counter, "scrapes", "result", "ok",                                                                  \
	  "Scrapes, by result. busy: refused, too many at once; failed: no counters to show, or the client went away.") \
	M(scrapes_busy, counter, "scrapes", "result", "busy", "")                                                       \
	M(scrapes_failed, counter, "scrapes", "result", "failed", "")                                                   \
	M(scrape_bytes, gauge, "scrape_size_bytes", NULL, "", "Size of the last exposition, before compression.")       \
	M(ticks, counter, "ticks", NULL, "", "Intervals that were closed.")                                             \
	M(ticks_late, counter, "late_ticks", NULL, "", "Intervals that were closed more than half an interval late.")   \
	M(loop_worst_ns, seconds, "loop_longest_run_seconds", NULL, "", "Longest run of one event handler since start.")
/* clang-format on */

struct self_stats {
#define SELF_FIELD(field, kind, name, label, value, help) uint64_t field;
	SELF_METRICS(SELF_FIELD)
#undef SELF_FIELD
};
