/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_counts.h"
#include "daemon/ctl/selftest_judge.h"
#include "daemon/ctl/selftest_place.h"
#include "daemon/ctl/selftest_report.h"
#include "daemon/ctl/selftest_run.h"
#include "daemon/exit.h"

/* The counters are said to be up to date: what is not there by then does not come. */
#define COUNT_TRIES 6
#define COUNT_PAUSE_NS 100000000

#define CASES_MAX 128
#define LIMIT_SECONDS 20
#define LIMIT_SECONDS_MAX 3600
#define LOCKS_ROW "bad-access-acceleration"

struct session {
	const char *socket; /* NULL: the daemon is not asked */
	bool json, list;
	int limit_seconds; /* for each process */
	const struct selftest_case *chosen[CASES_MAX];
	size_t n_chosen;
	struct selftest_runner runner;
	struct selftest_place place;
	struct selftest_report report;
	int daemon_failed; /* exit code of a question that had no answer; FAULTD_OK if all had */
};

/* ---- a row ---- */

/* Runs all processes of a case. */
static enum selftest_result run_processes(struct session *s, const struct selftest_case *c,
					  const struct selftest_cgroup *cgroup, const char **code, struct strbuf *text)
{
	bool both = c->flags & SELFTEST_BOTH;
	uint32_t n = both ? 2 : c->repeat ? c->repeat : 1;

	for (uint32_t i = 0; i < n; i++) {
		bool survive = both && i == 0;
		struct selftest_end end = selftest_run(&s->runner, c, survive, cgroup);
		enum selftest_result result = selftest_judge(c, survive, s->runner.witness, &end, code, text);

		if (result != SELFTEST_PASS)
			return result;
	}
	return SELFTEST_PASS;
}

static int ask(struct session *s, const char *cgroup, struct selftest_counts *ret)
{
	s->daemon_failed = selftest_counts_read(s->socket, cgroup, ret);
	return s->daemon_failed;
}

static enum selftest_result compare(struct session *s, const struct selftest_case *c, const char *code,
				    const char *cgroup, const struct selftest_counts *before, struct strbuf *text)
{
	const struct selftest_growth wanted = {.signal = c->signal,
					       .code = c->signal ? selftest_counted_code(c, code) : NULL,
					       .handled = c->handled,
					       .fatal = c->fatal};
	const struct timespec pause = {.tv_nsec = COUNT_PAUSE_NS};
	struct selftest_counts after;
	auto_strbuf wrong = {0};

	for (int i = 0; i < COUNT_TRIES; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		if (ask(s, cgroup, &after) != FAULTD_OK) {
			strbuf_adds(text, "the daemon did not answer");
			return SELFTEST_FAIL;
		}
		strbuf_reset(&wrong);
		if (!after.folded && selftest_counts_grew(before, &after, &wanted, &wrong))
			return SELFTEST_PASS;
	}
	if (after.folded) {
		strbuf_addf(text,
			    "the daemon counts the cgroup %s in 'other': it is excluded (cgroups.include, "
			    "cgroups.exclude) or one too many (cgroups.max)",
			    cgroup);
		return SELFTEST_SKIP;
	}
	strbuf_addf(text, "the daemon counted %s", wrong.data ? wrong.data : "something else");
	return SELFTEST_FAIL;
}

static enum selftest_result judge_case(struct session *s, const struct selftest_case *c,
				       const struct selftest_cgroup *cgroup, struct selftest_row *row,
				       struct strbuf *text)
{
	const char *counted_in = !s->socket ? NULL : cgroup ? cgroup->path : s->place.own;
	struct selftest_counts before;
	enum selftest_result result;

	if (counted_in && ask(s, counted_in, &before) != FAULTD_OK) {
		strbuf_adds(text, "the daemon did not answer");
		return SELFTEST_FAIL;
	}
	result = run_processes(s, c, cgroup, &row->code, text);
	if (result != SELFTEST_PASS || !counted_in)
		return result;
	if (c->signal && !selftest_counts_signal(&before, c->signal)) {
		strbuf_addf(text,
			    before.says_signals ? "the daemon does not count %s (bad_access.also in its configuration)"
						: "the daemon does not say whether it counts %s",
			    c->signal);
		return SELFTEST_SKIP;
	}
	row->cgroup = counted_in;
	return compare(s, c, row->code, counted_in, &before, text);
}

