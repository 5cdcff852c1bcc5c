/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are compared with those that protoc makes of the public schema, and read by a small parser of the wire
 * format here; nothing of protobuf-c is used.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "daemon/sink/otlp.h"
#include "tests/unit/otlp-golden.h"
#include "tests/unit/wire.h"

#define T0 UINT64_C(1700000000000000000)
#define NO_LIMIT ((size_t)64 << 20)
#define SSHD "/system.slice/sshd.service"

static const struct otlp_host host = {"0.1.0", "0123456789abcdef", "node-1", "amd64"};

/* ---- a request as a list of points, each a line of text ---- */

struct points {
	size_t n;
	struct point {
		char metric[64];
		char attributes[8192]; /* key=value; in turn */
		uint64_t start, time, bits;
		uint32_t kind; /* number of the value's field */
		bool sum;
	} list[600];
};

static void read_attributes(struct wire message, uint32_t number, char *out, size_t size)
{
	char key[64], value[4200];
	struct wire_field f;
	size_t len = 0;

	out[0] = '\0';
	while (wire_next(&message, &f)) {
		if (f.number != number)
			continue;
		wire_text(wire_part(f.bytes, 1), key, sizeof(key));
		wire_text(wire_part(wire_part(f.bytes, 2), 1), value, sizeof(value));
		len += (size_t)snprintf(out + len, size - len, "%s=%s;", key, value);
		assert_true(len < size);
	}
}

static void read_point(struct wire c, const char *metric, bool sum, struct points *out)
{
	struct point *p = &out->list[out->n++];
	struct wire_field f;

	assert_true(out->n <= ARRAY_SIZE(out->list));
	*p = (struct point){.sum = sum};
	snprintf(p->metric, sizeof(p->metric), "%s", metric);
	read_attributes(c, 7, p->attributes, sizeof(p->attributes));
	while (wire_next(&c, &f)) {
		if (f.number == 2)
			p->start = f.value;
		else if (f.number == 3)
			p->time = f.value;
		else if (f.number == 4 || f.number == 6) {
			p->kind = f.number;
			p->bits = f.value;
		} else
			assert_int_equal(f.number, 7);
	}
}

static void read_metric(struct wire c, struct points *out)
{
	struct wire sum = wire_part(c, 7), data = sum.at ? sum : wire_part(c, 5);
	uint64_t temporality = 0, monotonic = 0;
	struct wire_field f;
	char name[64];

	wire_text(wire_part(c, 1), name, sizeof(name));
	assert_non_null(data.at);
	while (wire_next(&data, &f)) {
		if (f.number == 1)
			read_point(f.bytes, name, sum.at, out);
		else if (f.number == 2)
			temporality = f.value;
		else if (f.number == 3)
			monotonic = f.value;
	}
	assert_int_equal(temporality, sum.at ? 2 : 0); /* cumulative */
	assert_int_equal(monotonic, sum.at ? 1 : 0);
}

/* Appends the points of a request, which must name the host and the scope. */
static void read_request(const struct otlp_batch *b, struct points *out)
{
	struct wire whole = {b->data, b->data + b->size};
	struct wire resource_metrics = wire_part(whole, 1), scope_metrics = wire_part(resource_metrics, 2),
		    c = scope_metrics;
	size_t before = out->n;
	char text[512];
	struct wire_field f;

	assert_ptr_equal(resource_metrics.end, whole.end);
	assert_ptr_equal(scope_metrics.end, whole.end);
	read_attributes(wire_part(resource_metrics, 1), 1, text, sizeof(text));
	assert_string_equal(text, "service.name=faultd;service.instance.id=0123456789abcdef;service.version=0.1.0;"
				  "host.id=0123456789abcdef;host.name=node-1;host.arch=amd64;");
	wire_text(wire_part(wire_part(scope_metrics, 1), 1), text, sizeof(text));
	assert_string_equal(text, "faultd");
	while (wire_next(&c, &f))
		if (f.number == 2)
			read_metric(f.bytes, out);
	assert_int_equal(out->n - before, b->points);
}

static const struct point *find(const struct points *p, const char *metric, const char *attributes)
{
	const struct point *found = NULL;

	for (size_t at = 0; at < p->n; at++) {
		if (strcmp(p->list[at].metric, metric) != 0 || !strstr(p->list[at].attributes, attributes))
			continue;
		assert_null(found); /* once, in all batches together */
		found = &p->list[at];
	}
	return found;
}

