/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of which OTLP messages are made, as bytes. otlp_pack.c is the only file that sees protobuf-c; otlp.c and
 * otlp_logs.c say what is told, and string the pieces together (otlp_wire.h). Pure.
 *
 * All texts are borrowed and valid UTF-8. What is packed is appended to a buffer, which remembers failure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/identity.h"
#include "daemon/sink/otlp.h"

/* Name of the service in a resource, of the scope, and first part of the names of metrics and events. */
#define OTLP_SERVICE_NAME "faultd"

/* ---- attributes ---- */

#define OTLP_ATTRIBUTES_MAX 32
#define OTLP_TEXTS_MAX 16

struct otlp_attribute {
	const char *key;
	enum { OTLP_TEXT, OTLP_NUMBER, OTLP_FLAG, OTLP_TEXTS } type;
	const char *text;
	int64_t number;
	bool flag;
	const char *const *texts;
	size_t n_texts;
};

struct otlp_attributes {
	size_t n; /* 0 is ready: the rest is filled as far as it is used */
	struct otlp_attribute list[OTLP_ATTRIBUTES_MAX];
};

/* A NULL or empty text is left out, and so is whatever is too much. */
void otlp_add_text(struct otlp_attributes *a, const char *key, const char *value);
void otlp_add_number(struct otlp_attributes *a, const char *key, int64_t value);
void otlp_add_flag(struct otlp_attributes *a, const char *key, bool value);
/* A list of at most OTLP_TEXTS_MAX texts; left out if empty. One such attribute in a list of attributes. */
void otlp_add_texts(struct otlp_attributes *a, const char *key, const char *const *values, size_t n);
/* Who a cgroup is: the same on all that is told about it. */
void otlp_add_identity(struct otlp_attributes *a, const struct identity *identity);

/* ---- heads: the resource and the scope of ResourceMetrics, ScopeMetrics, ResourceLogs and ScopeLogs alike ---- */

void otlp_pack_resource(struct strbuf *b, const struct otlp_host *host);
void otlp_pack_scope(struct strbuf *b, const struct otlp_host *host);

/* ---- metrics ---- */

/* Numbers of the fields of a Metric that hold the points. */
#define OTLP_DATA_GAUGE 5
#define OTLP_DATA_SUM 7
/* The fixed part of a data point is three numbers of eight bytes with a byte of tag each. */
#define OTLP_POINT_FIXED_BYTES 27

void otlp_pack_metric_head(struct strbuf *b, const char *name, const char *unit, const char *description);
/* What makes a Sum cumulative and monotonic. */
void otlp_pack_sum_tail(struct strbuf *b);
/* As the part of a data point that they are. */
void otlp_pack_point_attributes(struct strbuf *b, const struct otlp_attributes *a);
/* The rest of a data point; returns the bytes written. */
size_t otlp_pack_count(uint8_t out[OTLP_POINT_FIXED_BYTES], uint64_t start_unix_ns, uint64_t time_unix_ns,
		       int64_t value);
size_t otlp_pack_rate(uint8_t out[OTLP_POINT_FIXED_BYTES], uint64_t time_unix_ns, double value);

/* ---- logs ---- */

/* A log record of severity ERROR. */
struct otlp_log {
	const char *event_name;
	uint64_t time_unix_ns;
	uint64_t observed_unix_ns;
	const char *body;
	const struct otlp_attributes *attributes;
};

void otlp_pack_log(struct strbuf *b, const struct otlp_log *log);
