/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bodies of the cases share. All of it runs in the process of a case, which may die at any time.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/ctl/selftest.h"

/* Handlers note what they are told and then go different ways. The first jumps out of the access, back into witness_survives(). */
void witness_on_signal(int signo, siginfo_t *info, void *context);
/* For handlers of other kinds: only takes the note. */
void witness_note(int signo, const siginfo_t *info);

/* Installs a handler; `flags` besides SA_SIGINFO. */
void witness_catch(int signo, void (*handler)(int, siginfo_t *, void *), int flags);
/* Runs the body; true if a signal whose handler is witness_on_signal() ended it, false if it came to its end. Per thread. */
bool witness_survives(struct witness *w, void (*body)(struct witness *w));
/* Whose notes the handlers of this process write. */
void witness_begin(struct witness *w);
/* From now on handlers have to be told this address, or one in its page. */
void witness_expect(struct witness *w, const volatile void *address);
/* Tells the runner that the process waits for its signal. */
void witness_ready(const struct witness *w);

/* End the process: this machine cannot do it, or something went wrong that is not in the siginfo. */
_Noreturn void witness_skip(struct witness *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void witness_problem(struct witness *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A child of the case's process, which dies with it. */
pid_t witness_fork(struct witness *w);
/* Waits for the child, which has to be ended by `signo`; else a problem. */
void witness_wait_death(struct witness *w, pid_t pid, int signo);

/* Accesses that the compiler knows nothing about. */
void touch_read(const volatile void *p);
void touch_write(volatile void *p);
/* Pages of anonymous memory; a problem if there is none. */
char *map_pages(struct witness *w, size_t n, int protection);
size_t page_bytes(void);
