/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exposition against text written by hand from the documents of the two formats, and against promtool where it is
 * installed. With FAULTD_WRITE_DOCS=1 in the environment docs/metrics.md is written anew instead of compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/sink/exposition.h"
#include "daemon/sink/negotiate.h"

#define PROMTOOL "/usr/bin/promtool"

/* A path with all that the formats escape, and with what they do not: tab, control character, U+FFFD, other scripts. */
#define ODD_LABEL "/a\"b\\x2d\nc\td\x01\xef\xbf\xbd\xc3\xa9"
#define ODD_ESCAPED "/a\\\"b\\\\x2d\\nc\td\x01\xef\xbf\xbd\xc3\xa9"

/* ---- fixture ---- */

struct world {
	struct aggregate *aggregate;
	struct self_stats self;
	struct process_stats process;
	struct probe_info probes[2];
	struct snapshot snapshot;
};

static struct identity *make_identity(const char *label, const char *unit, const char *slice, const char *runtime,
				      const char *container_id, const char *pod_uid)
{
	struct identity *id = calloc(1, sizeof(*id));

	assert_non_null(id);
	id->path = strdup(label);
	id->label = strdup(label);
	id->unit = strdup(unit);
	id->slice = strdup(slice);
	id->runtime = strdup(runtime);
	id->container_id = strdup(container_id);
	id->pod_uid = strdup(pod_uid);
	return id;
}

static void bind_cgroup(struct aggregate *a, uint64_t id, struct identity *identity)
{
	bool over_limit;

	assert_int_equal(aggregate_bind(a, id, identity, &over_limit), 0);
	assert_false(over_limit);
}

static void bind_plain(struct aggregate *a, uint64_t id, const char *label)
{
	bind_cgroup(a, id, make_identity(label, "", "", "", "", ""));
}

static void add_faults(struct aggregate *a, uint64_t id, uint32_t class, uint64_t n)
{
	uint64_t growth[FAULT_CLASSES] = {0};

	growth[class] = n;
	aggregate_faults(a, id, growth);
}

static struct aggregate *make_aggregate(uint32_t max, const uint64_t *windows_ns, size_t n_windows)
{
	const struct aggregate_options options = {
	    .max_cgroups = max,
	    .max_ids = max,
	    .interval_ns = NSEC_PER_SEC,
	    .windows_ns = windows_ns,
	    .n_windows = n_windows,
	    .sinks = AGGREGATE_SINK_SCRAPE,
	    .linger_ns = 60 * NSEC_PER_SEC,
	    .now_ns = 100 * NSEC_PER_SEC,
	    .now_unix_ns = 1700000000 * NSEC_PER_SEC,
	};
	struct aggregate *a = NULL;

	assert_int_equal(aggregate_new(&options, &a), 0);
	return a;
}

static void point_snapshot(struct world *w)
{
	w->probes[0] = (struct probe_info){.probe = "page_faults", .backend = "tracepoint"};
	w->probes[1] = (struct probe_info){.probe = "major_page_faults", .backend = "memory.stat"};
	w->snapshot = (struct snapshot){
	    .now_ns = 103 * NSEC_PER_SEC,
	    .now_unix_ns = 1700000003 * NSEC_PER_SEC,
	    .aggregate = w->aggregate,
	    .self = &w->self,
	    .probes = w->probes,
	    .n_probes = 2,
	};
}