/* ---- a small world ---- */

struct world {
	struct aggregate *aggregate;
	struct self_stats self;
	struct snapshot snapshot;
	struct points points;
	struct otlp_batch *batches;
	size_t n_batches, dropped;
};

static int set_up(void **state)
{
	static const uint64_t windows[] = {10 * NSEC_PER_SEC, 60 * NSEC_PER_SEC};
	struct aggregate_options o = {.max_cgroups = 64,
				      .max_ids = 256,
				      .interval_ns = NSEC_PER_SEC,
				      .windows_ns = windows,
				      .n_windows = 2,
				      .now_unix_ns = T0};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(aggregate_new(&o, &w->aggregate), 0);
	w->snapshot = (struct snapshot){
	    .now_ns = 2 * NSEC_PER_SEC, .now_unix_ns = T0 + 2 * NSEC_PER_SEC, .aggregate = w->aggregate};
	*state = w;
	return 0;
}

static void forget_batches(struct world *w)
{
	otlp_batches_free(w->batches, w->n_batches);
	w->batches = NULL;
	w->n_batches = 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	forget_batches(w);
	aggregate_free(w->aggregate);
	free(w);
	return 0;
}

static void add_cgroup(struct world *w, uint64_t id, const char *path)
{
	struct identity *identity = NULL;
	bool over;

	assert_int_equal(identity_parse(path, strlen(path), &identity), 0);
	assert_int_equal(aggregate_bind(w->aggregate, id, identity, &over), 0);
	assert_false(over);
}

static void add_faults(struct world *w, uint64_t id, uint32_t class, uint64_t growth)
{
	uint64_t counts[FAULT_CLASSES] = {0};

	counts[class] = growth;
	aggregate_faults(w->aggregate, id, counts);
}

static void add_bad(struct world *w, uint64_t id, enum bad_outcome outcome, uint32_t class, uint64_t growth)
{
	struct bad_counts counts = {0};

	counts.count[outcome][class] = growth;
	aggregate_bad(w->aggregate, id, &counts);
}

static void tick(struct world *w)
{
	aggregate_tick(w->aggregate, w->snapshot.now_ns, w->snapshot.now_unix_ns);
}

/* Encodes and reads back. */
static void encode(struct world *w, size_t max_bytes)
{
	forget_batches(w);
	assert_int_equal(otlp_encode(&w->snapshot, &host, max_bytes, &w->batches, &w->n_batches, &w->dropped), 0);
	w->points.n = 0;
	for (size_t at = 0; at < w->n_batches; at++) {
		assert_true(w->batches[at].size <= max_bytes);
		assert_true(w->batches[at].points > 0);
		read_request(&w->batches[at], &w->points);
	}
}

/* Twenty cgroups with six classes each. */
static void make_crowd(struct world *w)
{
	char path[64];

	for (uint32_t id = 1; id <= 20; id++) {
		snprintf(path, sizeof(path), "/system.slice/unit-%02u.service", id);
		add_cgroup(w, id, path);
		for (uint32_t class = 0; class < 12; class += 2)
			add_faults(w, id, class, id * 100 + class);
	}
	tick(w);
}

/* ---- tests ---- */

static void bytes_are_those_that_protoc_makes_of_the_public_schema(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, SSHD);
	add_faults(w, 1, FAULT_CLASS(FAULT_USER, FAULT_READ, FAULT_MISSING), 7);
	add_faults(w, 1, FAULT_CLASS(FAULT_KERNEL, FAULT_WRITE, FAULT_PROTECTION), 300);
	aggregate_major(w->aggregate, SSHD, 3);
	add_bad(w, 1, BAD_HANDLED, BAD_BASE_BUS + 2, 2);
	add_bad(w, 1, BAD_FATAL, BAD_BASE_SEGV + 1, 300);
	add_bad(w, 1, BAD_HANDLED, BAD_BASE_SEGV + 1, 1);
	w->snapshot.bad_signals = 1u << BAD_SEGV;
	tick(w);
	encode(w, NO_LIMIT);
	assert_int_equal(w->n_batches, 1);
	assert_int_equal(w->batches[0].points, 7 + 3 + 4);
	assert_int_equal(w->dropped, 0);
	assert_int_equal(w->batches[0].size, sizeof(golden));
	assert_memory_equal(w->batches[0].data, golden, sizeof(golden));
}

