/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny HTTP server for tests: one thread, one connection at a time, answers by script and remembers what it was
 * asked.
 */
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPT_REQUESTS_MAX 32

enum script_then {
	THEN_KEEP,        /* answer, then wait for the next request */
	THEN_CLOSE,       /* answer, then close: the client is not told before */
	THEN_RESET,       /* answer, then reset the connection */
	THEN_HANG,        /* answer, then say nothing until the client goes */
	CLOSE_ON_REQUEST, /* read the request and close without an answer */
	THEN_BABBLE,      /* answer, then send body bytes until the client goes */
};

struct script_step {
	const char *answer; /* all of it, from "HTTP/1.1" on */
	enum script_then then;
};

struct script_request {
	int connection; /* counted from 1 */
	char *head;
	uint8_t *body;
	size_t body_len;
	uint64_t at_ns;
};

struct script_server {
	int listener;
	int connection; /* being served */
	uint16_t port;
	pthread_t thread;
	pthread_mutex_t lock;
	const struct script_step *steps; /* when they are used up, 200 to all that comes */
	size_t n_steps;
	struct script_request requests[SCRIPT_REQUESTS_MAX];
	size_t n_requests;
	int connections;
};

/* Listens on 127.0.0.1 and a free port, or `port` if not 0. Ends the test program if it cannot. */
void script_start(struct script_server *s, const struct script_step *steps, size_t n_steps, uint16_t port);
/* Ends the thread, keeps the requests. */
void script_stop(struct script_server *s);
void script_forget(struct script_server *s);
size_t script_count(struct script_server *s);
/* A port that refuses connections. */
uint16_t script_closed_port(void);
