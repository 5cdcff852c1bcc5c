/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
    {"crashes", ctl_crashes, "fatal bad accesses that the daemon remembers"},
    {"decode", ctl_decode, "what a raw fault code says"},
    {"selftest", ctl_selftest, "make every kind of bad access and check that the daemon counts it"},
    {"trace", ctl_trace, "page faults and bad accesses as they happen"},
};

static void print_help(FILE *to)
{
	fprintf(to, "faultctl VERB [OPTION...]\n\nVerbs (faultctl VERB --help tells their options):\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].help);
	fprintf(to, "\n  -h, --help\n      --version\n");
}

int main(int argc, char **argv)
{
	/* Else the next descriptor would take its place. */
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0) {
		fprintf(stderr, "faultctl: standard output is closed\n");
		return FAULTD_FAILED;
	}
	if (argc < 2) {
		print_help(stderr);
		return FAULTD_USAGE;
	}
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
		print_help(stdout);
		return FAULTD_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("faultctl %s\n", FAULTD_VERSION);
		return FAULTD_OK;
	}
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	fprintf(stderr, "faultctl has no verb '%s'. Try faultctl --help.\n", argv[1]);
	return FAULTD_USAGE;
}
