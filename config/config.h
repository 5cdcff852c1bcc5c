/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration as the daemon uses it: parsed, checked, in base units. Ranges, defaults and meanings are in the key
 * table, config/keys.c; config/yaml.c is the only file that sees libyaml.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"

enum config_hierarchy { CONFIG_HIERARCHY_AUTO, CONFIG_HIERARCHY_V2, CONFIG_HIERARCHY_MEMORY };
enum config_page_faults {
	CONFIG_FAULTS_AUTO,
	CONFIG_FAULTS_TRACEPOINT,
	CONFIG_FAULTS_FENTRY,
	CONFIG_FAULTS_PERF,
	CONFIG_FAULTS_MEMCG,
	CONFIG_FAULTS_OFF,
};
enum config_addresses { CONFIG_ADDRESSES_NONE, CONFIG_ADDRESSES_LOCAL, CONFIG_ADDRESSES_ALL };
/* Bits of bad_access.also */
enum config_signal {
	CONFIG_SIGNAL_ILL = 1 << 0,
	CONFIG_SIGNAL_FPE = 1 << 1,
	CONFIG_SIGNAL_TRAP = 1 << 2,
	CONFIG_SIGNAL_SYS = 1 << 3,
	CONFIG_SIGNAL_ABRT = 1 << 4,
};
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
	uint64_t interval_ns;
	uint64_t windows_ns[8]; /* ascending multiples of the interval */
	size_t n_windows;
	struct {
		struct config_list include; /* globs */
		struct config_list exclude; /* globs */
		uint32_t max;
		enum config_hierarchy hierarchy;
		uint64_t memory_bytes; /* bound for the counters in the kernel */
	} cgroups;
	struct {
		enum config_page_faults page_faults;
		uint32_t perf_period;
		int bad_access; /* 0 or 1 */
	} probes;
	struct {
		uint32_t also; /* bits of enum config_signal */
		int latency;   /* 0 or 1 */
		enum config_addresses addresses;
		uint32_t history;            /* records */
		uint32_t records_per_minute; /* of one cgroup */
		int journal;                 /* 0 or 1 */
	} bad_access;
	struct {
		char *socket; /* path; "": off */
		char *group;  /* "": the process' own */
	} control;
	struct {
		struct config_list listen; /* "ADDR:PORT", "[ADDR6]:PORT", "unix:/PATH", "systemd"; none: off */
		uint32_t max_concurrent;
	} scrape;
	struct {
		char *endpoint;       /* URL; "": off */
		uint64_t interval_ns; /* at least the pipeline's */
		uint64_t timeout_ns;  /* of a whole request */
		uint64_t queue_bytes; /* that may wait */
		enum config_compression compression;
		int logs; /* 0 or 1 */
		struct config_header *headers;
		size_t n_headers;
	} ship;
	struct {
		int level; /* syslog priority */
	} log;
};

/*
 * Reads `file` and then every *.yaml in `file` + ".d" (sorted by name, hidden ones left out; the folder may be missing):
 * later files override key by key, lists as a whole. `file` NULL reads nothing: defaults.
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
