/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/http-script.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"

#define REQUEST_MAX_BYTES ((size_t)4 << 20)
#define TLS_HANDSHAKE 0x16

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "test server: %s: %s\n", what, strerror(errno));
		abort();
	}
}

/* Reads one request into `buffer`. False at the end of the connection. */
static bool read_request(int fd, char *buffer, size_t *ret_head, size_t *ret_body)
{
	size_t have = 0, body = 0;
	char *end = NULL, *length;

	while (!end || have < (size_t)(end - buffer) + body) {
		ssize_t n = recv(fd, buffer + have, REQUEST_MAX_BYTES - have - 1, 0);

		if (n <= 0)
			return false;
		have += (size_t)n;
		buffer[have] = '\0';
		if (buffer[0] == TLS_HANDSHAKE) {
			*ret_head = *ret_body = 0;
			return true;
		}
		if (end || !(end = strstr(buffer, "\r\n\r\n")))
			continue;
		end += 4;
		length = strcasestr(buffer, "\r\nContent-Length:");
		body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
	}
	*ret_head = (size_t)(end - buffer);
	*ret_body = body;
	return true;
}

static size_t remember(struct script_server *s, const char *buffer, size_t head, size_t body)
{
	struct script_request *r;
	size_t at;

	pthread_mutex_lock(&s->lock);
	at = s->n_requests;
	must(at < SCRIPT_REQUESTS_MAX, "too many requests");
	r = &s->requests[at];
	*r = (struct script_request){.connection = s->connections, .body_len = body, .at_ns = clock_monotonic_ns()};
	r->head = strndup(buffer, head);
	r->body = malloc(body + 1);
	must(r->head && r->body, "memory");
	memcpy(r->body, buffer + head, body);
	s->n_requests++;
	pthread_mutex_unlock(&s->lock);
	return at;
}

static bool send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

static void wait_for_client(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, 0) > 0)
		;
}

static void reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	usleep(20000); /* so that the client reads what came before: a reset discards it */
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void babble(int fd)
{
	char noise[16384];

	memset(noise, 'x', sizeof(noise));
	while (send_all(fd, noise, sizeof(noise)))
		;
}

static const struct script_step ok_step = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", THEN_KEEP};

/* True if the connection stays. */
static bool answer(int fd, const struct script_step *step)
{
	if (step->then == CLOSE_ON_REQUEST || !send_all(fd, step->answer, strlen(step->answer)))
		return false;
	switch (step->then) {
	case THEN_KEEP:
		return true;
	case THEN_RESET:
		reset(fd);
		return false;
	case THEN_HANG:
		wait_for_client(fd);
		return false;
	case THEN_BABBLE:
		babble(fd);
		return false;
	default:
		return false;
	}
}

static void serve(struct script_server *s, int fd, char *buffer)
{
	size_t head, body, at;

	do {
		if (!read_request(fd, buffer, &head, &body))
			return;
		at = remember(s, buffer, head, body);
	} while (answer(fd, at < s->n_steps ? &s->steps[at] : &ok_step));
}

static void *run(void *userdata)
{
	struct script_server *s = userdata;
	char *buffer = malloc(REQUEST_MAX_BYTES);
	int fd;

	must(buffer, "memory");
	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		pthread_mutex_lock(&s->lock);
		s->connections++;
		s->connection = fd;
		pthread_mutex_unlock(&s->lock);
		serve(s, fd, buffer);
		pthread_mutex_lock(&s->lock);
		s->connection = -EBADF;
		close(fd);
		pthread_mutex_unlock(&s->lock);
	}
	free(buffer);
	return NULL;
}

static int listen_on(uint16_t port, uint16_t *ret_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0, "socket");
	must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
	must(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
	*ret_port = ntohs(address.sin_port);
	return fd;
}

void script_start(struct script_server *s, const struct script_step *steps, size_t n_steps, uint16_t port)
{
	memset(s, 0, sizeof(*s));
	s->connection = -EBADF;
	s->steps = steps;
	s->n_steps = n_steps;
	s->listener = listen_on(port, &s->port);
	must(listen(s->listener, 8) == 0, "listen");
	pthread_mutex_init(&s->lock, NULL);
	must(pthread_create(&s->thread, NULL, run, s) == 0, "thread");
}

void script_stop(struct script_server *s)
{
	pthread_mutex_lock(&s->lock);
	shutdown(s->listener, SHUT_RDWR);
	if (s->connection >= 0)
		shutdown(s->connection, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	close(s->listener);
}

void script_forget(struct script_server *s)
{
	for (size_t at = 0; at < s->n_requests; at++) {
		free(s->requests[at].head);
		free(s->requests[at].body);
	}
	s->n_requests = 0;
}

size_t script_count(struct script_server *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->n_requests;
	pthread_mutex_unlock(&s->lock);
	return n;
}

uint16_t script_closed_port(void)
{
	uint16_t port;

	close(listen_on(0, &port));
	return port;
}
