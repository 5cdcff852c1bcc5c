/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as OTLP protobuf: ExportMetricsServiceRequest, for POST /v1/metrics. Pure: no I/O. What can be said in
 * logs is in otlp_logs.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/model/snapshot.h"

/* Who is speaking: the Resource of every batch. Strings are borrowed, valid UTF-8, "" = leave the attribute out. */
struct otlp_host {
	const char *service_version;
	const char *host_id; /* machine id, or the cloud's instance id */
	const char *host_name;
	const char *host_arch; /* OpenTelemetry's value: amd64, arm64, ... */
};

/* One encoded request, on the heap. */
struct otlp_batch {
	uint8_t *data;
	size_t size;
	size_t points; /* data points, or log records, inside */
};

/* Encodes a snapshot into as many requests of at most `max_bytes` each as it takes; a single data point larger than
 * that is left out and counted in *ret_dropped. Hands over an array that the caller frees with otlp_batches_free().
 * Series of cgroups carry cgroup.path, systemd.unit, systemd.slice, container.id, container.runtime, k8s.pod.uid where
 * not empty; page faults with them fault.mode, fault.access and fault.kind; bad accesses faultd.signal, faultd.code and
 * faultd.outcome. -ENOMEM. */
int otlp_encode(const struct snapshot *s, const struct otlp_host *host, size_t max_bytes, struct otlp_batch **ret,
		size_t *ret_n, size_t *ret_dropped);
void otlp_batches_free(struct otlp_batch *batches, size_t n);

/* What a collector's 2xx body (ExportMetricsServiceResponse, ExportLogsServiceResponse) says: number of rejected data
 * points or log records, 0 for an empty or unreadable body. The message (valid UTF-8, cut to `size`) goes to
 * `message`. */
uint64_t otlp_parse_response(const uint8_t *body, size_t len, char *message, size_t size);
