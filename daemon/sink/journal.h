/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash records in the journal: entries with MESSAGE_ID and structured fields, by journald's native protocol on a
 * socket that never blocks (sd_journal_send() waits for a journald that hangs).
 *
 * An entry is one datagram: values are cut at JOURNAL_VALUE_MAX bytes, so that all of them together stay far below what
 * a socket sends at once, and the protocol's way for larger ones (a sealed file passed along) is never needed.
 */
#pragma once

#include "daemon/model/crash.h"

/* MESSAGE_ID of a crash entry; its catalog entry is systemd/faultd.catalog. */
#define JOURNAL_CRASH_MESSAGE_ID "2a75882401404c0f8bb52c551a0ba781"
#define JOURNAL_VALUE_MAX 8192

struct journal;

/* `path` is journald's socket, NULL: /run/systemd/journal/socket. -ENOENT if there is no journal, -ECONNREFUSED if
 * nobody listens there, -ENAMETOOLONG, -errno; logs nothing. A journald that is restarted later is found again. */
int journal_new(const char *path, struct journal **ret);
/* Accepts NULL, returns NULL. */
struct journal *journal_free(struct journal *j);
/* Writes an entry. -EAGAIN: the journal does not take it now, the entry is lost; -errno (lost, too). Addresses and
 * the error code are left out unless asked for. */
int journal_crash(struct journal *j, const struct crash *c, bool addresses);