/* Three cgroups, of which one never faulted, and faults of no cgroup; 3 s of counting. */
static int make_world(void **state)
{
	static const uint64_t windows[] = {10 * NSEC_PER_SEC, 60 * NSEC_PER_SEC};
	struct world *w = calloc(1, sizeof(*w));
	struct aggregate *a;

	assert_non_null(w);
	a = w->aggregate = make_aggregate(8, windows, 2);
	bind_cgroup(
	    a, 1,
	    make_identity("/system.slice/docker-0a.scope", "docker-0a.scope", "system.slice", "docker", "0a", "11-22"));
	bind_plain(a, 2, ODD_LABEL);
	bind_plain(a, 3, "/idle.slice");
	add_faults(a, 1, FAULT_CLASS(FAULT_USER, FAULT_READ, FAULT_MISSING), 25);
	add_faults(a, 1, FAULT_CLASS(FAULT_KERNEL, FAULT_WRITE, FAULT_PROTECTION), 5);
	add_faults(a, 2, FAULT_CLASS(FAULT_USER, FAULT_EXEC, FAULT_OTHER), 18446744073709551000u);
	add_faults(a, 0, FAULT_CLASS_MODE_ONLY(FAULT_USER), 1);
	aggregate_faults_unclassed(a, 0, 4);
	aggregate_major(a, "/system.slice/docker-0a.scope", 7);
	aggregate_major(a, "/idle.slice", 0);
	aggregate_major_other(a, 0);
	aggregate_tick(a, 103 * NSEC_PER_SEC, 1700000003 * NSEC_PER_SEC);
	point_snapshot(w);
	*state = w;
	return 0;
}

static int free_world(void **state)
{
	struct world *w = *state;

	aggregate_free(w->aggregate);
	free(w);
	return 0;
}

static char *render(const struct world *w, enum exposition_format format)
{
	struct strbuf out = {0};

	exposition_render(&w->snapshot, format, &out);
	assert_int_equal(strbuf_error(&out), 0);
	return strbuf_take(&out);
}

/* Cuts `text` off before the first line that begins with `line`. */
static void cut_before(char *text, const char *line)
{
	char *at = strstr(text, line);

	assert_non_null(at);
	*at = '\0';
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("missing: %s", part);
}

static void assert_lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("not expected: %s", part);
}

/* ---- golden text ---- */

static const char text_golden[] =
    "# HELP faultd_page_faults_total Page faults of the tasks in a cgroup, those in its children not included, by "
    "class.\n"
    "# TYPE faultd_page_faults_total counter\n"
    "faultd_page_faults_total{cgroup=\"other\",mode=\"user\",access=\"unknown\",kind=\"unknown\"} 1\n"
    "faultd_page_faults_total{cgroup=\"other\",mode=\"unknown\",access=\"unknown\",kind=\"unknown\"} 4\n"
    "faultd_page_faults_total{cgroup=\"/system.slice/docker-0a.scope\",mode=\"user\",access=\"read\",kind=\"missing\"} "
    "25\n"
    "faultd_page_faults_total{cgroup=\"/system.slice/docker-0a.scope\",mode=\"kernel\",access=\"write\","
    "kind=\"protection\"} 5\n"
    "faultd_page_faults_total{cgroup=\"" ODD_ESCAPED
    "\",mode=\"user\",access=\"exec\",kind=\"other\"} 18446744073709551000\n"
    "# HELP faultd_major_page_faults_total Page faults that had to wait for storage; faultd_page_faults_total counts "
    "them "
    "as well.\n"
    "# TYPE faultd_major_page_faults_total counter\n"
    "faultd_major_page_faults_total{cgroup=\"other\"} 0\n"
    "faultd_major_page_faults_total{cgroup=\"/system.slice/docker-0a.scope\"} 7\n"
    "# HELP faultd_page_fault_rate Page faults per second over a sliding window.\n"
    "# TYPE faultd_page_fault_rate gauge\n"
    "faultd_page_fault_rate{cgroup=\"other\",window=\"10s\"} 1.666667\n"
    "faultd_page_fault_rate{cgroup=\"other\",window=\"1m\"} 1.666667\n"
    "faultd_page_fault_rate{cgroup=\"/system.slice/docker-0a.scope\",window=\"10s\"} 10.0\n"
    "faultd_page_fault_rate{cgroup=\"/system.slice/docker-0a.scope\",window=\"1m\"} 10.0\n"
    /* A window keeps at most 2^32-1 faults of one interval. */
    "faultd_page_fault_rate{cgroup=\"" ODD_ESCAPED "\",window=\"10s\"} 1431655765.0\n"
    "faultd_page_fault_rate{cgroup=\"" ODD_ESCAPED "\",window=\"1m\"} 1431655765.0\n"
    "# HELP faultd_cgroup_info What a cgroup is, to be joined on the label cgroup; what does not apply is empty.\n"
    "# TYPE faultd_cgroup_info gauge\n"
    "faultd_cgroup_info{cgroup=\"other\",unit=\"\",slice=\"\",runtime=\"\",container_id=\"\",pod_uid=\"\"} 1\n"
    "faultd_cgroup_info{cgroup=\"/system.slice/docker-0a.scope\",unit=\"docker-0a.scope\",slice=\"system.slice\","
    "runtime=\"docker\",container_id=\"0a\",pod_uid=\"11-22\"} 1\n"
    "faultd_cgroup_info{cgroup=\"" ODD_ESCAPED
    "\",unit=\"\",slice=\"\",runtime=\"\",container_id=\"\",pod_uid=\"\"} 1\n"
    "# HELP faultd_probe_info What each probe counts with on this kernel.\n"
    "# TYPE faultd_probe_info gauge\n"
    "faultd_probe_info{probe=\"page_faults\",backend=\"tracepoint\"} 1\n"
    "faultd_probe_info{probe=\"major_page_faults\",backend=\"memory.stat\"} 1\n";

