/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are compared with those that protoc makes of the public schema, and read by a small parser of the wire
 * format; nothing of protobuf-c is used. With FAULTD_WRITE_OTLP=FILE the expected request is written there, as it was
 * encoded, for a test that has the official descriptors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/sink/otlp_logs.h"
#include "tests/unit/crash-fixture.h"
#include "tests/unit/otlp-logs-golden.h"
#include "tests/unit/wire.h"

#define T0 UINT64_C(1700000000000000000)
#define NO_LIMIT ((size_t)64 << 20)

static const struct otlp_host host = {"0.1.0", "0123456789abcdef", "node-1", "amd64"};

static void sentence(const struct crash *c, struct strbuf *out)
{
	strbuf_addf(out, "%s[%u] crashed", c->exe[0] ? "myapp" : "", c->pid);
}

static struct otlp_logs_options options(void)
{
	return (struct otlp_logs_options){
	    .host = &host, .body = sentence, .observed_unix_ns = T0 + 1000000000, .max_bytes = NO_LIMIT};
}

/* ---- crashes ---- */

static char myapp_path[] = "/system.slice/myapp.service", myapp_unit[] = "myapp.service", slice[] = "system.slice";
static char comm[] = "worker", exe[] = "/usr/bin/myapp", unknown[] = "unknown", nothing[] = "";
static struct identity myapp = {.path = myapp_path,
				.label = myapp_path,
				.unit = myapp_unit,
				.slice = slice,
				.runtime = nothing,
				.container_id = nothing,
				.pod_uid = nothing};
static struct identity nobody = {.path = unknown,
				 .label = unknown,
				 .unit = nothing,
				 .slice = nothing,
				 .runtime = nothing,
				 .container_id = nothing,
				 .pod_uid = nothing};

/* All that can be known. */
static struct crash rich_crash(void)
{
	return (struct crash){
	    .number = 3,
	    .time_unix_ns = T0 + 123456789,
	    .cgroup_id = 99,
	    .identity = &myapp,
	    .pid = 4711,
	    .tid = 4712,
	    .pid_inside = 7,
	    .tid_inside = 8,
	    .uid = 1000,
	    .comm = comm,
	    .exe = exe,
	    .class = BAD_BASE_SEGV + 1,
	    .signal = 11,
	    .code = 1,
	    .collapsed = true,
	    .has_address = true,
	    .address = 0xbadadd4e55,
	    .ip = 0xfeedf00d,
	    .sp = 0xffffffffffffffff,
	    .has_error_code = true,
	    .error_code = 6,
	    .access = FAULT_WRITE,
	    .kind = FAULT_MISSING,
	    .where = CRASH_ADDRESS_NULL_PAGE,
	    .fingerprint = 0xc0ffee00c0ffee,
	    .n_frames = 3,
	    .frames = {{.in = CRASH_IN_BUILD_ID,
			.build_id = "dead0000000000000000000000000000000000be",
			.offset = UINT64_MAX},
		       {.in = CRASH_IN_NOTHING},
		       {.in = CRASH_IN_PROGRAM, .offset = 0x1000}},
	    .core = CRASH_CORE_WRITTEN,
	    .suppressed = 12,
	};
}

/* As little as can be known. */
static struct crash poor_crash(void)
{
	return (struct crash){.time_unix_ns = T0 + 200000000,
			      .identity = &nobody,
			      .pid = 1,
			      .tid = 1,
			      .pid_inside = 1,
			      .tid_inside = 1,
			      .uid = UINT32_MAX,
			      .sender_pid = 42,
			      .comm = nothing,
			      .exe = nothing,
			      .class = BAD_BASE_BUS + BAD_CODE_SENT(BAD_CODES_BUS),
			      .signal = 7,
			      .code = -6};
}

/* ---- a request as text ---- */

static void free_batches(struct otlp_batch **batches)
{
	otlp_batches_free(*batches, *batches ? 1 : 0);
}

static size_t read_value(struct wire value, char *out, size_t size);

static size_t read_list(struct wire list, char *out, size_t size)
{
	struct wire_field f;
	size_t len = 0;

	while (wire_next(&list, &f)) {
		assert_int_equal(f.number, 1);
		len += (size_t)snprintf(out + len, size - len, "%s", len ? "," : "");
		len += read_value(f.bytes, out + len, size - len);
	}
	return len;
}

