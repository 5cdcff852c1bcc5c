/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_judge.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool judge_end(const struct selftest_case *c, bool dies, const struct selftest_end *end, struct strbuf *text)
{
	int wanted = dies ? selftest_signal_number(c->signal) : 0;
	int got = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
	const char *name = selftest_signal_name(got);

	if (end->timed_out)
		strbuf_adds(text, "the process hung and was killed");
	else if (WIFSIGNALED(end->status) && WCOREDUMP(end->status))
		strbuf_adds(text, "the process left a core, which it must not");
	else if (wanted && !got)
		strbuf_addf(text, "the process survived instead of dying of %s", c->signal);
	else if (got != wanted && name)
		strbuf_addf(text, "the process died of %s%s%s", name, wanted ? " instead of " : "",
			    wanted ? c->signal : "");
	else if (got != wanted)
		strbuf_addf(text, "the process died of signal %d", got);
	else if (WIFEXITED(end->status) && WEXITSTATUS(end->status) != 0)
		strbuf_addf(text, "the process ended with exit code %d", WEXITSTATUS(end->status));
	else
		return true;
	return false;
}

static void tell_wrong_info(const struct selftest_case *c, const struct witness *w, const char *name,
			    struct strbuf *text)
{
	const char *signal = selftest_signal_name(w->signo);

	strbuf_addf(text, "the handler was told of %s ", signal ? signal : "another signal");
	if (name)
		strbuf_adds(text, name);
	else
		strbuf_addf(text, "code %d", (int)w->code);
	strbuf_addf(text, " instead of %s %s", c->signal, c->codes);
}

static bool judge_handler(const struct selftest_case *c, uint32_t calls, const struct witness *w, const char **code,
			  struct strbuf *text)
{
	const uintptr_t in_page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	const char *name;

	if (w->calls != calls) {
		strbuf_addf(text, "the handler was called %" PRIu32 " times instead of %" PRIu32, w->calls, calls);
		return false;
	}
	if (calls == 0)
		return true;
	name = selftest_code_name(w->signo, w->code);
	if (w->signo != selftest_signal_number(c->signal) || !name || !selftest_code_among(name, c->codes)) {
		tell_wrong_info(c, w, name, text);
		return false;
	}
	if (w->strange) {
		strbuf_addf(text, "the handler was told something else %" PRIu32 " times", w->strange);
		return false;
	}
	if (w->check_address && ((w->address ^ w->expected) & ~in_page)) {
		strbuf_addf(text, "the handler was told of address 0x%" PRIxPTR " instead of 0x%" PRIxPTR, w->address,
			    w->expected);
		return false;
	}
	*code = name;
	return true;
}

enum selftest_result selftest_judge(const struct selftest_case *c, bool survive, const struct witness *w,
				    const struct selftest_end *end, const char **code, struct strbuf *text)
{
	bool both = c->flags & SELFTEST_BOTH;
	uint32_t calls = both && !survive ? 0 : c->seen;
	bool dies = both ? !survive : c->flags & SELFTEST_DIES;

	if (w->skip[0]) {
		strbuf_adds(text, w->skip);
		return SELFTEST_SKIP;
	}
	if (w->problem[0]) {
		strbuf_adds(text, w->problem);
		return SELFTEST_FAIL;
	}
	if (end->not_run) {
		strbuf_adds(text, "interrupted");
		return SELFTEST_SKIP;
	}
	return judge_end(c, dies, end, text) && judge_handler(c, calls, w, code, text) ? SELFTEST_PASS : SELFTEST_FAIL;
}

/* ---- what has to be ---- */

const char *selftest_counted_code(const struct selftest_case *c, const char *code)
{
	return c->counted ? c->counted : code ? code : c->codes;
}

void selftest_expected(const struct selftest_case *c, const char *code, struct strbuf *text)
{
	if (!c->signal) {
		strbuf_adds(text, "nothing");
		return;
	}
	strbuf_addf(text, "%s %s", c->signal, selftest_counted_code(c, code));
	if (c->handled)
		strbuf_addf(text, " handled %" PRIu32, c->handled);
	if (c->fatal)
		strbuf_addf(text, "%s fatal %" PRIu32, c->handled ? "," : "", c->fatal);
}