static void text_of_cgroups_is_as_the_format_demands(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT);

	cut_before(text, "# HELP faultd_build_info");
	assert_string_equal(text, text_golden);
	free(text);
}

static void openmetrics_names_families_without_the_suffixes_of_samples(void **state)
{
	char *text = render(*state, EXPOSITION_OPENMETRICS);

	assert_has(text, "# TYPE faultd_page_faults counter\n# HELP faultd_page_faults Page");
	assert_has(text, "\nfaultd_page_faults_total{cgroup=\"" ODD_ESCAPED "\",mode=\"user\",");
	assert_has(text, "# TYPE faultd_cgroup info\n# HELP faultd_cgroup What");
	assert_has(text, "\nfaultd_cgroup_info{cgroup=\"other\",");
	assert_has(text, "# TYPE faultd_page_fault_rate gauge\n");
	assert_has(text, "# TYPE faultd_probe_memory_bytes gauge\n# UNIT faultd_probe_memory_bytes bytes\n# HELP ");
	assert_has(text, "# TYPE faultd_ship_sent_bytes counter\n# UNIT faultd_ship_sent_bytes bytes\n# HELP ");
	assert_has(text, "\nfaultd_ship_sent_bytes_total 0\n");
	assert_has(text, "# UNIT faultd_loop_longest_run_seconds seconds\n");
	assert_lacks(text, "_total counter");
	assert_lacks(text, "_info info");
	free(text);
}

static void openmetrics_ends_in_one_eof_line_and_text_has_none(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT), *open = render(*state, EXPOSITION_OPENMETRICS);
	const char *eof = strstr(open, "# EOF\n");

	assert_lacks(text, "# EOF");
	assert_lacks(text, "# UNIT");
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_non_null(eof);
	assert_string_equal(eof, "# EOF\n");
	free(text);
	free(open);
}

static void build_info_tells_version_and_arch(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT);

	assert_has(text, "\nfaultd_build_info{version=\"" FAULTD_VERSION "\",arch=\"");
	free(text);
}

static void a_cgroup_that_never_faulted_has_no_series(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT);

	assert_lacks(text, "/idle.slice");
	free(text);
}

static void without_a_source_of_major_faults_none_are_shown(void **state)
{
	static const uint64_t windows[] = {10 * NSEC_PER_SEC};
	struct world w = {.aggregate = make_aggregate(2, windows, 1)};
	char *text;

	bind_plain(w.aggregate, 1, "/a");
	add_faults(w.aggregate, 1, 0, 1);
	point_snapshot(&w);
	text = render(&w, EXPOSITION_TEXT);
	assert_lacks(text, "faultd_major_page_faults_total{");
	assert_has(text, "faultd_page_fault_rate{cgroup=\"other\",window=\"10s\"} 0.0\n");
	free(text);
	aggregate_free(w.aggregate);
}

