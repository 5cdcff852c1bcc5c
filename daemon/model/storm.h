/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault storms: what is looked for, and what is told of one. The machine that finds them is in daemon/model/storm_engine.h.
 *
 * A *rule* names a metric and what counts as too much of it. For each rule and cgroup there is a state:
 *
 *     quiet -> rising -> storm -> cooling -> quiet
 *
 * rising: the rate is at or above the threshold, but not yet for as long as `for` says. storm: it was; the storm has
 * begun and was told. cooling: the rate is below the clear level; if it stays there for `hold` the storm has ended,
 * which is told, too. Beginning and end alternate for each rule and cgroup, whatever comes in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/model/bad_access.h"
#include "daemon/model/evidence.h"
#include "daemon/model/fault.h"
#include "daemon/model/identity.h"

enum storm_metric { STORM_PAGE_FAULTS, STORM_MAJOR_FAULTS, STORM_BAD_ACCESSES, STORM_METRICS };
/* "page_faults", "major_faults", "bad_accesses" */
const char *storm_metric_name(enum storm_metric metric);

enum storm_severity { STORM_INFO, STORM_WARNING, STORM_CRITICAL, STORM_SEVERITIES };
/* "info", "warning", "critical" */
const char *storm_severity_name(enum storm_severity severity);

enum storm_state { STORM_QUIET, STORM_RISING, STORM_STORM, STORM_COOLING, STORM_STATES };
/* "quiet", "rising", "storm", "cooling" */
const char *storm_state_name(enum storm_state state);

/* Why a storm ended. */
enum storm_end {
	STORM_CLEARED,      /* below the clear level for as long as hold says */
	STORM_RULE_REMOVED, /* the configuration has no such rule any more */
	STORM_RULE_CHANGED, /* it counts something else under this name */
	STORM_EXCLUDED,     /* the rule's globs, or those of the configuration, leave the cgroup out now */
	STORM_ENDS
};
/* "cleared", "rule_removed", "rule_changed", "excluded" */
const char *storm_end_name(enum storm_end end);

struct storm_label {
	const char *name; /* as Prometheus wants it */
	const char *value;
};

struct storm_rule {
	const char *name;
	enum storm_metric metric;
	fault_class_set classes;     /* of STORM_PAGE_FAULTS */
	uint64_t bad[BAD_OUTCOMES];  /* of STORM_BAD_ACCESSES: bits 1 << class (< BAD_CLASSES) */
	const struct filter *filter; /* which cgroups; `other` never is looked at */
	uint64_t window_ns;          /* over which the rate is taken */
	double threshold;            /* absolute: per second. relative: times the baseline */
	bool relative;
	double floor; /* relative: the threshold is never below this, per second */
	double clear; /* in the unit of the threshold, and not above it */
	uint64_t for_ns, hold_ns;
	enum storm_severity severity;
	const struct storm_label *labels;
	size_t n_labels;
};

/* A storm, as sinks see it: all of it is valid for the length of the call that hands it over. */
struct storm {
	uint64_t number;  /* 1, 2, ... in this daemon's life; restored storms are numbered anew */
	const char *rule; /* never NULL */
	enum storm_metric metric;
	enum storm_severity severity;
	const struct storm_label *labels;
	size_t n_labels;
	const struct identity *identity; /* of the cgroup, never NULL */
	enum storm_state state;          /* storm or cooling while it lasts, then quiet */
	uint64_t rising_unix_ns;         /* since when the rate was above the threshold */
	uint64_t started_unix_ns;        /* >= rising */
	uint64_t ended_unix_ns;          /* 0: it lasts */
	enum storm_end end;              /* meaningful if ended */
	bool restored;                   /* it was told by a daemon before this one */
	double rate, peak;               /* per second over the window: now, and the highest since rising */
	double threshold, clear;         /* per second, as they are now (relative: times the baseline) */
	double baseline;                 /* per second; meaningful if relative */
	bool relative;
	uint64_t window_ns;
	/* Since rising, of the cgroup: */
	uint64_t count;                     /* of what the rule counts */
	uint64_t faults[FAULT_CLASSES_ALL]; /* the mix */
	uint64_t major;
	struct bad_counts bad;
	struct evidence evidence; /* of the time before it was handed over */
};

/* A storm began or ended. */
struct storm_event {
	uint64_t number; /* 1, 2, ... in this daemon's life */
	uint64_t time_unix_ns;
	bool ended; /* else it began */
	struct storm storm;
};

/* Of a rule, since the daemon started. */
struct storm_rule_stats {
	const char *rule;
	enum storm_severity severity;
	uint64_t storms; /* that began, restored ones not among them */
	double seconds;  /* in storm or cooling, summed over cgroups */
	uint64_t rising; /* cgroups that are in that state now */
	uint64_t active; /* storm and cooling */
};