/* Makes the cgroup, if there is a place for it; NULL for none. Failing to is a reason to stop. */
static int make_cgroup(struct session *s, const char *name, struct selftest_cgroup *ret)
{
	int r = s->place.dir ? selftest_cgroup_make(&s->place, name, ret) : 0;

	if (r < 0)
		fprintf(stderr, "faultctl: cannot make a cgroup in %s: %s\n", s->place.dir, strerror(-r));
	return r;
}

static void remove_cgroup(struct selftest_cgroup *cgroup)
{
	auto_free char *dir = cgroup->dir ? strdup(cgroup->dir) : NULL;
	int r = selftest_cgroup_remove(cgroup);

	if (r < 0)
		fprintf(stderr, "faultctl: cannot remove the cgroup %s: %s\n", dir ? dir : "", strerror(-r));
}

static bool is_chosen(const struct session *s, const struct selftest_case *c)
{
	for (size_t i = 0; i < s->n_chosen; i++)
		if (s->chosen[i] == c)
			return true;
	return s->n_chosen == 0;
}

static int run_case(struct session *s, const struct selftest_case *c)
{
	struct selftest_row row = {.name = c->name, .c = c, .text = ""};
	struct selftest_cgroup cgroup = {.procs = -EBADF};
	auto_free char *path = NULL;
	auto_strbuf text = {0};

	if (c->flags & SELFTEST_ON_REQUEST && s->n_chosen == 0) {
		row.result = SELFTEST_SKIP;
		row.text = c->on_request;
		selftest_report_row(&s->report, &row);
		return 0;
	}
	if (make_cgroup(s, c->name, &cgroup) < 0)
		return FAULTD_NO_RESOURCE;
	row.result = judge_case(s, c, cgroup.dir ? &cgroup : NULL, &row, &text);
	row.text = text.data ? text.data : "";
	if (row.cgroup)
		row.cgroup = path = strdup(row.cgroup);
	remove_cgroup(&cgroup);
	selftest_report_row(&s->report, &row);
	return FAULTD_OK;
}

/* ---- the acceleration ---- */

static void judge_locks(const uint64_t *numbers, struct strbuf *text)
{
	const uint64_t n = BODY_LOCKS_ACCESSES, some = BODY_LOCKS_ACCESSES / 10;
	const char *verdict = numbers[1] + some < n   ? "cannot be told"
			      : numbers[0] < some     ? "yes"
			      : numbers[0] + some > n ? "no"
						      : "cannot be told";

	strbuf_addf(text,
		    "%s: the kernel took the lock of the address space %" PRIu64 " times for %" PRIu64
		    " accesses that a mapping did not allow, and %" PRIu64 " times for as many without a mapping",
		    verdict, numbers[0], n, numbers[1]);
}

static int run_locks(struct session *s)
{
	static const struct selftest_case locks = {.name = LOCKS_ROW, .body = body_locks};
	struct selftest_row row = {.name = LOCKS_ROW, .result = SELFTEST_INFO};
	struct selftest_cgroup cgroup = {.procs = -EBADF};
	const struct witness *w = s->runner.witness;
	auto_strbuf text = {0};
	struct selftest_end end;

	if (make_cgroup(s, LOCKS_ROW, &cgroup) < 0)
		return FAULTD_NO_RESOURCE;
	end = selftest_run(&s->runner, &locks, false, cgroup.dir ? &cgroup : NULL);
	remove_cgroup(&cgroup);
	if (w->skip[0] || w->problem[0])
		strbuf_addf(&text, "cannot be told: %s", w->skip[0] ? w->skip : w->problem);
	else if (end.not_run || end.timed_out || end.status != 0)
		strbuf_adds(&text, "cannot be told: the process did not come to its end");
	else
		judge_locks(w->numbers, &text);
	row.text = text.data ? text.data : "";
	selftest_report_row(&s->report, &row);
	return FAULTD_OK;
}

