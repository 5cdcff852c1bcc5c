/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_counts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"
#include "daemon/sink/control.h"

#define BODY_SECONDS 10
#define BODY_BYTES_MAX 65536

/* ---- reading ---- */

static bool take_word(char **words, char *ret)
{
	const char *word = strsep(words, " ");

	if (!word || word[0] == '\0' || strlen(word) >= SELFTEST_WORD_BYTES)
		return false;
	(void)stpcpy(ret, word);
	return true;
}

/* SIGNAL CODE OUTCOME COUNT */
static bool parse_count(char *line, struct selftest_count *ret)
{
	struct selftest_count c = {0};
	char number[SELFTEST_WORD_BYTES], *end;

	if (!take_word(&line, c.signal) || !take_word(&line, c.code) || !take_word(&line, c.outcome) ||
	    !take_word(&line, number) || line || strspn(number, "0123456789") != strlen(number))
		return false;
	errno = 0;
	c.count = strtoull(number, &end, 10);
	if (errno)
		return false;
	*ret = c;
	return true;
}

static bool parse_line(char *line, struct selftest_counts *c)
{
	static const char signals[] = "signals";

	if (strncmp(line, signals, strlen(signals)) == 0 && (line[7] == ' ' || line[7] == '\0')) {
		if (c->says_signals || strlen(line + 7) >= sizeof(c->signals) - 1)
			return false;
		c->says_signals = true;
		(void)stpcpy(c->signals, line + 7);
		return true;
	}
	return c->n < SELFTEST_COUNTS_MAX && parse_count(line, &c->items[c->n]) && ++c->n;
}

int selftest_counts_parse(char *body, struct selftest_counts *ret)
{
	const char *first = strsep(&body, "\n");

	*ret = (struct selftest_counts){0};
	if (strcmp(first, "other") == 0)
		ret->folded = true;
	else if (strcmp(first, "counted") != 0)
		return -EBADMSG;
	for (char *line; (line = strsep(&body, "\n"));) {
		if (line[0] == '\0' && !body)
			return 0;
		if (!parse_line(line, ret))
			return -EBADMSG;
	}
	return -EBADMSG; /* the last line has no end: the answer was cut */
}

int selftest_counts_read(const char *socket, const char *cgroup, struct selftest_counts *ret)
{
	const struct timeval patience = {.tv_sec = BODY_SECONDS};
	char request[CONTROL_LINE_MAX] = "bad", body[BODY_BYTES_MAX];
	FILE *stream auto_fclose = NULL;
	size_t n;
	int r;

	if (ctl_argument(request, sizeof(request), "cgroup", cgroup) < 0) {
		fprintf(stderr, "faultctl: the path of the cgroup is too long: %s\n", cgroup);
		return FAULTD_FAILED;
	}
	r = ctl_ask(socket, request, &stream);
	if (r != FAULTD_OK)
		return r;
	(void)setsockopt(fileno(stream), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	n = fread(body, 1, sizeof(body) - 1, stream);
	body[n] = '\0';
	if (ferror(stream)) {
		fprintf(stderr, "faultctl: the daemon's answer did not come to its end: %s\n", strerror(errno));
		return FAULTD_NO_RESOURCE;
	}
	if (strlen(body) != n || selftest_counts_parse(body, ret) < 0) {
		fprintf(stderr, "faultctl: the daemon's answer is not understood: another version?\n");
		return FAULTD_FAILED;
	}
	return FAULTD_OK;
}

/* ---- comparing ---- */

bool selftest_counts_signal(const struct selftest_counts *counts, const char *signal)
{
	size_t len = strlen(signal);

	if (!counts->says_signals)
		return strcmp(signal, "SIGSEGV") == 0 || strcmp(signal, "SIGBUS") == 0;
	for (const char *at = counts->signals; (at = strstr(at, signal)); at += len)
		if (at[-1] == ' ' && (at[len] == ' ' || at[len] == '\0'))
			return true;
	return false;
}

static const struct selftest_count *find(const struct selftest_counts *counts, const char *signal, const char *code,
					 const char *outcome)
{
	for (size_t i = 0; i < counts->n; i++) {
		const struct selftest_count *c = &counts->items[i];
		if (strcmp(c->signal, signal) == 0 && strcmp(c->code, code) == 0 && strcmp(c->outcome, outcome) == 0)
			return c;
	}
	return NULL;
}

static bool is_wanted(const struct selftest_growth *wanted, const struct selftest_count *c)
{
	return wanted->signal && strcmp(c->signal, wanted->signal) == 0 && strcmp(c->code, wanted->code) == 0 &&
	       (strcmp(c->outcome, "handled") == 0 || strcmp(c->outcome, "fatal") == 0);
}

/* Counters that go down show as negative growth. */
static bool grew(const struct selftest_counts *before, const struct selftest_counts *after, const char *signal,
		 const char *code, const char *outcome, uint64_t by, struct strbuf *text)
{
	const struct selftest_count *b = find(before, signal, code, outcome), *a = find(after, signal, code, outcome);
	int64_t growth = (int64_t)((a ? a->count : 0) - (b ? b->count : 0));

	if (growth == (int64_t)by)
		return true;
	strbuf_addf(text, "%s%s %s %s %" PRId64 " instead of %" PRIu64, text->len ? ", " : "", signal, code, outcome,
		    growth, by);
	return false;
}

bool selftest_counts_grew(const struct selftest_counts *before, const struct selftest_counts *after,
			  const struct selftest_growth *wanted, struct strbuf *text)
{
	bool good = true;

	if (wanted->signal) {
		good &= grew(before, after, wanted->signal, wanted->code, "handled", wanted->handled, text);
		good &= grew(before, after, wanted->signal, wanted->code, "fatal", wanted->fatal, text);
	}
	for (size_t i = 0; i < after->n; i++) {
		const struct selftest_count *c = &after->items[i];
		if (!is_wanted(wanted, c))
			good &= grew(before, after, c->signal, c->code, c->outcome, 0, text);
	}
	for (size_t i = 0; i < before->n; i++) {
		const struct selftest_count *c = &before->items[i];
		if (!is_wanted(wanted, c) && !find(after, c->signal, c->code, c->outcome))
			good &= grew(before, after, c->signal, c->code, c->outcome, 0, text);
	}
	return good;
}
