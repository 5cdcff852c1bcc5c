/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets for the scrape endpoint, made from the addresses of the configuration.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct listener {
	int fd;         /* listening, non-blocking, close-on-exec; -EBADF once it was handed on */
	char *address;  /* as bound: with the real port; for sockets of systemd what they are bound to */
	char *path;     /* of a unix socket that we made and remove again; NULL otherwise */
	dev_t path_dev; /* what we made at `path`: a file that another process put there since is not ours */
	ino_t path_ino;
};

struct listeners {
	struct listener *items;
	size_t count;
};

/* Opens one address ("127.0.0.1:9", "[::1]:9", "unix:/path", or "systemd" for all stream sockets that the service
 * manager passed) and appends it. Sockets of systemd are duplicated, so that a later call finds them again. Logs what
 * failed and what to do about it. -EINVAL for what is no address, -ENOENT if systemd passed none or the folder is
 * missing, -EADDRINUSE, -EACCES, ...; on failure nothing was appended. */
int listeners_open(struct listeners *l, const char *address);
/* Closes the sockets that were not handed on, removes unix socket files that are still ours, frees. */
void listeners_done(struct listeners *l);
