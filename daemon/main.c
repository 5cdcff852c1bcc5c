/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: command line, configuration, event loop, signals, exit codes.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/strbuf.h"
#include "daemon/exit.h"
#include "daemon/ladder.h"
#include "daemon/pipeline.h"

struct arguments {
	const char *config_file; /* NULL: no file, defaults */
	bool check;
};

DEFINE_CLEANUP(event_done, sd_event *, sd_event_unref)
DEFINE_CLEANUP(pipeline_done, struct pipeline *, pipeline_free)

static void print_help(void)
{
	printf("faultd [OPTION...]\n"
	       "Counts page faults and bad accesses per service and tells Prometheus and an OTLP collector.\n"
	       "\n"
	       "  -c, --config FILE   configuration, with drop-ins in FILE.d/*.yaml\n"
	       "                      (default %s if it is there, else built-in defaults)\n"
	       "      --check         check the configuration and what this kernel offers, then end\n"
	       "  -h, --help\n"
	       "      --version\n"
	       "\n"
	       "Signals: HUP reloads the configuration, TERM and INT end.\n"
	       "Exit codes:\n",
	       FAULTD_CONFIG_FILE);
#define EXIT_LINE(name, value, meaning) printf("  %-3d %s\n", value, meaning);
	EXIT_CODES(EXIT_LINE)
#undef EXIT_LINE
}

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
	enum { CHECK = 256, VERSION };
	static const struct option options[] = {
	    {"config", required_argument, NULL, 'c'},
	    {"check", no_argument, NULL, CHECK},
	    {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, VERSION},
	    {0},
	};
	int option;

	*ret = (struct arguments){.config_file = access(FAULTD_CONFIG_FILE, F_OK) == 0 ? FAULTD_CONFIG_FILE : NULL};
	while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			ret->config_file = optarg;
			break;
		case CHECK:
			ret->check = true;
			break;
		case 'h':
			print_help();
			return FAULTD_OK;
		case VERSION:
			printf("faultd %s\n", FAULTD_VERSION);
			return FAULTD_OK;
		default:
			fprintf(stderr, "Try faultd --help.\n");
			return FAULTD_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "faultd takes no argument '%s'. Try faultd --help.\n", argv[optind]);
		return FAULTD_USAGE;
	}
	return -1;
}

/* People at a terminal get the lines as compilers write them, the journal gets them as entries of priority error. */
static void tell_errors(char *lines)
{
	if (log_to_journal())
		log_error_lines(lines);
	else
		fputs(lines ? lines : "", stderr);
}

static int load_config(const char *file, struct config **ret)
{
	auto_strbuf errors = {0};
	int r = config_load(file, &errors, ret);

	if (r == -EINVAL) {
		tell_errors(errors.data);
		return FAULTD_BAD_CONFIG;
	}
	if (r < 0) {
		log_error_errno(r, "cannot read the configuration: %s", strerror(-r));
		return FAULTD_FAILED;
	}
	return FAULTD_OK;
}

/* ---- --check ---- */

static void print_step(const char *name, const struct ladder_step *step)
{
	bool known = step->tried || step->surveyed;

	printf("#   %-12s %s: %s\n", name,
	       !known            ? "not tried"
	       : step->error < 0 ? "not usable"
	       : step->tried     ? "chosen"
				 : "usable",
	       step->text);
}

static void print_plan(const struct ladder *l)
{
	printf("# Probe plan on this host:\n");
	printf("#   %-12s %s\n", "cgroups", l->hierarchy.text);
	for (size_t i = 0; i < LADDER_RUNGS; i++)
		print_step(l->steps[i].rung, &l->steps[i]);
	print_step("bad accesses by tracepoint", &l->bad_access);
	printf("#   page faults by %s, major faults by %s, bad accesses by %s\n", l->page_faults, l->major_faults,
	       l->bad_accesses);
}