static void a_dead_cgroup_is_shown_until_reported_and_then_its_counts_are_in_other(void **state)
{
	struct world *w = *state;
	char *text;

	aggregate_unbind(w->aggregate, 1, 104 * NSEC_PER_SEC);
	text = render(w, EXPOSITION_TEXT);
	assert_has(text, "docker-0a.scope\",mode=\"user\",access=\"read\",kind=\"missing\"} 25\n");
	free(text);

	aggregate_reported(w->aggregate, AGGREGATE_SINK_SCRAPE, aggregate_deaths(w->aggregate));
	aggregate_tick(w->aggregate, 105 * NSEC_PER_SEC, 1700000005 * NSEC_PER_SEC);
	text = render(w, EXPOSITION_TEXT);
	assert_lacks(text, "docker-0a.scope");
	assert_has(text, "{cgroup=\"other\",mode=\"user\",access=\"read\",kind=\"missing\"} 25\n");
	assert_has(text, "faultd_major_page_faults_total{cgroup=\"other\"} 7\n");
	free(text);
}

static void windows_are_named_by_the_largest_unit_that_divides_them(void **state)
{
	static const uint64_t windows[] = {1500 * NSEC_PER_MSEC, 90 * NSEC_PER_SEC, 120 * NSEC_PER_SEC,
					   3600 * NSEC_PER_SEC};
	static const char *const names[] = {"1500ms", "90s", "2m", "1h"};
	struct world w = {.aggregate = make_aggregate(1, windows, 4)};
	char line[96], *text;

	point_snapshot(&w);
	text = render(&w, EXPOSITION_TEXT);
	for (size_t i = 0; i < 4; i++) {
		snprintf(line, sizeof(line), "{cgroup=\"other\",window=\"%s\"} 0.0\n", names[i]);
		assert_has(text, line);
	}
	free(text);
	aggregate_free(w.aggregate);
}

/* ---- bad accesses ---- */

static void add_bad(struct aggregate *a, uint64_t id, enum bad_outcome outcome, uint32_t class, uint64_t n)
{
	struct bad_counts growth = {0};

	growth.count[outcome][class] = n;
	aggregate_bad(a, id, &growth);
}

static const char bad_golden[] =
    "# HELP faultd_bad_accesses_total Signals of bad memory accesses that were delivered, in the cgroup of the "
    "victim.\n"
    "# TYPE faultd_bad_accesses_total counter\n"
    "faultd_bad_accesses_total{cgroup=\"/system.slice/"
    "docker-0a.scope\",signal=\"SIGSEGV\",code=\"maperr\",outcome=\"handled\"} 6\n"
    "faultd_bad_accesses_total{cgroup=\"/system.slice/"
    "docker-0a.scope\",signal=\"SIGBUS\",code=\"adrerr\",outcome=\"fatal\"} 3\n"
    "faultd_bad_accesses_total{cgroup=\"/idle.slice\",signal=\"SIGSEGV\",code=\"sent\",outcome=\"fatal\"} 1\n"
    "# HELP faultd_bad_access_rate Bad accesses per second over a sliding window, whatever their outcome.\n"
    "# TYPE faultd_bad_access_rate gauge\n"
    "faultd_bad_access_rate{cgroup=\"other\",window=\"10s\"} 0.0\n"
    "faultd_bad_access_rate{cgroup=\"other\",window=\"1m\"} 0.0\n"
    "faultd_bad_access_rate{cgroup=\"/system.slice/docker-0a.scope\",window=\"10s\"} 1.5\n"
    "faultd_bad_access_rate{cgroup=\"/system.slice/docker-0a.scope\",window=\"1m\"} 1.5\n"
    "faultd_bad_access_rate{cgroup=\"/idle.slice\",window=\"10s\"} 0.166667\n"
    "faultd_bad_access_rate{cgroup=\"/idle.slice\",window=\"1m\"} 0.166667\n"
    "# HELP faultd_bad_access_latency_seconds Time from the page fault to the delivery of its signal; only with "
    "bad_access.latency.\n"
    "# TYPE faultd_bad_access_latency_seconds histogram\n"
    "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"0.000000512\"} 0\n"
    "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"0.000001024\"} 2\n"
    "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"0.000002048\"} 2\n";

