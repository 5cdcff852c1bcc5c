/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/scrape_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/log.h"

#define UNIX_PREFIX "unix:"
#define ADDRESS_FORMS "allowed are ADDRESS:PORT, [IPV6]:PORT, unix:/PATH and systemd"
#define BACKLOG 64

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
	struct sockaddr_storage storage;
};

static void done_listener(struct listener *l)
{
	struct stat st;

	l->fd = close_fd(l->fd);
	if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->path_dev && st.st_ino == l->path_ino)
		(void)unlink(l->path);
	free(l->path);
	free(l->address);
}

/* Takes over what `l` holds, on failure too. */
static int append(struct listeners *list, struct listener *l)
{
	struct listener *items = reallocarray(list->items, list->count + 1, sizeof(*items));

	if (!items || !l->address) {
		if (items)
			list->items = items;
		done_listener(l);
		return log_error_errno(ENOMEM, "scrape: out of memory");
	}
	list->items = items;
	list->items[list->count++] = *l;
	return 0;
}

/* The text of an address as users write it; NULL without memory. */
static char *format_address(int fd)
{
	char host[NI_MAXHOST], port[NI_MAXSERV], *text = NULL;
	union address a = {0};
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.any, &len) < 0)
		return strdup("unknown");
	if (a.any.sa_family == AF_UNIX) {
		size_t n =
		    len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
		bool abstract = n > 0 && a.un.sun_path[0] == '\0';

		if (asprintf(&text, UNIX_PREFIX "%s%.*s", abstract ? "@" : "", (int)n - abstract,
			     a.un.sun_path + abstract) < 0)
			return NULL;
		return text;
	}
	if (getnameinfo(&a.any, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return strdup("unknown");
	if (asprintf(&text, a.any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port) < 0)
		return NULL;
	return text;
}

/* ---- TCP ---- */

static bool is_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && digits <= 5 && text[digits] == '\0' && atoi(text) <= UINT16_MAX;
}

/* Splits at the colon before the port and takes the brackets off; *ret_host is on the heap. */
static int split_address(const char *address, char **ret_host, const char **ret_port)
{
	const char *colon = strrchr(address, ':'), *end = colon;
	char *host;

	if (!colon || colon == address || !is_port(colon + 1))
		return -EINVAL;
	if (address[0] == '[') {
		if (colon[-1] != ']')
			return -EINVAL;
		address++;
		end--;
	} else if (memchr(address, ':', (size_t)(colon - address))) {
		return -EINVAL; /* IPv6 without brackets */
	}
	host = strndup(address, (size_t)(end - address));
	if (!host)
		return -ENOMEM;
	*ret_host = host;
	*ret_port = colon + 1;
	return 0;
}

static int resolve(const char *address, union address *ret, socklen_t *ret_len)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_family = address[0] == '[' ? AF_INET6 : AF_INET,
				       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *found = NULL;
	auto_free char *host = NULL;
	const char *port;
	int r = split_address(address, &host, &port);

	if (r < 0)
		return r;
	if (getaddrinfo(host, port, &hints, &found) != 0 || !found)
		return -EINVAL;
	memcpy(ret, found->ai_addr, found->ai_addrlen);
	*ret_len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int bind_tcp(const union address *a, socklen_t len, int *ret)
{
	auto_close int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* A restart must not wait for old connections to time out; "[::]:9" beside "0.0.0.0:9" must not collide. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (a->any.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, &a->any, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret = take_fd(&fd);
	return 0;
}

static const char *tcp_advice(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return "another program, perhaps a second faultd, listens there ('ss -ltnp' shows which): stop it or "
		       "choose "
		       "another port";
	case -EACCES:
		return "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one";
	case -EADDRNOTAVAIL:
		return "no interface of this host has that address";
	case -EAFNOSUPPORT:
		return "this kernel or the service's RestrictAddressFamilies= has that address family switched off";
	default:
		return "check scrape.listen";
	}
}

static int open_tcp(struct listeners *list, const char *address)
{
	struct listener l = {.fd = -EBADF};
	union address a = {0};
	socklen_t len = 0;
	int r;

	r = resolve(address, &a, &len);
	if (r < 0)
		return log_error_errno(r, "scrape: '%s' is no address to listen on; " ADDRESS_FORMS, address);
	r = bind_tcp(&a, len, &l.fd);
	if (r < 0)
		return log_error_errno(r, "scrape: cannot listen on %s: %s; %s", address, strerror(-r), tcp_advice(r));
	l.address = format_address(l.fd);
	return append(list, &l);
}