/* Texts in quotes, numbers and flags bare, lists in brackets. */
static size_t read_value(struct wire value, char *out, size_t size)
{
	char text[8192] = "";
	struct wire_field f;

	assert_true(wire_next(&value, &f));
	assert_ptr_equal(value.at, value.end);
	switch (f.number) {
	case 1:
		wire_text(f.bytes, text, sizeof(text));
		return (size_t)snprintf(out, size, "\"%s\"", text);
	case 2:
		return (size_t)snprintf(out, size, "%s", f.value ? "true" : "false");
	case 3:
		return (size_t)snprintf(out, size, "%lld", (long long)f.value);
	case 5:
		read_list(f.bytes, text, sizeof(text));
		return (size_t)snprintf(out, size, "[%s]", text);
	default:
		fail_msg("a value of field %u", f.number);
		return 0;
	}
}

/* One record as "body;key=value;key=value;" */
static void read_record(struct wire record, char *out, size_t size)
{
	struct wire_field f;
	char key[64];
	size_t len = read_value(wire_part(record, 5), out, size);

	len += (size_t)snprintf(out + len, size - len, ";");
	while (wire_next(&record, &f)) {
		if (f.number != 6)
			continue;
		wire_text(wire_part(f.bytes, 1), key, sizeof(key));
		len += (size_t)snprintf(out + len, size - len, "%s=", key);
		len += read_value(wire_part(f.bytes, 2), out + len, size - len);
		len += (size_t)snprintf(out + len, size - len, ";");
		assert_true(len < size);
	}
}

/* Checks what surrounds the records; calls `visit` for each. Returns their number. */
static size_t read_request(const struct otlp_batch *b, void (*visit)(struct wire record, void *userdata),
			   void *userdata)
{
	struct wire whole = {b->data, b->data + b->size}, resource_logs = wire_part(whole, 1),
		    scope_logs = wire_part(resource_logs, 2);
	struct wire_field f;
	char name[32];
	size_t n = 0;

	assert_ptr_equal(resource_logs.end, whole.end);
	assert_ptr_equal(scope_logs.end, whole.end);
	assert_non_null(wire_part(wire_part(resource_logs, 1), 1).at);
	wire_text(wire_part(wire_part(scope_logs, 1), 1), name, sizeof(name));
	assert_string_equal(name, "faultd");
	while (wire_next(&scope_logs, &f))
		if (f.number == 2) {
			visit(f.bytes, userdata);
			n++;
		}
	assert_int_equal(n, b->points);
	return n;
}

struct text {
	char text[16384];
};

static void keep_text(struct wire record, void *userdata)
{
	struct text *t = userdata;

	read_record(record, t->text, sizeof(t->text));
}

/* One crash, encoded and read back. */
static const char *told(const struct crash *c, const struct otlp_logs_options *o)
{
	static struct text text;
	cleanup(free_batches) struct otlp_batch *batches = NULL;
	size_t n = 0, dropped = 9;

	assert_int_equal(otlp_logs_encode(&c, 1, o, &batches, &n, &dropped), 0);
	assert_int_equal(n, 1);
	assert_int_equal(dropped, 0);
	assert_int_equal(read_request(&batches[0], keep_text, &text), 1);
	return text.text;
}