/* After the three seconds of the world three more, in which the idle one makes its first. */
static void make_bad_accesses(struct world *w)
{
	struct bad_latencies slow = {.bucket = {[1] = 2, [BAD_LATENCY_BUCKETS - 1] = 1}, .sum_ns = 1500000000};

	w->snapshot.bad_signals = 1u << BAD_SEGV;
	add_bad(w->aggregate, 1, BAD_HANDLED, BAD_BASE_SEGV + 1, 6);
	add_bad(w->aggregate, 1, BAD_FATAL, BAD_BASE_BUS + 2, 3);
	add_bad(w->aggregate, 3, BAD_FATAL, BAD_BASE_SEGV + BAD_CODE_SENT(BAD_CODES_SEGV), 1);
	aggregate_latencies(w->aggregate, 3, &slow);
	aggregate_tick(w->aggregate, 106 * NSEC_PER_SEC, 1700000006 * NSEC_PER_SEC);
}

static void bad_accesses_are_shown_by_signal_code_and_outcome(void **state)
{
	struct world *w = *state;
	char *text, *begin;

	make_bad_accesses(w);
	text = render(w, EXPOSITION_TEXT);
	begin = strstr(text, "# HELP faultd_bad_accesses_total");
	assert_non_null(begin);
	cut_before(begin, "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"0.000004096\"}");
	assert_string_equal(begin, bad_golden);
	free(text);
}

static void a_histogram_ends_in_all_sum_and_count(void **state)
{
	struct world *w = *state;
	char *text;

	make_bad_accesses(w);
	text = render(w, EXPOSITION_OPENMETRICS);
	assert_has(
	    text,
	    "# TYPE faultd_bad_access_latency_seconds histogram\n# UNIT faultd_bad_access_latency_seconds seconds\n");
	assert_has(text, "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"0.008388608\"} 2\n"
			 "faultd_bad_access_latency_seconds_bucket{cgroup=\"/idle.slice\",le=\"+Inf\"} 3\n"
			 "faultd_bad_access_latency_seconds_sum{cgroup=\"/idle.slice\"} 1.5\n"
			 "faultd_bad_access_latency_seconds_count{cgroup=\"/idle.slice\"} 3\n");
	free(text);
}

static void bad_accesses_that_nobody_counts_are_not_shown(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT);

	assert_lacks(text, "faultd_bad_access");
	free(text);
}

static void the_vma_lock_is_shown_where_the_kernel_counts(void **state)
{
	static const struct vma_lock_stats stats = {.success = 4, .abort = 3, .retry = 2, .miss = 1};
	struct world *w = *state;
	char *text = render(w, EXPOSITION_TEXT);

	assert_lacks(text, "faultd_vma_lock");
	free(text);
	w->snapshot.vma_lock = &stats;
	text = render(w, EXPOSITION_TEXT);
	assert_has(text, "# TYPE faultd_vma_lock_total counter\n"
			 "faultd_vma_lock_total{result=\"success\"} 4\n"
			 "faultd_vma_lock_total{result=\"abort\"} 3\n"
			 "faultd_vma_lock_total{result=\"retry\"} 2\n"
			 "faultd_vma_lock_total{result=\"miss\"} 1\n");
	free(text);
}

/* ---- figures ---- */

static void each_self_metric_is_shown_with_its_value(void **state)
{
	struct world *w = *state;
	char *text, line[256];
	uint64_t next = 1000;

#define SET(field, kind, name, label, value, help) w->self.field = next++;
	SELF_METRICS(SET)
#undef SET
	text = render(w, EXPOSITION_TEXT);
	next = 1000;
#define shown_counter "_total"
#define shown_gauge ""
#define shown_seconds ""
#define CHECK(field, kind, name, label, value, help)                                                          \
	snprintf(line, sizeof(line), "\nfaultd_" name shown_##kind "%s%s%s%s%s %s%llu\n", (label) ? "{" : "", \
		 (label) ? (const char *)(label) : "", (label) ? "=\"" : "", value, (label) ? "\"}" : "",     \
		 shown_##kind[0] == '\0' && strcmp(#kind, "seconds") == 0 ? "0.00000" : "",                   \
		 (unsigned long long)next++);                                                                 \
	assert_has(text, line);
	SELF_METRICS(CHECK)
#undef CHECK
	free(text);
}