/* ---- the whole ---- */

/* Whether the daemon answers at all and counts what this is about. */
static int check_daemon(struct session *s)
{
	struct selftest_counts counts;
	int r = ask(s, s->place.own ? s->place.own : "/", &counts);

	if (r != FAULTD_OK) {
		fprintf(stderr, "faultctl: --no-daemon checks what the kernel does, without a daemon\n");
		return r;
	}
	if (!selftest_counts_signal(&counts, "SIGSEGV")) {
		fprintf(stderr,
			"faultctl: the daemon counts no bad accesses (probes.bad_access in its configuration; its "
			"log says more)\n");
		return FAULTD_NO_SUPPORT;
	}
	return FAULTD_OK;
}

static void tell_place(const struct session *s)
{
	if (s->place.dir || !s->socket)
		return;
	fprintf(
	    stderr,
	    "faultctl: no cgroup can be made for the cases (%s); instead, what the counters of the cgroup %s grow by "
	    "is taken: other bad accesses in it disturb\n",
	    s->place.reason.data ? s->place.reason.data : "", s->place.own ? s->place.own : "(unknown)");
}

static int run_all(struct session *s)
{
	int r = FAULTD_OK;

	selftest_report_head(&s->report);
	for (size_t i = 0; i < selftest_n_cases && r == FAULTD_OK; i++) {
		if (selftest_interrupted(&s->runner) || s->daemon_failed)
			break;
		if (is_chosen(s, &selftest_cases[i]))
			r = run_case(s, &selftest_cases[i]);
	}
	if (r == FAULTD_OK && s->n_chosen == 0 && !s->daemon_failed && !selftest_interrupted(&s->runner))
		r = run_locks(s);
	selftest_report_sum(&s->report);
	if (r != FAULTD_OK)
		return r;
	if (s->daemon_failed)
		return s->daemon_failed;
	if (s->report.count[SELFTEST_FAIL])
		return FAULTD_FAILED;
	if (s->report.count[SELFTEST_PASS] || s->runner.interrupted)
		return FAULTD_OK;
	fprintf(stderr, "faultctl: all cases were skipped: nothing was checked\n");
	return FAULTD_NO_SUPPORT;
}

static int prepare_and_run(struct session *s)
{
	int r = selftest_place_find(&s->place);

	if (r < 0) {
		fprintf(stderr, "faultctl: %s\n", strerror(-r));
		return FAULTD_NO_RESOURCE;
	}
	r = s->socket ? check_daemon(s) : FAULTD_OK;
	if (r == FAULTD_OK && s->socket && !s->place.dir && !s->place.own) {
		fprintf(stderr, "faultctl: it is not known which cgroup's counters to read (%s)\n",
			s->place.reason.data ? s->place.reason.data : "");
		r = FAULTD_NO_SUPPORT;
	}
	if (r == FAULTD_OK) {
		tell_place(s);
		r = run_all(s);
	}
	selftest_place_done(&s->place);
	return r;
}

static int run_session(struct session *s)
{
	int r = selftest_runner_init(s->limit_seconds * 1000, &s->runner), interrupted;

	if (r < 0) {
		fprintf(stderr, "faultctl: cannot run processes: %s\n", strerror(-r));
		return FAULTD_NO_RESOURCE;
	}
	s->report = (struct selftest_report){.to = stdout, .json = s->json, .with_daemon = s->socket != NULL};
	r = prepare_and_run(s);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "faultctl: the results cannot be written: %s\n", strerror(errno));
		r = FAULTD_FAILED;
	}
	interrupted = s->runner.interrupted;
	selftest_runner_done(&s->runner);
	if (interrupted) {
		/* All is cleaned up: end as the signal asks, so that the caller sees it. */
		sigset_t set;

		fprintf(stderr, "faultctl: interrupted\n");
		(void)signal(interrupted, SIG_DFL);
		(void)raise(interrupted);
		sigemptyset(&set);
		(void)sigprocmask(SIG_SETMASK, &set, NULL);
	}
	return r;
}

