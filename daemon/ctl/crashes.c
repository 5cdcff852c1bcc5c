/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl crashes: what the daemon remembers of fatal bad accesses.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/glob.h"
#include "daemon/base/strbuf.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/since.h"
#include "daemon/exit.h"
#include "daemon/sink/control.h"

/* A pager reads slowly, and the daemon does not wait for ever: so much is read ahead of it. */
#define AHEAD_MAX ((size_t)64 << 20)
/* What a pipe that takes anything takes without a wait. */
#define WRITE_BYTES 4096

struct arguments {
	const char *socket;
	bool follow;
	char request[CONTROL_LINE_MAX];
};

static void close_stream(FILE *f)
{
	if (f)
		fclose(f);
}

DEFINE_CLEANUP(stream_local, FILE *, close_stream)

/* ---- command line ---- */

static void print_help(void)
{
	printf("faultctl crashes [OPTION...]\n"
	       "Lists the fatal bad accesses that the daemon remembers, oldest first.\n"
	       "\n"
	       "      --cgroup GLOB   only those of cgroups whose path matches: /system.slice/*, **/myapp.service\n"
	       "      --since TIME    only those since then: 10m, 2h, 3d (back from now), today, yesterday,\n"
	       "                      'YYYY-MM-DD [HH:MM[:SS]]' in local time, or RFC 3339\n"
	       "  -f, --follow        go on with those to come\n"
	       "      --json          a JSON object per line\n"
	       "      --socket PATH   of the daemon (default: " CTL_SOCKET_DEFAULT ")\n"
	       "  -h, --help\n");
}

static int add(struct arguments *a, const char *key, const char *value)
{
	if (ctl_argument(a->request, sizeof(a->request), key, value) == 0)
		return 0;
	fprintf(stderr, "faultctl: the request is too long: at most %d bytes of options\n", CONTROL_LINE_MAX);
	return -E2BIG;
}

static int add_cgroup(struct arguments *a, const char *glob)
{
	const char *wrong = glob_check(glob);

	if (!wrong)
		return add(a, "cgroup", glob);
	fprintf(stderr, "faultctl: --cgroup '%s': %s\n", glob, wrong);
	return -EINVAL;
}

static int add_since(struct arguments *a, const char *text)
{
	char number[24];
	uint64_t ns;

	if (since_parse(text, clock_realtime_ns(), &ns) < 0) {
		fprintf(stderr, "faultctl: --since '%s' is no time: " SINCE_FORMS "\n", text);
		return -EINVAL;
	}
	snprintf(number, sizeof(number), "%" PRIu64, ns);
	return add(a, "since", number);
}

/* Each key once, and the last one counts. */
static int make_request(struct arguments *a, const char *glob, const char *since, bool json)
{
	strcpy(a->request, "crashes");
	if ((glob && add_cgroup(a, glob) < 0) || (since && add_since(a, since) < 0) ||
	    (a->follow && add(a, "follow", "1") < 0) || (json && add(a, "format", "json") < 0))
		return FAULTD_USAGE;
	return -1;
}

/* Returns -1 to go on, else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
	enum { CGROUP = 256, SINCE, JSON, SOCKET };
	static const struct option options[] = {
	    {"cgroup", required_argument, NULL, CGROUP},
	    {"since", required_argument, NULL, SINCE},
	    {"follow", no_argument, NULL, 'f'},
	    {"json", no_argument, NULL, JSON},
	    {"socket", required_argument, NULL, SOCKET},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	const char *glob = NULL, *since = NULL;
	bool json = false;
	int option;

	*ret = (struct arguments){.socket = CTL_SOCKET_DEFAULT};
	while ((option = getopt_long(argc, argv, "fh", options, NULL)) != -1) {
		switch (option) {
		case CGROUP:
			glob = optarg;
			break;
		case SINCE:
			since = optarg;
			break;
		case 'f':
			ret->follow = true;
			break;
		case JSON:
			json = true;
			break;
		case SOCKET:
			ret->socket = optarg;
			break;
		case 'h':
			print_help();
			return FAULTD_OK;
		default:
			fprintf(stderr, "Try faultctl crashes --help.\n");
			return FAULTD_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "faultctl crashes takes no argument '%s'. Try faultctl crashes --help.\n",
			argv[optind]);
		return FAULTD_USAGE;
	}
	return make_request(ret, glob, since, json);
}

/* ---- copying ---- */

struct copy {
	int from;
	struct strbuf ahead;
	size_t written; /* bytes of `ahead` */
	bool has_ended;
};

/* -errno. */
static int read_some(struct copy *c)
{
	char bytes[16 << 10];
	ssize_t n = read(c->from, bytes, sizeof(bytes));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	c->has_ended = n == 0;
	strbuf_add(&c->ahead, bytes, (size_t)n);
	return strbuf_error(&c->ahead);
}

/* -errno; -EPIPE: nobody reads any more. */
static int write_some(struct copy *c)
{
	size_t left = c->ahead.len - c->written;
	ssize_t n = write(STDOUT_FILENO, c->ahead.data + c->written, left < WRITE_BYTES ? left : WRITE_BYTES);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	c->written += (size_t)n;
	if (c->written == c->ahead.len) {
		strbuf_reset(&c->ahead);
		c->written = 0;
	}
	return 0;
}

/* Whatever can be done next; while no crash comes that is to notice that nobody reads any more. Returns 1 at the
 * end, -errno. */
static int copy_some(struct copy *c)
{
	bool has_room = c->ahead.len < AHEAD_MAX;
	bool has_bytes = c->ahead.len > c->written;
	struct pollfd fds[] = {
	    {.fd = c->has_ended || !has_room ? -1 : c->from, .events = POLLIN},
	    {.fd = STDOUT_FILENO, .events = has_bytes ? POLLOUT : 0},
	};
	int r = 0;

	if (c->has_ended && !has_bytes)
		return 1;
	if (poll(fds, 2, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents)
		r = read_some(c);
	if (r == 0 && (fds[1].revents & POLLOUT) && has_bytes)
		return write_some(c);
	if (r == 0 && fds[1].revents)
		return fds[1].revents & POLLNVAL ? -EBADF : -EPIPE;
	return r;
}

/* Returns the exit code. */
static int copy_all(const struct arguments *a, struct copy *c)
{
	int r;

	do
		r = copy_some(c);
	while (r == 0);
	if (r == -EPIPE)
		return FAULTD_OK;
	if (r < 0) {
		fprintf(stderr, "faultctl: cannot copy what the daemon says: %s\n", strerror(-r));
		return FAULTD_FAILED;
	}
	if (a->follow) {
		fprintf(stderr,
			"faultctl: the daemon closed the connection: it has stopped, or this end read too slowly\n");
		return FAULTD_FAILED;
	}
	return FAULTD_OK;
}

int ctl_crashes(int argc, char **argv)
{
	cleanup(stream_local) FILE *body = NULL;
	struct arguments arguments;
	struct copy copy = {0};
	static char name[] = "faultctl crashes";
	int r;

	argv[0] = name; /* for the words of getopt_long() */
	r = parse_arguments(argc, argv, &arguments);
	if (r >= 0)
		return r;
	signal(SIGPIPE, SIG_IGN); /* the reader may go between the look and the write */
	r = ctl_ask(arguments.socket, arguments.request, &body);
	if (r != FAULTD_OK)
		return r;
	copy.from = fileno(body);
	r = copy_all(&arguments, &copy);
	strbuf_done(&copy.ahead);
	return r;
}