static void nanoseconds_are_shown_as_seconds(void **state)
{
	struct world *w = *state;
	char *text;

	w->self.loop_worst_ns = 1234567;
	w->process = (struct process_stats){
	    .cpu_ns = 12500000000,
	    .start_unix_ns = 1700000000123456789,
	    .virtual_bytes = 1 << 20,
	    .resident_bytes = 4096,
	    .open_fds = 17,
	    .max_fds = 1024,
	};
	w->snapshot.process = &w->process;
	text = render(w, EXPOSITION_TEXT);
	assert_has(text, "\nfaultd_loop_longest_run_seconds 0.001234567\n");
	assert_has(text, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n");
	assert_has(text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1700000000.123456789\n");
	assert_has(text, "\nprocess_virtual_memory_bytes 1048576\n");
	assert_has(text, "\nprocess_resident_memory_bytes 4096\n");
	assert_has(text, "\nprocess_open_fds 17\n");
	assert_has(text, "\nprocess_max_fds 1024\n");
	free(text);
}

static void process_figures_that_are_not_known_are_left_out(void **state)
{
	struct world *w = *state;
	char *text = render(w, EXPOSITION_TEXT);

	assert_lacks(text, "process_");
	free(text);
	w->process.open_fds = 3;
	w->snapshot.process = &w->process;
	text = render(w, EXPOSITION_TEXT);
	assert_has(text, "\nprocess_open_fds 3\n");
	assert_lacks(text, "process_start_time_seconds");
	free(text);
}

/* ---- rules for the whole page ---- */

static void families_stand_together_and_no_series_comes_twice(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT), *series[512], *names[512];
	size_t n = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *value = strrchr(line, ' ');

		if (line[0] == '#')
			continue;
		assert_true(n < 512);
		*value = '\0';
		series[n] = line;
		names[n] = strndup(line, strcspn(line, "{"));
		for (size_t i = 0; i < n; i++) {
			assert_string_not_equal(series[i], line);
			if (strcmp(names[i], names[n]) == 0)
				assert_string_equal(names[n - 1], names[n]);
		}
		n++;
	}
	assert_true(n > 40);
	while (n > 0)
		free(names[--n]);
	free(text);
}

/* Quotes are escaped in the help of OpenMetrics but not of text 0.0.4; ours has nothing to escape. */
static void help_lines_need_no_escapes(void **state)
{
	char *text = render(*state, EXPOSITION_TEXT);

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strncmp(line, "# HELP ", 7) == 0)
			assert_int_equal(line[strcspn(line, "\"\\")], '\0');
	free(text);
}

static void promtool_finds_nothing_to_complain_of(void **state)
{
	struct world *w = *state;
	char *text;
	FILE *tool;

	if (access(PROMTOOL, X_OK) != 0) {
		print_message("skipped: no " PROMTOOL "\n");
		skip();
	}
	w->process = (struct process_stats){1, 1, 1, 1, 1, 1};
	w->snapshot.process = &w->process;
	make_bad_accesses(w);
	text = render(w, EXPOSITION_TEXT);
	tool = popen(PROMTOOL " check metrics >&2", "w");
	assert_non_null(tool);
	assert_int_equal(fwrite(text, 1, strlen(text), tool), strlen(text));
	assert_int_equal(pclose(tool), 0);
	free(text);
}

static void a_failed_buffer_is_reported_and_not_written_to(void **state)
{
	struct world *w = *state;
	struct strbuf out = {.error = -12};

	exposition_render(&w->snapshot, EXPOSITION_TEXT, &out);
	assert_int_equal(strbuf_error(&out), -12);
	assert_int_equal(out.len, 0);
	strbuf_done(&out);
}

/* ---- negotiation ---- */

#define PROTO "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

