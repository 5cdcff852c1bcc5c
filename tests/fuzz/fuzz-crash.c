/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a crash record ('r' in front) or as a request to the local socket ('q'): an answer, never a crash. A
 * record gives lines of valid UTF-8 that steer no terminal; of a request that is accepted each value lies within it.
 * With -fsanitize=fuzzer this is a libFuzzer target; else main() runs the files that are named on the command line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/glob.h"
#include "daemon/base/utf8.h"
#include "daemon/sink/control_request.h"
#include "daemon/sink/crash_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "fuzz-crash: %s\n", what);
		abort();
	}
}

static void check_line(struct strbuf *line)
{
	require(strbuf_error(line) == 0, "no memory");
	require(utf8_valid(line->data, line->len), "a line is no UTF-8");
	require(strlen(line->data) == line->len, "a NUL in a line");
	require(strchr(line->data, '\n') == line->data + line->len - 1, "not one line");
	for (size_t i = 0; i + 1 < line->len; i++)
		require((unsigned char)line->data[i] >= 0x20 && line->data[i] != 0x7f, "a control character");
	strbuf_reset(line);
}

static void check_crash(const struct crash *c)
{
	auto_strbuf line = {0};

	require(c->n_frames <= CRASH_FRAMES && c->where < CRASH_ADDRESSES, "out of range");
	require(utf8_valid(c->comm, strlen(c->comm)) && utf8_valid(c->exe, strlen(c->exe)), "a name is no UTF-8");
	for (int addresses = 0; addresses < 2; addresses++) {
		crash_line_text(c, addresses, &line);
		check_line(&line);
		crash_line_json(c, addresses, &line);
		check_line(&line);
	}
	crash_line_message(c, &line);
	strbuf_addc(&line, '\n');
	check_line(&line);
}

/* What follows the record is the cgroup's path. */
static void run_record(const uint8_t *data, size_t size)
{
	struct crash_event event = {0};
	size_t n = size < sizeof(event) ? size : sizeof(event);
	const char *path = size > n && data[n] ? (const char *)data + n : "/";
	size_t len = size > n && data[n] ? strnlen(path, size - n) : 1;

	memcpy(&event, data, n);
	for (enum crash_arch arch = CRASH_ARCH_X86_64; arch <= CRASH_ARCH_ARM64; arch++) {
		struct identity *identity = NULL;
		struct crash *c = NULL;

		require(identity_parse(path, len, &identity) == 0, "no identity");
		require(crash_new(&event, arch, event.time_ns, identity, &c) == 0, "no crash");
		check_crash(c);
		crash_free(c);
	}
}

static void run_request(const uint8_t *data, size_t size)
{
	auto_free char *line = malloc(size + 1);
	struct control_request r;
	const char *wrong;

	require(line != NULL, "no memory");
	memcpy(line, data, size);
	wrong = control_request_parse(line, size, &r);
	if (wrong) {
		require(*wrong && !strchr(wrong, '\n'), "refused without one line");
		return;
	}
	require(!r.cgroup || (r.cgroup > line && r.cgroup + strlen(r.cgroup) <= line + size), "a value from elsewhere");
	require(r.verb == CONTROL_CRASHES || (r.cgroup && r.cgroup[0] == '/'), "bad without a path");
	require(r.verb == CONTROL_BAD || !r.cgroup || !glob_check(r.cgroup), "a bad glob");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && data[0] == 'r')
		run_record(data + 1, size - 1);
	else if (size > 0 && data[0] == 'q')
		run_request(data + 1, size - 1);
	return 0;
}

#ifndef FUZZER
/* The bytes in memory of their own size, so that a sanitizer sees what is read beyond them. */
static void run_file(const char *path)
{
	static uint8_t data[1 << 16];
	auto_free uint8_t *exact = NULL;
	FILE *f = fopen(path, "rb");
	size_t size;

	require(f != NULL, path);
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	exact = malloc(size ? size : 1);
	require(exact != NULL, "no memory");
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
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