static void assert_told(const struct crash *c, const char *part)
{
	struct otlp_logs_options o = options();
	const char *text = told(c, &o);

	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

static void assert_not_told(const struct crash *c, const char *part)
{
	struct otlp_logs_options o = options();
	const char *text = told(c, &o);

	if (strstr(text, part))
		fail_msg("%s in %s", part, text);
}

/* ---- tests ---- */

static void write_request(const struct otlp_batch *b)
{
	const char *path = getenv("FAULTD_WRITE_OTLP");
	auto_fclose FILE *f = path ? fopen(path, "wb") : NULL;

	if (path)
		assert_true(f && fwrite(b->data, 1, b->size, f) == b->size);
}

static void bytes_are_those_that_protoc_makes_of_the_public_schema(void **state)
{
	struct crash rich = rich_crash(), poor = poor_crash();
	const struct crash *crashes[] = {&rich, &poor};
	struct otlp_logs_options o = options();
	cleanup(free_batches) struct otlp_batch *batches = NULL;
	size_t n = 0, dropped = 9;

	assert_int_equal(otlp_logs_encode(crashes, 2, &o, &batches, &n, &dropped), 0);
	assert_int_equal(n, 1);
	assert_int_equal(dropped, 0);
	assert_int_equal(batches[0].points, 2);
	write_request(&batches[0]);
	assert_int_equal(batches[0].size, sizeof(golden));
	assert_memory_equal(batches[0].data, golden, sizeof(golden));
}

static void addresses_leave_only_if_asked_for(void **state)
{
	struct otlp_logs_options o = options();
	struct crash c = rich_crash();
	const char *text = told(&c, &o);

	assert_null(strstr(text, "faultd.address="));
	assert_null(strstr(text, "faultd.ip"));
	assert_null(strstr(text, "faultd.sp"));
	assert_null(strstr(text, "badadd4e55"));
	assert_null(strstr(text, "feedf00d"));
	assert_null(strstr(text, "802535853653")); /* 0xbadadd4e55 */
	assert_null(strstr(text, "4277006349"));   /* 0xfeedf00d */
	o.addresses = true;
	text = told(&c, &o);
	assert_non_null(strstr(text, ";faultd.address=\"0xbadadd4e55\";"));
	assert_non_null(strstr(text, ";faultd.ip=\"0xfeedf00d\";"));
	assert_non_null(strstr(text, ";faultd.sp=\"0xffffffffffffffff\";"));
	c.has_address = false;
	text = told(&c, &o);
	assert_null(strstr(text, "faultd.address="));
	assert_non_null(strstr(text, "faultd.ip="));
}

static void what_is_no_page_fault_has_no_access(void **state)
{
	struct crash c = rich_crash();

	c.has_error_code = false;
	assert_not_told(&c, "faultd.access");
	assert_not_told(&c, "faultd.kind");
	assert_not_told(&c, "faultd.error_code");
	assert_told(&c, "faultd.address_class=");
}

static void container_and_pod_are_attributes(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = crash_in("/kubepods.slice/kubepods-burstable.slice/"
				 "kubepods-burstable-pod0a1b2c3d_0001_0002_0003_000000000004.slice/cri-containerd-"
				 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope",
				 &e);

	assert_told(c, ";k8s.pod.uid=\"0a1b2c3d-0001-0002-0003-000000000004\";");
	assert_told(c, ";container.runtime=\"containerd\";");
	assert_told(c, ";container.id=\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\";");
	assert_told(c, ";process.pid=4711;process.vpid=7;");
}

static void a_crash_of_the_kernels_record_is_told(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = crash_of(&e);

	assert_told(c, ";process.executable.path=\"/usr/bin/myapp\";process.executable.name=\"myapp\";");
	assert_told(c, ";thread.id=4712;thread.name=\"myapp\";");
	assert_told(c, ";faultd.signal=\"SIGSEGV\";faultd.code=\"maperr\";faultd.outcome=\"fatal\";");
	assert_told(c, ";faultd.frames=[\"dead000000000000000000000000000000000001+0x1000\",\"program+0x123\"];");
}

static void names_of_programs_are_the_last_component(void **state)
{
	struct crash c = rich_crash();
	char cut[] = ".../a/b c", bare[] = "prog", folder[] = "/odd/";

	c.exe = cut;
	assert_told(&c, "process.executable.path=\".../a/b c\";process.executable.name=\"b c\";");
	c.exe = bare;
	assert_told(&c, "process.executable.name=\"prog\";");
	c.exe = folder;
	assert_told(&c, "process.executable.path=\"/odd/\";process.real_user.id");
}

static void numbers_beyond_the_format_stay_at_its_end(void **state)
{
	struct crash c = rich_crash();

	c.suppressed = UINT64_MAX;
	c.pid = UINT32_MAX;
	assert_told(&c, "faultd.suppressed=9223372036854775807;");
	assert_told(&c, "process.pid=4294967295;");
}

static void more_frames_than_there_are_is_no_harm(void **state)
{
	struct crash c = rich_crash();

	c.n_frames = SIZE_MAX;
	assert_told(&c, "\"program+0x1000\",\"?\",");
	c.n_frames = 0;
	assert_not_told(&c, "faultd.frames");
}

static void spoilt_sentence(const struct crash *c, struct strbuf *out)
{
	strbuf_adds(out, "a\xff"
			 "b");
}

static void no_sentence(const struct crash *c, struct strbuf *out)
{
}

static void a_sentence_that_is_not_utf8_spoils_no_batch(void **state)
{
	struct otlp_logs_options o = options();
	struct crash c = rich_crash();

	o.body = spoilt_sentence;
	assert_int_equal(strncmp(told(&c, &o),
				 "\"a\xef\xbf\xbd"
				 "b\";",
				 8),
			 0);
	o.body = no_sentence;
	assert_int_equal(strncmp(told(&c, &o), "\"\";cgroup.path=", 15), 0);
}

/* ---- batches ---- */

#define CROWD 20

struct seen {
	unsigned pids[CROWD + 1];
	size_t n;
};

static void note_pid(struct wire record, void *userdata)
{
	struct seen *seen = userdata;
	char text[16384];

	read_record(record, text, sizeof(text));
	assert_true(seen->n < CROWD);
	assert_int_equal(sscanf(text, "\"myapp[%u]", &seen->pids[seen->n]), 1);
	seen->n++;
}

static void make_crowd(struct crash crowd[CROWD], const struct crash *list[CROWD])
{
	for (unsigned at = 0; at < CROWD; at++) {
		crowd[at] = rich_crash();
		crowd[at].pid = at + 1;
		crowd[at].n_frames = at % 4;
		list[at] = &crowd[at];
	}
}

static size_t encode_crowd(size_t max_bytes, size_t *ret_batches, size_t *ret_largest, size_t *ret_dropped)
{
	struct otlp_logs_options o = options();
	struct otlp_batch *batches = NULL;
	const struct crash *list[CROWD];
	struct crash crowd[CROWD];
	struct seen seen = {0};

	make_crowd(crowd, list);
	o.max_bytes = max_bytes;
	assert_int_equal(otlp_logs_encode(list, CROWD, &o, &batches, ret_batches, ret_dropped), 0);
	*ret_largest = 0;
	for (size_t at = 0; at < *ret_batches; at++) {
		assert_true(batches[at].size <= max_bytes);
		*ret_largest = batches[at].size > *ret_largest ? batches[at].size : *ret_largest;
		assert_true(read_request(&batches[at], note_pid, &seen) > 0);
	}
	for (size_t at = 1; at < seen.n; at++)
		assert_true(seen.pids[at] > seen.pids[at - 1]); /* in order, none twice */
	otlp_batches_free(batches, *ret_batches);
	return seen.n;
}

static void splitting_loses_and_doubles_nothing(void **state)
{
	size_t n, exact, largest, dropped;

	assert_int_equal(encode_crowd(NO_LIMIT, &n, &exact, &dropped), CROWD);
	assert_int_equal(n, 1);
	for (size_t max = exact; max > 2000; max = max * 9 / 10) {
		assert_int_equal(encode_crowd(max, &n, &largest, &dropped), CROWD);
		assert_int_equal(dropped, 0);
	}
	assert_true(n > 5);
	/* Filled to the last byte. */
	assert_int_equal(encode_crowd(exact, &n, &largest, &dropped), CROWD);
	assert_int_equal(n, 1);
	assert_int_equal(encode_crowd(exact - 1, &n, &largest, &dropped), CROWD);
	assert_int_equal(n, 2);
}

static void a_record_that_is_too_large_is_left_out_and_counted(void **state)
{
	struct otlp_logs_options o = options();
	struct crash small = poor_crash(), large = poor_crash();
	const struct crash *list[] = {&small, &large, &small};
	cleanup(free_batches) struct otlp_batch *batches = NULL;
	auto_free char *long_exe = malloc(5001);
	size_t n = 0, dropped = 0;

	assert_non_null(long_exe);
	memset(long_exe, 'x', 5000);
	long_exe[5000] = '\0';
	large.exe = long_exe;
	o.max_bytes = 4000;
	assert_int_equal(otlp_logs_encode(list, 3, &o, &batches, &n, &dropped), 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(n, 1);
	assert_int_equal(batches[0].points, 2);
}

static void no_room_for_anything_gives_no_batch(void **state)
{
	size_t n = 9, largest, dropped = 0;

	for (size_t max = 0; max < 900; max += 101) {
		assert_int_equal(encode_crowd(max, &n, &largest, &dropped), 0);
		assert_int_equal(n, 0);
		assert_int_equal(dropped, CROWD);
	}
}

static void no_crashes_give_no_batch(void **state)
{
	struct otlp_logs_options o = options();
	struct otlp_batch *batches = NULL;
	size_t n = 9, dropped = 9;

	assert_int_equal(otlp_logs_encode(NULL, 0, &o, &batches, &n, &dropped), 0);
	assert_int_equal(n, 0);
	assert_int_equal(dropped, 0);
	otlp_batches_free(batches, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_are_those_that_protoc_makes_of_the_public_schema),
	    cmocka_unit_test(addresses_leave_only_if_asked_for),
	    cmocka_unit_test(what_is_no_page_fault_has_no_access),
	    cmocka_unit_test(container_and_pod_are_attributes),
	    cmocka_unit_test(a_crash_of_the_kernels_record_is_told),
	    cmocka_unit_test(names_of_programs_are_the_last_component),
	    cmocka_unit_test(numbers_beyond_the_format_stay_at_its_end),
	    cmocka_unit_test(more_frames_than_there_are_is_no_harm),
	    cmocka_unit_test(a_sentence_that_is_not_utf8_spoils_no_batch),
	    cmocka_unit_test(splitting_loses_and_doubles_nothing),
	    cmocka_unit_test(a_record_that_is_too_large_is_left_out_and_counted),
	    cmocka_unit_test(no_room_for_anything_gives_no_batch),
	    cmocka_unit_test(no_crashes_give_no_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
