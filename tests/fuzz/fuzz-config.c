/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a configuration file: an answer, never a crash, and what is accepted prints and parses back to the same.
 * With -fsanitize=fuzzer this is a libFuzzer target; else main() runs the files that are named on the command line.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "fuzz-config: %s\n", what);
		abort();
	}
}

/* Of each line of errors: NAME:LINE:COLUMN: and no byte that steers a terminal. */
static void check_errors(const char *errors)
{
	require(errors && *errors, "refused without a word");
	for (const char *line = errors; *line; line = strchr(line, '\n') + 1) {
		require(strncmp(line, "f:", 2) == 0 || strncmp(line, "(default): ", 11) == 0,
			"an error without a place");
		require(strchr(line, '\n') != NULL, "an error line without an end");
	}
	for (const char *c = errors; *c; c++)
		require(*c == '\n' || (unsigned char)*c >= 0x20, "a control character in an error");
}

static void check_round_trip(const struct config *first)
{
	struct strbuf once = {0}, twice = {0}, errors = {0};
	struct config *second = NULL;

	config_print(first, true, &once);
	require(config_parse("f", once.data, once.len, &errors, &second) == 0, "what was printed is refused");
	config_print(second, true, &twice);
	require(strcmp(once.data, twice.data) == 0, "what was printed means something else");
	config_free(second);
	strbuf_done(&once);
	strbuf_done(&twice);
	strbuf_done(&errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf errors = {0};
	struct config *c = NULL;
	int r = config_parse("f", (const char *)data, size, &errors, &c);

	require(r == 0 || r == -EINVAL || r == -ENOMEM, "an unknown answer");
	if (r == 0)
		check_round_trip(c);
	else if (r == -EINVAL)
		check_errors(errors.data);
	config_free(c);
	strbuf_done(&errors);
	return 0;
}

#ifndef FUZZER
static void run_file(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t size;

	require(f != NULL, path);
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
	printf("1..%d\n", argc - 1);
	for (int i = 1; i < argc; i++) {
		run_file(argv[i]);
		printf("ok %d - %s\n", i, strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
	}
	return 0;
}
#endif