/* ---- unix ---- */

/* True if the file is a socket that nobody accepts on any more. */
static bool is_stale(const union address *a, socklen_t len)
{
	auto_close int fd = -EBADF;
	struct stat st;

	if (lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	return connect(fd, &a->any, len) < 0 && errno == ECONNREFUSED;
}

static int bind_path(int fd, const union address *a, socklen_t len)
{
	/* By the mask rather than chmod(2) afterwards: at no time can others connect. */
	mode_t before = umask(0117);
	int r = bind(fd, &a->any, len) < 0 ? -errno : 0;

	umask(before);
	return r;
}

static int bind_unix(const union address *a, socklen_t len, int *ret)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = bind_path(fd, a, len);
	if (r == -EADDRINUSE && is_stale(a, len) && unlink(a->un.sun_path) == 0)
		r = bind_path(fd, a, len);
	if (r < 0)
		return r;
	if (listen(fd, BACKLOG) < 0) {
		r = -errno;
		(void)unlink(a->un.sun_path);
		return r;
	}
	*ret = take_fd(&fd);
	return 0;
}

static const char *unix_advice(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return "another program accepts there, or the file is no socket: stop the program or remove the file";
	case -ENOENT:
		return "the folder does not exist: create it (RuntimeDirectory= in the unit)";
	case -EACCES:
	case -EROFS:
		return "faultd may not write to the folder";
	default:
		return "check scrape.listen";
	}
}

static int open_unix(struct listeners *list, const char *address)
{
	const char *path = address + strlen(UNIX_PREFIX);
	struct listener l = {.fd = -EBADF};
	union address a = {.un.sun_family = AF_UNIX};
	struct stat st;
	int r;

	if (path[0] != '/' || strlen(path) >= sizeof(a.un.sun_path))
		return log_error_errno(EINVAL, "scrape: '%s' needs an absolute path of at most %zu bytes", address,
				       sizeof(a.un.sun_path) - 1);
	memcpy(a.un.sun_path, path, strlen(path) + 1);
	r = bind_unix(&a, sizeof(a.un), &l.fd);
	if (r < 0)
		return log_error_errno(r, "scrape: cannot listen on %s: %s; %s", address, strerror(-r), unix_advice(r));
	l.address = strdup(address);
	if (lstat(path, &st) == 0) {
		l.path = strdup(path);
		l.path_dev = st.st_dev;
		l.path_ino = st.st_ino;
	}
	return append(list, &l);
}

/* ---- systemd ---- */

static int open_systemd(struct listeners *list)
{
	size_t before = list->count;
	int n = sd_listen_fds(0);

	/* Among what systemd passes are also the descriptors that the daemon keeps in its store. */
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		struct listener l = {.fd = -EBADF};
		int r;

		if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
			continue;
		l.fd = fcntl(fd, F_DUPFD_CLOEXEC, SD_LISTEN_FDS_START);
		if (l.fd < 0 || fcntl(l.fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
			r = log_error_errno(errno, "scrape: cannot use the socket of systemd: %s", strerror(errno));
			close_fd(l.fd);
			return r;
		}
		l.address = format_address(l.fd);
		r = append(list, &l);
		if (r < 0)
			return r;
	}
	if (list->count == before)
		return log_error_errno(ENOENT,
				       "scrape: systemd passed no listening stream socket: enable the socket unit, or "
				       "name an address in scrape.listen");
	return 0;
}

/* ---- all ---- */

static void drop_behind(struct listeners *l, size_t count)
{
	while (l->count > count)
		done_listener(&l->items[--l->count]);
}

int listeners_open(struct listeners *l, const char *address)
{
	size_t before = l->count;
	int r;

	if (strcmp(address, "systemd") == 0)
		r = open_systemd(l);
	else if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		r = open_unix(l, address);
	else
		r = open_tcp(l, address);
	if (r < 0)
		drop_behind(l, before);
	return r;
}

void listeners_done(struct listeners *l)
{
	drop_behind(l, 0);
	free(l->items);
	*l = (struct listeners){0};
}
