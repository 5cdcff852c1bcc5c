/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes as OTLP log records: ExportLogsServiceRequest, for POST /v1/logs. Pure: no I/O.
 *
 * A record is an event `faultd.crash` of severity ERROR. Attributes, by OpenTelemetry's semantic conventions where
 * there is one; those without a value are left out:
 *
 * - cgroup.path, systemd.unit, systemd.slice, container.id, container.runtime, k8s.pod.uid: as of the metrics
 * - process.pid, thread.id: as the host sees them; process.vpid: the process as its container sees it
 * - process.executable.path, process.executable.name (its last component), thread.name (the kernel's comm, which is
 *   each thread's own), process.real_user.id
 * - faultd.signal, faultd.code, faultd.outcome: as of the metrics; faultd.si_code: the raw number;
 *   faultd.sender_pid: who sent the signal
 * - faultd.access, faultd.kind, faultd.error_code: of a page fault
 * - faultd.address_class, and only if asked for faultd.address, faultd.ip, faultd.sp in hexadecimal
 * - faultd.fingerprint; faultd.frames: innermost first, "BUILD-ID+0xOFFSET", "program+0xOFFSET" or "?"
 * - faultd.collapsed, faultd.core, faultd.suppressed
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/crash.h"
#include "daemon/sink/otlp.h"

#define OTLP_CRASH_EVENT "faultd.crash"

struct otlp_logs_options {
	const struct otlp_host *host;
	/* Appends the record's body: a sentence about the crash, without addresses. */
	void (*body)(const struct crash *crash, struct strbuf *out);
	bool addresses;            /* raw addresses may leave this host */
	uint64_t observed_unix_ns; /* now */
	size_t max_bytes;          /* of a request */
};

/* Encodes crashes, in their order, into as many requests as it takes; `points` of a batch counts log records. A
 * record larger than a request is left out and counted in *ret_dropped. Hands over an array that the caller frees
 * with otlp_batches_free(); *ret_n may be 0. -ENOMEM. */
int otlp_logs_encode(const struct crash *const *crashes, size_t n, const struct otlp_logs_options *options,
		     struct otlp_batch **ret, size_t *ret_n, size_t *ret_dropped);