static void only_classes_that_counted_have_points(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, SSHD);
	add_cgroup(w, 2, "/idle.slice");
	add_faults(w, 1, FAULT_CLASS_MODE_ONLY(FAULT_USER), 5);
	aggregate_faults_unclassed(w->aggregate, 1, 6);
	tick(w);
	encode(w, NO_LIMIT);
	assert_non_null(
	    find(&w->points, "faultd.page_faults", "fault.mode=user;fault.access=unknown;fault.kind=unknown;"));
	assert_non_null(
	    find(&w->points, "faultd.page_faults", "fault.mode=unknown;fault.access=unknown;fault.kind=unknown;"));
	assert_null(find(&w->points, "faultd.major_page_faults", ""));
	assert_null(find(&w->points, "faultd.page_fault.rate", "idle"));
	assert_int_equal(w->points.n, 2 + 4);
}

static void only_bad_accesses_that_were_made_have_points(void **state)
{
	struct world *w = *state;
	const struct point *p;

	w->snapshot.bad_signals = 1u << BAD_SEGV;
	add_cgroup(w, 1, SSHD);
	add_cgroup(w, 2, "/good.slice");
	add_cgroup(w, 3, "/bad.slice");
	add_faults(w, 2, 0, 1);
	add_bad(w, 1, BAD_FATAL, BAD_BASE_SEGV + BAD_CODE_SENT(BAD_CODES_SEGV), 1);
	add_bad(w, 3, BAD_FATAL, BAD_BASE_SEGV + BAD_CODE_SENT(BAD_CODES_SEGV), 4);
	add_bad(w, 3, BAD_HANDLED, BAD_BASE_SEGV + BAD_CODE_SENT(BAD_CODES_SEGV), 2);
	tick(w);
	encode(w, NO_LIMIT);
	p = find(&w->points, "faultd.bad_accesses",
		 "cgroup.path=/bad.slice;systemd.slice=bad.slice;faultd.signal=SIGSEGV;faultd.code=sent;"
		 "faultd.outcome=fatal;");
	assert_non_null(p);
	assert_true(p->sum);
	assert_int_equal(p->bits, 4);
	assert_int_equal(p->start, T0);
	assert_int_equal(find(&w->points, "faultd.bad_accesses", "outcome=handled;")->bits, 2);
	assert_null(find(&w->points, "faultd.bad_access.rate", "good"));
	/* 1 class and 2 rates; 2 classes and 2 rates; 2 rates of `other`; and of the page faults 1 class and 2 rates
	 * of 4. */
	assert_int_equal(w->points.n, 3 + 4 + 2 + 1 + 2 * 4);
}

static void rates_of_bad_accesses_are_of_both_outcomes(void **state)
{
	struct world *w = *state;
	const struct point *p;
	double rate;

	w->snapshot.bad_signals = 1u << BAD_SEGV;
	add_cgroup(w, 1, SSHD);
	add_bad(w, 1, BAD_FATAL, BAD_BASE_FPE + 1, 3);
	add_bad(w, 1, BAD_HANDLED, BAD_BASE_SEGV + 2, 4);
	tick(w); /* after two seconds */
	encode(w, NO_LIMIT);
	p = find(&w->points, "faultd.bad_access.rate",
		 "systemd.unit=sshd.service;systemd.slice=system.slice;window=10s;");
	assert_non_null(p);
	assert_false(p->sum);
	assert_int_equal(p->kind, 4);
	memcpy(&rate, &p->bits, sizeof(rate));
	assert_true(rate > 3.4999 && rate < 3.5001);
	assert_non_null(find(&w->points, "faultd.bad_access.rate", "cgroup.path=other;window=1m;"));
}

static void a_host_that_does_not_look_tells_no_bad_accesses(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, SSHD);
	add_bad(w, 1, BAD_FATAL, BAD_BASE_SEGV + 1, 3);
	tick(w);
	encode(w, NO_LIMIT);
	for (size_t at = 0; at < w->points.n; at++)
		assert_null(strstr(w->points.list[at].metric, "bad"));
}

