/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash records in the journal: entries with MESSAGE_ID and structured fields, by journald's native protocol on a socket that never
 * blocks (sd_journal_send() waits for a journald that hangs).
 */
#pragma once

#include "daemon/model/crash.h"

/* MESSAGE_ID of a crash entry; its catalog entry is systemd/faultd.catalog. */
#define JOURNAL_CRASH_MESSAGE_ID "2a75882401404c0f8bb52c551a0ba781"

struct journal;

/* `path` is journald's socket, NULL: /run/systemd/journal/socket. -ENOENT if there is no journal, -errno; logs nothing. */
int journal_new(const char *path, struct journal **ret);
struct journal *journal_free(struct journal *j);
/* Writes an entry. -EAGAIN: the journal does not take it now, the entry is lost; -errno. Addresses are left out unless asked for. */
int journal_crash(struct journal *j, const struct crash *c, bool addresses);