/* ---- command line ---- */

static void print_help(void)
{
	printf("faultctl selftest [OPTION...]\n"
	       "\n"
	       "Makes every kind of bad access that this CPU and kernel can make, each in a process and a cgroup of "
	       "its own, and\n"
	       "checks what the process saw and what the daemon counted: exactly this and nothing else.\n"
	       "\n"
	       "These accesses are real: the daemon counts, records and reports the crashes of the cgroups "
	       "faultd-selftest-*, and\n"
	       "the kernel's log may name some of the processes. No cores are left.\n"
	       "\n"
	       "      --socket PATH    the daemon's control socket (default " CTL_SOCKET_DEFAULT ")\n"
	       "      --no-daemon      only check what the kernel does\n"
	       "      --case NAME      only this one; may be given several times\n"
	       "      --limit SECONDS  time that each process has (default %d)\n"
	       "      --list           name the cases and what they have to come to\n"
	       "      --json           one JSON object a row\n"
	       "  -h, --help\n"
	       "\n"
	       "Exit codes: 0 cases passed and none failed; %d a case failed; %d wrong command line; %d all were "
	       "skipped, or the\n"
	       "daemon counts no bad accesses; %d no daemon answers; %d no permission to ask it.\n",
	       LIMIT_SECONDS, FAULTD_FAILED, FAULTD_USAGE, FAULTD_NO_SUPPORT, FAULTD_NO_RESOURCE, FAULTD_NO_PERMISSION);
}

static int choose(struct session *s, const char *name)
{
	const struct selftest_case *c = selftest_find_case(name);

	if (!c)
		fprintf(stderr, "faultctl: there is no case '%s'; --list names them\n", name);
	if (!c || s->n_chosen == CASES_MAX)
		return FAULTD_USAGE;
	s->chosen[s->n_chosen++] = c;
	return FAULTD_OK;
}

static int set_limit(struct session *s, const char *text)
{
	char *end;
	long seconds = strtol(text, &end, 10);

	if (end == text || *end != '\0' || seconds < 1 || seconds > LIMIT_SECONDS_MAX) {
		fprintf(stderr, "faultctl: --limit takes 1 to %d seconds, not '%s'\n", LIMIT_SECONDS_MAX, text);
		return FAULTD_USAGE;
	}
	s->limit_seconds = (int)seconds;
	return FAULTD_OK;
}

/* Returns the exit code, or -1 to go on. */
static int parse_options(int argc, char **argv, struct session *s)
{
	static const struct option options[] = {
	    {"socket", required_argument, NULL, 's'}, {"no-daemon", no_argument, NULL, 'n'},
	    {"limit", required_argument, NULL, 't'},  {"case", required_argument, NULL, 'c'},
	    {"list", no_argument, NULL, 'l'},         {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'},         {0},
	};
	bool no_daemon = false;
	int o;

	s->limit_seconds = LIMIT_SECONDS;
	s->socket = CTL_SOCKET_DEFAULT;
	while ((o = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (o == 'h') {
			print_help();
			return FAULTD_OK;
		}
		if (o == '?' || (o == 'c' && choose(s, optarg) != FAULTD_OK) ||
		    (o == 't' && set_limit(s, optarg) != FAULTD_OK))
			return FAULTD_USAGE;
		s->socket = o == 's' ? optarg : s->socket;
		no_daemon |= o == 'n';
		s->list |= o == 'l';
		s->json |= o == 'j';
	}
	if (optind < argc) {
		fprintf(stderr, "faultctl: selftest takes no argument '%s'\n", argv[optind]);
		return FAULTD_USAGE;
	}
	if (no_daemon)
		s->socket = NULL;
	return -1;
}

int ctl_selftest(int argc, char **argv)
{
	struct session s = {.runner = {.signals = -EBADF}};
	int r = parse_options(argc, argv, &s);

	if (r >= 0)
		return r;
	if (s.list) {
		selftest_report_list(stdout, s.json);
		return FAULTD_OK;
	}
	return run_session(&s);
}
