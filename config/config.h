/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration as the daemon uses it: parsed, checked, in base units. The YAML side is config/keys.c (one key table:
 * path, type, range, default, help) and config/yaml.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"

enum config_hierarchy { CONFIG_HIERARCHY_AUTO, CONFIG_HIERARCHY_V2 };
enum config_page_faults { CONFIG_FAULTS_AUTO, CONFIG_FAULTS_TRACEPOINT, CONFIG_FAULTS_MEMCG, CONFIG_FAULTS_OFF };
enum config_compression { CONFIG_COMPRESSION_NONE, CONFIG_COMPRESSION_GZIP };

struct config_list {
	char **items;
	size_t count;
};

struct config_header {
	char *name;
	char *value;
};

struct config {
	uint64_t interval_ns;	  /* interval: 100ms..10s, default 1s */
	uint64_t windows_ns[8];	  /* windows: 1 to 8, ascending, each a multiple of interval and <= 1h; default 10s 1m 5m */
	size_t n_windows;
	struct {
		struct config_list include; /* globs, default one that matches all */
		struct config_list exclude; /* globs, default none */
		uint32_t max;		    /* 1..65536, default 1024 */
		enum config_hierarchy hierarchy;
		uint64_t memory_bytes; /* cgroups.memory: budget for counters in the kernel, 1MiB..4GiB, default 64MiB */
	} cgroups;
	struct {
		enum config_page_faults page_faults;
	} probes;
	struct {
		struct config_list listen; /* "ADDR:PORT", "[ADDR6]:PORT", "unix:/PATH", "systemd"; default 127.0.0.1:11011; [] = off */
		uint32_t max_concurrent;   /* scrapes at once, more get 503: 1..64, default 4 */
	} scrape;
	struct {
		char *endpoint;		   /* http(s) URL or "" = off (the default); /v1/metrics is appended to a base URL */
		uint64_t interval_ns;	   /* 1s..1h, default 10s; at least `interval` */
		uint64_t timeout_ns;	   /* whole request: 100ms..5m, default 10s */
		uint64_t queue_bytes;	   /* ship.queue.max_size: 64KiB..1GiB, default 16MiB */
		enum config_compression compression;
		struct config_header *headers;
		size_t n_headers;
	} ship;
	struct {
		int level; /* syslog priority from log.level: error, warning, notice, info, debug; default info */
	} log;
};

/*
 * Reads `file` and then every *.yaml in `file` + ".d" (sorted by name; the folder may be missing): later files override
 * scalars and whole lists key by key. `file` NULL reads nothing: defaults.
 * All that is wrong, in all files, is appended to `errors`, one line `FILE:LINE:COL: KEY: what is wrong, what is allowed` each.
 * Returns 0 and hands the configuration over, -EINVAL if anything was wrong (`errors` says what), -ENOMEM.
 * Never logs. *ret is untouched on failure.
 */
int config_load(const char *file, struct strbuf *errors, struct config **ret);
/* The same from memory, for tests and fuzzing: `name` stands for the file's name in errors. No drop-ins. */
int config_parse(const char *name, const char *text, size_t len, struct strbuf *errors, struct config **ret);
/* Accepts NULL and half-built objects, returns NULL. */
struct config *config_free(struct config *c);

/* The effective configuration as YAML that parses back to the same; header values are shown as "<hidden>" unless `secrets`. */
void config_print(const struct config *c, bool secrets, struct strbuf *out);

/* The annotated default file, the source of config/faultd.yaml, and the key reference in Markdown, docs/configuration.md. */
void config_print_default(struct strbuf *out);
void config_print_reference(struct strbuf *out);