static void container_and_pod_are_attributes(void **state)
{
	struct world *w = *state;
	const struct point *p;

	add_cgroup(w, 1,
		   "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0001_0002_0003_"
		   "000000000004.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		   ".scope");
	add_faults(w, 1, 0, 1);
	tick(w);
	encode(w, NO_LIMIT);
	p = find(&w->points, "faultd.page_faults", "");
	assert_non_null(p);
	assert_non_null(strstr(p->attributes, ";k8s.pod.uid=0a1b2c3d-0001-0002-0003-000000000004;"));
	assert_non_null(strstr(p->attributes, ";container.runtime=containerd;"));
	assert_non_null(strstr(p->attributes, ";container.id=0123456789abcdef0123456789abcdef0123456789abcdef"
					      "0123456789abcdef;"));
}

static void attributes_without_a_value_are_left_out(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, "/");
	add_faults(w, 1, 0, 1);
	tick(w);
	encode(w, NO_LIMIT);
	assert_string_equal(find(&w->points, "faultd.page_faults", "")->attributes,
			    "cgroup.path=/;fault.mode=user;fault.access=read;fault.kind=missing;");
}

static void invalid_utf8_in_a_path_is_valid_in_the_batch(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, "/a\xff\"\\\n\t\xc3.service");
	add_faults(w, 1, 0, 1);
	tick(w);
	encode(w, NO_LIMIT); /* the reader checks each text */
	assert_non_null(
	    find(&w->points, "faultd.page_faults", "cgroup.path=/a\xef\xbf\xbd\"\\\n\t\xef\xbf\xbd.service;"));
}

static void a_series_never_begins_after_its_time(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, SSHD);
	add_faults(w, 1, 0, 1);
	w->snapshot.now_unix_ns = T0 - 3600 * NSEC_PER_SEC; /* the clock was set back */
	w->snapshot.self = &w->self;
	encode(w, NO_LIMIT);
	for (size_t at = 0; at < w->points.n; at++) {
		assert_int_equal(w->points.list[at].time, T0 - 3600 * NSEC_PER_SEC);
		assert_true(w->points.list[at].start <= w->points.list[at].time);
	}
}

static void a_cgroup_that_came_later_starts_later(void **state)
{
	struct world *w = *state;

	add_cgroup(w, 1, SSHD);
	add_faults(w, 1, 0, 1);
	aggregate_tick(w->aggregate, NSEC_PER_SEC, T0 + NSEC_PER_SEC);
	add_cgroup(w, 2, "/late.slice");
	add_faults(w, 2, 0, 1);
	encode(w, NO_LIMIT);
	assert_int_equal(find(&w->points, "faultd.page_faults", "sshd")->start, T0);
	assert_int_equal(find(&w->points, "faultd.page_faults", "late")->start, T0 + NSEC_PER_SEC);
}

static void counts_beyond_the_format_stay_at_its_end(void **state)
{
	struct world *w = *state;

	add_faults(w, 0, 0, UINT64_MAX);
	add_faults(w, 0, 2, INT64_MAX);
	encode(w, NO_LIMIT);
	assert_true(find(&w->points, "faultd.page_faults", "kind=missing")->bits <= INT64_MAX);
	assert_int_equal(w->points.list[0].bits, INT64_MAX);
	assert_int_equal(w->points.list[1].bits, INT64_MAX);
}

static void a_host_without_faults_still_reports(void **state)
{
	struct world *w = *state;

	tick(w);
	encode(w, NO_LIMIT);
	assert_int_equal(w->points.n, 2); /* rates of `other` */
	assert_int_equal(w->points.list[0].kind, 4);
	assert_int_equal(w->points.list[0].bits, 0);
}

