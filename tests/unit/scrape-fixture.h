/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrape endpoint and its clients in one thread: the clients never block, and the event loop runs a step whenever one of
 * them would have to wait. Failures fail the running test.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/strbuf.h"
#include "daemon/sink/gzip.h"
#include "daemon/sink/process.h"
#include "daemon/sink/scrape.h"

#define PATIENCE_NS (20 * NSEC_PER_SEC) /* valgrind is slow */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define GET_AND_CLOSE(path) "GET " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

struct server {
	sd_event *event;
	struct scrape *scrape;
	struct aggregate *aggregate;
	struct self_stats self;
	struct scrape_handlers handlers;
	int snapshot_error;
	const char *illness;
	unsigned reported;
	uint64_t reported_deaths;
	char folder[64];
	char socket_path[96];
};

/* What came from the server; `rest` is kept for the next answer on the same connection. */
struct reply {
	struct strbuf raw;
	int status;
	char *head; /* status line and headers, in raw */
	char *body;
	size_t body_len;
	bool closed;
};

int open_server(struct server *s, const char *address, uint32_t max_concurrent);
int make_bare(void **state);
int make_server(void **state);
int make_large_server(void **state);
int free_server(void **state);
void step(struct server *s);
void run_for(struct server *s, uint64_t ns);
int dial_tcp(const char *address, int receive_buffer);
int dial(struct server *s);
int dial_slow(struct server *s);
int unix_client(void);
int dial_unix(const char *path);
void say(struct server *s, int fd, const char *text);
void done_reply(struct reply *r);
char *header_of(const char *head, const char *name);
void hear_kind(struct server *s, int fd, struct reply *r, bool head_only);
void hear(struct server *s, int fd, struct reply *r);
void hear_end(struct server *s, int fd, struct reply *r);
void ask(struct server *s, const char *request, struct reply *r);
void assert_header(const struct reply *r, const char *name, const char *value);
void assert_serves(struct server *s);
size_t open_descriptors(void);

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, make_server, free_server)
#define WITH_LARGE_SERVER(test) cmocka_unit_test_setup_teardown(test, make_large_server, free_server)
#define BARE(test) cmocka_unit_test_setup_teardown(test, make_bare, free_server)
