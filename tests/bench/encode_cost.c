/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to put the state of many cgroups into bytes: encode_cost CGROUPS ROUNDS
 * Prints "FORMAT MEDIAN_MS P95_MS BYTES" for OTLP and for both text formats. Each cgroup looks like a container of a
 * pod and has counts in six classes, major faults, and rates in three windows.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/aggregate.h"
#include "daemon/model/self.h"
#include "daemon/model/snapshot.h"
#include "daemon/sink/exposition.h"
#include "daemon/sink/otlp.h"

#define SECOND 1000000000ull
#define MAX_ROUNDS 1001
#define BATCH_BYTES (4u << 20)

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "encode_cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

struct shape {
	const char *name;
	const char *path; /* takes the number once or twice */
	uint32_t classes;
};

static const struct shape shapes[] = {
    {"services", "/system.slice/service-%u.service", 3},
    {"containers",
     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%08x_1c2d_4e3f_8a9b_0123456789ab.slice/"
     "cri-containerd-%064x.scope",
     6},
};

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static struct identity *identify(const struct shape *shape, uint32_t number, char path[512])
{
	struct identity *identity = NULL;
	int n = snprintf(path, 512, shape->path, number, number);

	errno = -identity_parse(path, (size_t)n, &identity);
	if (errno)
		fail("identity_parse");
	return identity;
}

static void grow(struct aggregate *a, const struct shape *shape, uint32_t cgroup, uint64_t tick)
{
	uint64_t growth[FAULT_CLASSES] = {0};
	char path[512];

	for (uint32_t class = 0; class < 2 * shape->classes; class += 2)
		growth[class] = tick * cgroup * (class + 1);
	aggregate_faults(a, cgroup, growth);
	identity_free(identify(shape, cgroup, path));
	aggregate_major(a, path, 1);
}

static struct aggregate *populate(const struct shape *shape, uint32_t cgroups)
{
	static const uint64_t windows[] = {10 * SECOND, 60 * SECOND, 300 * SECOND};
	struct aggregate_options options = {
	    .max_cgroups = cgroups,
	    .max_ids = cgroups * 4,
	    .interval_ns = SECOND,
	    .windows_ns = windows,
	    .n_windows = 3,
	    .sinks = AGGREGATE_SINK_SCRAPE | AGGREGATE_SINK_SHIP,
	    .linger_ns = 60 * SECOND,
	    .now_ns = SECOND,
	    .now_unix_ns = 1700000000 * SECOND,
	};
	struct aggregate *a = NULL;
	char path[512];

	errno = -aggregate_new(&options, &a);
	if (errno)
		fail("aggregate_new");
	for (uint32_t i = 1; i <= cgroups; i++) {
		bool over_limit = false;

		errno = -aggregate_bind(a, i, identify(shape, i, path), &over_limit);
		if (errno || over_limit)
			fail("aggregate_bind");
	}
	for (uint64_t tick = 2; tick < 20; tick++) {
		for (uint32_t i = 1; i <= cgroups; i++)
			grow(a, shape, i, tick);
		aggregate_tick(a, tick * SECOND, options.now_unix_ns + tick * SECOND);
	}
	return a;
}

static size_t encode_otlp(const struct snapshot *s)
{
	static const struct otlp_host host = {"0.1.0", "5f2a1d0b9c8e4f7a8b6c5d4e3f2a1b0c", "bench", "amd64"};
	struct otlp_batch *batches = NULL;
	size_t n = 0, dropped = 0, bytes = 0;

	errno = -otlp_encode(s, &host, BATCH_BYTES, &batches, &n, &dropped);
	if (errno)
		fail("otlp_encode");
	for (size_t i = 0; i < n; i++)
		bytes += batches[i].size;
	otlp_batches_free(batches, n);
	return bytes;
}

static size_t encode_text(const struct snapshot *s, enum exposition_format format)
{
	struct strbuf out = {0};
	size_t bytes;

	exposition_render(s, format, &out);
	errno = -strbuf_error(&out);
	if (errno)
		fail("exposition_render");
	bytes = out.len;
	strbuf_done(&out);
	return bytes;
}

static size_t encode_plain(const struct snapshot *s)
{
	return encode_text(s, EXPOSITION_TEXT);
}

static size_t encode_openmetrics(const struct snapshot *s)
{
	return encode_text(s, EXPOSITION_OPENMETRICS);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *shape, const char *format, size_t (*encode)(const struct snapshot *),
		    const struct snapshot *s, int rounds)
{
	static double ms[MAX_ROUNDS];
	size_t bytes = encode(s); /* warm */

	for (int i = 0; i < rounds; i++) {
		uint64_t began = now_ns();

		bytes = encode(s);
		ms[i] = (double)(now_ns() - began) / 1e6;
	}
	qsort(ms, (size_t)rounds, sizeof(*ms), compare_doubles);
	printf("%s %s %.3f %.3f %zu\n", shape, format, ms[rounds / 2], ms[rounds * 95 / 100], bytes);
}

static void measure_shape(const struct shape *shape, int cgroups, int rounds)
{
	static const struct probe_info probes[] = {
	    {"page_faults", "tracepoint"},
	    {"major_page_faults", "memory.stat"},
	};
	static const struct self_stats self;
	struct aggregate *a = populate(shape, (uint32_t)cgroups);
	struct snapshot s = {
	    .now_ns = 20 * SECOND,
	    .now_unix_ns = 1700000020 * SECOND,
	    .aggregate = a,
	    .self = &self,
	    .probes = probes,
	    .n_probes = 2,
	};

	measure(shape->name, "otlp", encode_otlp, &s, rounds);
	measure(shape->name, "text", encode_plain, &s, rounds);
	measure(shape->name, "openmetrics", encode_openmetrics, &s, rounds);
	aggregate_free(a);
}

int main(int argc, char **argv)
{
	int cgroups = argc > 1 ? atoi(argv[1]) : 1000, rounds = argc > 2 ? atoi(argv[2]) : 101;

	if (cgroups < 1 || rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: encode_cost [CGROUPS [ROUNDS]]\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		measure_shape(&shapes[i], cgroups, rounds);
	return 0;
}