static void drops_are_told_by_reason(void **state)
{
	struct world *w = *state;
	const struct point *p;

	w->self.drop_uncounted = 12;
	w->self.drop_rejected = 30;
	w->self.drop_log_unsupported = 5;
	w->self.crash_suppressed = 6;
	w->self.cgroups_max = 64;
	w->snapshot.self = &w->self;
	encode(w, NO_LIMIT);
	p = find(&w->points, "faultd.drops", "reason=uncounted;");
	assert_int_equal(p->bits, 12);
	assert_int_equal(p->start, T0);
	assert_true(p->sum);
	assert_int_equal(find(&w->points, "faultd.drops", "reason=no_slot;")->bits, 0);
	assert_non_null(find(&w->points, "faultd.drops", "reason=cgroup_limit;"));
	assert_int_equal(find(&w->points, "faultd.ship_dropped_data_points", "reason=rejected;")->bits, 30);
	assert_int_equal(find(&w->points, "faultd.ship_dropped_log_records", "reason=unsupported;")->bits, 5);
	assert_int_equal(find(&w->points, "faultd.crash_records", "result=suppressed;")->bits, 6);
	p = find(&w->points, "faultd.cgroups_limit", "");
	assert_int_equal(p->bits, 64);
	assert_string_equal(p->attributes, "");
	assert_false(p->sum);
	assert_non_null(find(&w->points, "faultd.probe_recursion_misses", ""));
	for (size_t at = 0; at < w->points.n; at++)
		assert_null(strstr(w->points.list[at].metric, "seconds"));
}

/* The count of a member of the crowd is there, once. */
static void assert_member(const struct points *points, uint32_t id, uint32_t class)
{
	struct fault_class names = fault_class_names(class);
	const struct point *p;
	char attributes[256];

	snprintf(
	    attributes, sizeof(attributes),
	    "systemd.unit=unit-%02u.service;systemd.slice=system.slice;fault.mode=%s;fault.access=%s;fault.kind=%s;",
	    id, names.mode, names.access, names.kind);
	p = find(points, "faultd.page_faults", attributes);
	assert_non_null(p);
	assert_int_equal(p->bits, id * 100 + class);
}

static void splitting_loses_and_doubles_nothing(void **state)
{
	struct world *w = *state;
	size_t all;

	make_crowd(w);
	w->snapshot.self = &w->self;
	encode(w, NO_LIMIT);
	assert_int_equal(w->n_batches, 1);
	all = w->points.n;
	for (size_t max = 1100; max < 12000; max += max / 7) {
		encode(w, max); /* checks each size */
		assert_true(w->n_batches > 1);
		assert_int_equal(w->dropped, 0);
		assert_int_equal(w->points.n, all);
		for (uint32_t id = 1; id <= 20; id++)
			for (uint32_t class = 0; class < 12; class += 2)
				assert_member(&w->points, id, class);
	}
}

static void a_batch_is_filled_to_the_last_byte(void **state)
{
	struct world *w = *state;
	size_t exact;

	make_crowd(w);
	encode(w, NO_LIMIT);
	exact = w->batches[0].size;
	encode(w, exact);
	assert_int_equal(w->n_batches, 1);
	encode(w, exact - 1);
	assert_int_equal(w->n_batches, 2);
	assert_int_equal(w->batches[1].points, 1);
}

static void a_point_that_is_too_large_is_left_out_and_counted(void **state)
{
	struct world *w = *state;
	char path[2002] = "/";

	memset(path + 1, 'x', 2000);
	add_cgroup(w, 1, path);
	add_cgroup(w, 2, SSHD);
	add_faults(w, 1, 0, 1);
	add_faults(w, 2, 0, 1);
	tick(w);
	encode(w, 1500);
	assert_int_equal(w->dropped, 1 + 2); /* a class and two windows */
	assert_non_null(find(&w->points, "faultd.page_faults", "sshd"));
	assert_int_equal(w->points.n, 1 + 2 * 2);
}

static void no_room_for_anything_gives_no_batch(void **state)
{
	struct world *w = *state;

	make_crowd(w);
	for (size_t max = 0; max < 300; max += 13) {
		encode(w, max);
		assert_int_equal(w->n_batches, 0);
		assert_int_equal(w->dropped, 20 * 6 + 21 * 2);
	}
}

/* ---- the answer ---- */

static uint64_t parse(const char *body, size_t len, char *message, size_t size)
{
	/* On the heap and no longer than it is, so that reading past the end is seen. */
	auto_free uint8_t *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, body, len);
	memset(message, '#', size);
	return otlp_parse_response(copy, len, message, size);
}
#define PARSE(body, message) parse(body, sizeof(body) - 1, message, sizeof(message))