/* Attaches for real and detaches, so that "usable" is no guess. */
static int check(const struct config *config)
{
	auto_strbuf text = {0};
	struct cgroup_mounts mounts = {0};
	struct ladder ladder;
	int r;

	log_set_max_level(config->log.level);
	config_print(config, false, &text);
	if (strbuf_error(&text))
		return FAULTD_FAILED;
	fputs(text.data, stdout);
	r = cgroup_mounts_read("/proc/self/mountinfo", &mounts);
	if (r < 0) {
		log_error_errno(r, "cannot read where cgroups are mounted: %s", strerror(-r));
		return FAULTD_FAILED;
	}
	r = ladder_climb(config, &mounts, &ladder);
	ladder_survey(config, &ladder);
	print_plan(&ladder);
	ladder_done(&ladder);
	cgroup_mounts_done(&mounts);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		log_error("cannot write the result: %s", strerror(errno));
		return FAULTD_FAILED;
	}
	return ladder_exit_code(r);
}

/* ---- the loop ---- */

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct pipeline *p = userdata;

	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
			 (unsigned long long)(clock_monotonic_ns() / NSEC_PER_USEC));
	pipeline_reload(p);
	(void)sd_notify(0, "READY=1");
	return 0;
}

static int on_end(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	log_info("ending on signal %u", info->ssi_signo);
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int add_signals(sd_event *event, struct pipeline *p)
{
	int r = sd_event_add_signal(event, NULL, SIGHUP, on_reload, p);

	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGTERM, on_end, NULL);
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGINT, on_end, NULL);
	return r;
}

/* Like sd_event_loop(), with a look at the clock around each turn: how long the others had to wait. */
static int run(sd_event *event, struct pipeline *p)
{
	for (;;) {
		uint64_t began_ns;
		int r = sd_event_prepare(event);

		if (r == 0)
			r = sd_event_wait(event, UINT64_MAX);
		if (r < 0)
			return sd_event_get_state(event) == SD_EVENT_FINISHED ? 0 : r;
		if (r == 0)
			continue;
		began_ns = clock_monotonic_ns();
		r = sd_event_dispatch(event);
		pipeline_note_turn(p, clock_monotonic_ns() - began_ns);
		if (r < 0)
			return r;
		if (sd_event_get_state(event) == SD_EVENT_FINISHED)
			return 0;
	}
}

/* Before any library starts a thread, so that all threads leave the signal to the loop. */
static void block_signal(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int serve(struct config *config, const char *config_file)
{
	cleanup(event_done) sd_event *event = NULL;
	cleanup(pipeline_done) struct pipeline *p = NULL;
	int code = FAULTD_FAILED, r;

	block_signal(SIGTERM);
	block_signal(SIGINT);
	signal(SIGPIPE, SIG_IGN);
	r = sd_event_default(&event);
	if (r < 0) {
		config_free(config);
		log_error_errno(r, "cannot set up the event loop: %s", strerror(-r));
		return FAULTD_NO_RESOURCE;
	}
	if (pipeline_new(event, config, config_file, &p, &code) < 0)
		return code;
	r = add_signals(event, p);
	if (r >= 0)
		r = sd_event_set_watchdog(event, true);
	if (r < 0) {
		log_error_errno(r, "cannot set up signals: %s", strerror(-r));
		return FAULTD_FAILED;
	}
	(void)sd_notify(0, "READY=1");
	log_info("faultd %s is counting", FAULTD_VERSION);
	r = run(event, p);
	(void)sd_notify(0, "STOPPING=1");
	if (r < 0)
		log_error_errno(r, "the event loop failed: %s", strerror(-r));
	return r < 0 ? FAULTD_FAILED : FAULTD_OK;
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	struct config *config = NULL;
	int code;

	/* A reload that is asked for while we start waits until we can do it, and does not end us. */
	block_signal(SIGHUP);
	log_init();
	code = parse_arguments(argc, argv, &arguments);
	if (code >= 0)
		return code;
	code = load_config(arguments.config_file, &config);
	if (code != FAULTD_OK)
		return code;
	if (!arguments.check)
		return serve(config, arguments.config_file);
	code = check(config);
	config_free(config);
	return code;
}