static void accept_headers_choose_the_format(void **state)
{
	static const struct {
		const char *accept;
		enum exposition_format format;
	} cases[] = {
	    /* Prometheus 2.30, 2.42, 2.53 */
	    {"application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", EXPOSITION_TEXT},
	    {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
	     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	     EXPOSITION_OPENMETRICS},
	    {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
	     "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
	     EXPOSITION_OPENMETRICS},
	    /* Prometheus 3: by default, with native histograms, with text first in scrape_protocols */
	    {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
	     "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
	     "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
	     EXPOSITION_OPENMETRICS},
	    {PROTO ";q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
		   "application/openmetrics-text;version=0.0.1;q=0.4,"
		   "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
	     EXPOSITION_OPENMETRICS},
	    {"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,"
	     "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.3",
	     EXPOSITION_TEXT},
	    {PROTO ";q=0.7,text/plain;version=0.0.4;q=0.3", EXPOSITION_TEXT},
	    {PROTO, EXPOSITION_TEXT},
	    /* people */
	    {NULL, EXPOSITION_TEXT},
	    {"", EXPOSITION_TEXT},
	    {"*/*", EXPOSITION_TEXT},
	    {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", EXPOSITION_TEXT},
	    {"text/plain", EXPOSITION_TEXT},
	    {"application/openmetrics-text", EXPOSITION_OPENMETRICS},
	    {"application/*", EXPOSITION_OPENMETRICS},
	    /* weights */
	    {"text/plain, application/openmetrics-text", EXPOSITION_OPENMETRICS},
	    {"application/openmetrics-text;q=0.5, text/plain;q=0.501", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=0.501, text/plain;q=0.5", EXPOSITION_OPENMETRICS},
	    {"application/openmetrics-text;q=0", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=0, */*", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=0.2, */*;q=0.9", EXPOSITION_TEXT},
	    {"text/plain;q=0, */*", EXPOSITION_OPENMETRICS},
	    {"*/*;q=1, text/*;q=0.1", EXPOSITION_OPENMETRICS},
	    {"application/openmetrics-text;version=1.0.0;q=0.1,application/openmetrics-text;q=1,text/plain;q=0.5",
	     EXPOSITION_TEXT},
	    /* spelling */
	    {" APPLICATION/OpenMetrics-Text ; Version=\"1.0.0\" ;Q=1.000 , text/plain ", EXPOSITION_OPENMETRICS},
	    {"application/openmetrics-text;x=\"a,b;q=0\\\";q=0\";q=1,text/plain;q=0.5", EXPOSITION_OPENMETRICS},
	    /* not spoken, garbage */
	    {"application/openmetrics-text;version=2.0.0", EXPOSITION_TEXT},
	    {"application/openmetrics-text;version=2.0.0,text/plain;q=0.1", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=2", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=1.001", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=-1", EXPOSITION_TEXT},
	    {"application/openmetrics-text;q=0.1234", EXPOSITION_TEXT},
	    {"application/openmetrics-textual", EXPOSITION_TEXT},
	    {"application/openmetrics", EXPOSITION_TEXT},
	    {";;;,,,;q=1,=;=,\"", EXPOSITION_TEXT},
	    {"\"application/openmetrics-text", EXPOSITION_TEXT},
	    {"\xff\xfe\x80,\\", EXPOSITION_TEXT},
	    {"application/openmetrics-text;version=\"", EXPOSITION_TEXT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (exposition_negotiate(cases[i].accept) != cases[i].format)
			fail_msg("wrong format for: %s", cases[i].accept ? cases[i].accept : "(none)");
}

static void an_absurdly_long_accept_header_is_read_to_its_end(void **state)
{
	static const char last[] = "application/openmetrics-text";
	size_t n = 2000000;
	char *header = malloc(n + sizeof(last));

	assert_non_null(header);
	for (size_t i = 0; i < n; i += 4)
		memcpy(header + i, i % 8 ? "a/b," : ";;,,", 4);
	memcpy(header + n, last, sizeof(last));
	assert_int_equal(exposition_negotiate(header), EXPOSITION_OPENMETRICS);
	memset(header, '"', n);
	assert_int_equal(exposition_negotiate(header), EXPOSITION_TEXT);
	free(header);
}

static void content_types_are_those_of_the_formats(void **state)
{
	assert_string_equal(exposition_content_type(EXPOSITION_TEXT), "text/plain; version=0.0.4; charset=utf-8");
	assert_string_equal(exposition_content_type(EXPOSITION_OPENMETRICS),
			    "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

static void accept_encoding_decides_on_gzip(void **state)
{
	static const struct {
		const char *header;
		bool gzip;
	} cases[] = {
	    {NULL, false},
	    {"", false},
	    {"gzip", true},
	    {"GZIP;q=0.5", true},
	    {"deflate, gzip;q=1.0, *;q=0.5", true},
	    {"x-gzip", true},
	    {"*", true},
	    {"gzip;q=0", false},
	    {"gzip;q=0.0, *", false},
	    {"*;q=0", false},
	    {"identity", false},
	    {"identity, gzip;q=0.5", false},
	    {"identity;q=0.5, gzip", true},
	    {"br, zstd", false},
	    {"gzipped", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (negotiate_gzip(cases[i].header) != cases[i].gzip)
			fail_msg("wrong answer for: %s", cases[i].header ? cases[i].header : "(none)");
}

/* ---- documentation ---- */

static void docs_metrics_md_is_what_the_program_says(void **state)
{
	static const char path[] = PROJECT "/docs/metrics.md";
	struct strbuf reference = {0}, file = {0};
	char bytes[4096];
	size_t n;
	FILE *f;

	exposition_reference(&reference);
	assert_int_equal(strbuf_error(&reference), 0);

	f = fopen(path, getenv("FAULTD_WRITE_DOCS") ? "w+" : "r");
	assert_non_null(f);
	if (getenv("FAULTD_WRITE_DOCS")) {
		assert_int_equal(fwrite(reference.data, 1, reference.len, f), reference.len);
		rewind(f);
	}
	while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
		strbuf_add(&file, bytes, n);
	fclose(f);
	assert_string_equal(file.data ? file.data : "", reference.data);
	strbuf_done(&file);
	strbuf_done(&reference);
}

int main(void)
{
#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, free_world)
	const struct CMUnitTest tests[] = {
	    WITH_WORLD(text_of_cgroups_is_as_the_format_demands),
	    WITH_WORLD(openmetrics_names_families_without_the_suffixes_of_samples),
	    WITH_WORLD(openmetrics_ends_in_one_eof_line_and_text_has_none),
	    WITH_WORLD(build_info_tells_version_and_arch),
	    WITH_WORLD(a_cgroup_that_never_faulted_has_no_series),
	    cmocka_unit_test(without_a_source_of_major_faults_none_are_shown),
	    WITH_WORLD(a_dead_cgroup_is_shown_until_reported_and_then_its_counts_are_in_other),
	    cmocka_unit_test(windows_are_named_by_the_largest_unit_that_divides_them),
	    WITH_WORLD(bad_accesses_are_shown_by_signal_code_and_outcome),
	    WITH_WORLD(a_histogram_ends_in_all_sum_and_count),
	    WITH_WORLD(bad_accesses_that_nobody_counts_are_not_shown),
	    WITH_WORLD(the_vma_lock_is_shown_where_the_kernel_counts),
	    WITH_WORLD(each_self_metric_is_shown_with_its_value),
	    WITH_WORLD(nanoseconds_are_shown_as_seconds),
	    WITH_WORLD(process_figures_that_are_not_known_are_left_out),
	    WITH_WORLD(families_stand_together_and_no_series_comes_twice),
	    WITH_WORLD(help_lines_need_no_escapes),
	    WITH_WORLD(promtool_finds_nothing_to_complain_of),
	    WITH_WORLD(a_failed_buffer_is_reported_and_not_written_to),
	    cmocka_unit_test(accept_headers_choose_the_format),
	    cmocka_unit_test(an_absurdly_long_accept_header_is_read_to_its_end),
	    cmocka_unit_test(content_types_are_those_of_the_formats),
	    cmocka_unit_test(accept_encoding_decides_on_gzip),
	    cmocka_unit_test(docs_metrics_md_is_what_the_program_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