static void a_partial_success_tells_how_many_and_why(void **state)
{
	char message[32];

	assert_int_equal(PARSE("\x0a\x09\x08\xac\x02\x12\x04late", message), 300);
	assert_string_equal(message, "late");
	assert_int_equal(PARSE("\x0a\x06\x12\x04slow", message), 0); /* a warning */
	assert_string_equal(message, "slow");
	assert_int_equal(PARSE("\x0a\x02\x08\x01", message), 1);
	assert_string_equal(message, "");
	assert_int_equal(PARSE("\x0a\x00", message), 0);
	/* Fields of later versions are skipped. */
	assert_int_equal(PARSE("\x12\x01x\x0a\x05\x08\x02\x1a\x01y", message), 2);
}

static void empty_and_unreadable_answers_mean_nothing(void **state)
{
	char message[32];

	assert_int_equal(otlp_parse_response(NULL, 0, message, sizeof(message)), 0);
	assert_string_equal(message, "");
	assert_int_equal(PARSE("{}", message), 0);
	assert_int_equal(PARSE("{\"partialSuccess\":{\"rejectedDataPoints\":\"1\"}}", message), 0);
	assert_int_equal(PARSE("<html><body>OK</body></html>", message), 0);
	assert_int_equal(PARSE("\x0a\x09\x08\xac", message), 0);
	assert_int_equal(PARSE("\x0a\xff\xff\xff\xff\x0f", message), 0);
	assert_int_equal(PARSE("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", message), 0); /* -1 */
	assert_string_equal(message, "");
	assert_int_equal(otlp_parse_response((const uint8_t *)"\x0a\x02\x08\x01", 4, NULL, 0), 1);
}

static void a_message_is_made_valid_and_cut_between_characters(void **state)
{
	char message[6];

	PARSE("\x0a\x06\x12\x04"
	      "ab\xff"
	      "c",
	      message); /* ab U+FFFD: 5 bytes */
	assert_string_equal(message, "ab\xef\xbf\xbd");
	PARSE("\x0a\x09\x12\x07"
	      "abc\xe2\x82\xac"
	      "d",
	      message); /* the euro sign does not fit */
	assert_string_equal(message, "abc");
	PARSE("\x0a\x07\x12\x05"
	      "abcde",
	      message);
	assert_string_equal(message, "abcde");
	PARSE("\x0a\x08\x12\x06"
	      "abcdef",
	      message);
	assert_string_equal(message, "abcde");
}

static void random_answers_do_no_harm(void **state)
{
	uint64_t random = 88172645463325252;
	char message[16];
	uint8_t body[64];

	for (int round = 0; round < 20000; round++) {
		size_t len = (size_t)(random % sizeof(body));

		for (size_t at = 0; at < len; at++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			body[at] = (uint8_t)(at % 3 == 0 ? random % 0x20 : random);
		}
		if (len > 1)
			body[0] = 0x0a, body[1] = (uint8_t)(len - 2);
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		(void)parse((const char *)body, len, message, sizeof(message));
		assert_true(memchr(message, '\0', sizeof(message)) != NULL);
		assert_true(utf8_valid(message, strlen(message)));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(bytes_are_those_that_protoc_makes_of_the_public_schema),
	    TEST(only_classes_that_counted_have_points),
	    TEST(only_bad_accesses_that_were_made_have_points),
	    TEST(rates_of_bad_accesses_are_of_both_outcomes),
	    TEST(a_host_that_does_not_look_tells_no_bad_accesses),
	    TEST(container_and_pod_are_attributes),
	    TEST(attributes_without_a_value_are_left_out),
	    TEST(invalid_utf8_in_a_path_is_valid_in_the_batch),
	    TEST(a_series_never_begins_after_its_time),
	    TEST(a_cgroup_that_came_later_starts_later),
	    TEST(counts_beyond_the_format_stay_at_its_end),
	    TEST(a_host_without_faults_still_reports),
	    TEST(drops_are_told_by_reason),
	    TEST(splitting_loses_and_doubles_nothing),
	    TEST(a_batch_is_filled_to_the_last_byte),
	    TEST(a_point_that_is_too_large_is_left_out_and_counted),
	    TEST(no_room_for_anything_gives_no_batch),
	    cmocka_unit_test(a_partial_success_tells_how_many_and_why),
	    cmocka_unit_test(empty_and_unreadable_answers_mean_nothing),
	    cmocka_unit_test(a_message_is_made_valid_and_cut_between_characters),
	    cmocka_unit_test(random_answers_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
