/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"
#include "daemon/sink/control.h"

/* The daemon answers within a turn of its loop; one that is stopped or hangs must not hang its operator, too. */
#define ANSWER_SECONDS 10
#define ERROR_BEGIN "error "

/* ---- connecting ---- */

static void tell_no_permission(const char *path)
{
	struct stat st;
	const struct group *group = stat(path, &st) == 0 ? getgrgid(st.st_gid) : NULL;

	if (group)
		fprintf(stderr, "faultctl: no permission to use %s: it is for root and members of the group '%s'\n",
			path, group->gr_name);
	else if (stat(path, &st) == 0)
		fprintf(stderr, "faultctl: no permission to use %s: it is for root and members of the group %u\n", path,
			(unsigned)st.st_gid);
	else
		fprintf(stderr, "faultctl: no permission to enter the folder of %s: try as root\n", path);
}

/* Returns the exit code. */
static int tell_not_connected(const char *path, int error)
{
	switch (error) {
	case ENOENT:
	case ECONNREFUSED:
		fprintf(stderr,
			"faultctl: no daemon listens at %s: is faultd running, and is its control socket there? "
			"--socket names another one\n",
			path);
		return FAULTD_NO_RESOURCE;
	case EACCES:
	case EPERM:
		tell_no_permission(path);
		return FAULTD_NO_PERMISSION;
	case EAGAIN:
		fprintf(stderr, "faultctl: the daemon at %s takes no connection: it is busy or hangs; try again\n",
			path);
		return FAULTD_NO_RESOURCE;
	case ENOTSOCK:
	case EPROTOTYPE:
		fprintf(stderr, "faultctl: %s is no stream socket: --socket names the daemon's control socket\n", path);
		return FAULTD_USAGE;
	default:
		fprintf(stderr, "faultctl: cannot connect to %s: %s\n", path, strerror(error));
		return FAULTD_NO_RESOURCE;
	}
}

static int dial(const char *path, int *ret)
{
	const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int fd = -EBADF;

	if (strlen(path) == 0 || strlen(path) >= sizeof(address.sun_path)) {
		fprintf(stderr, "faultctl: the path of a socket has 1 to %zu bytes, not %zu\n",
			sizeof(address.sun_path) - 1, strlen(path));
		return FAULTD_USAGE;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The time to send is also the time to wait in a full queue of connections. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return tell_not_connected(path, errno);
	*ret = take_fd(&fd);
	return FAULTD_OK;
}

/* ---- asking ---- */

/* A daemon with too many peers answers without reading, so a failure to send is not the last word. */
static void say(int fd, const char *bytes, size_t len)
{
	ssize_t n;

	for (; len > 0; bytes += n, len -= (size_t)n) {
		n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return;
	}
}

/* The first line without its end. Byte by byte, so that the body stays in the socket. */
static int hear_line(int fd, char *line, size_t size)
{
	for (size_t len = 0; len < size;) {
		ssize_t n = recv(fd, &line[len], 1, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ECONNRESET;
		if (line[len] == '\n') {
			line[len] = '\0';
			return 0;
		}
		len++;
	}
	return -EBADMSG;
}

/* Whoever listens at the path may not play with the terminal. */
static void tell_refused(const char *text)
{
	fputs("faultctl: the daemon refused: ", stderr);
	for (; *text; text++)
		fputc((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e ? '?' : *text, stderr);
	fputc('\n', stderr);
}

/* Returns the exit code. */
static int judge_answer(const char *path, int error, const char *line)
{
	if (error == -EAGAIN)
		fprintf(stderr, "faultctl: the daemon at %s did not answer for %d seconds\n", path, ANSWER_SECONDS);
	else if (error == -ECONNRESET)
		fprintf(stderr, "faultctl: the daemon at %s closed the connection without an answer\n", path);
	else if (error < 0 && error != -EBADMSG)
		fprintf(stderr, "faultctl: cannot read from %s: %s\n", path, strerror(-error));
	else if (error == 0 && strcmp(line, "ok") == 0)
		return FAULTD_OK;
	else if (error == 0 && strncmp(line, ERROR_BEGIN, strlen(ERROR_BEGIN)) == 0)
		tell_refused(line + strlen(ERROR_BEGIN));
	else
		fprintf(stderr, "faultctl: what listens at %s does not speak as faultd does\n", path);
	return FAULTD_FAILED;
}

int ctl_ask(const char *socket, const char *request, FILE **ret)
{
	const struct timeval for_ever = {0};
	char line[CONTROL_LINE_MAX] = "";
	auto_close int fd = -EBADF;
	FILE *body;
	int r = dial(socket, &fd);

	if (r != FAULTD_OK)
		return r;
	say(fd, request, strlen(request));
	say(fd, "\n", 1);
	r = judge_answer(socket, hear_line(fd, line, sizeof(line)), line);
	if (r != FAULTD_OK)
		return r;
	body = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever)) < 0 ? NULL : fdopen(fd, "r");
	if (!body) {
		fprintf(stderr, "faultctl: cannot read from %s: %s\n", socket, strerror(errno));
		return FAULTD_NO_RESOURCE;
	}
	(void)take_fd(&fd);
	*ret = body;
	return FAULTD_OK;
}

/* ---- arguments ---- */

static bool is_plain(char c)
{
	return (unsigned char)c > ' ' && c != 0x7f && c != '%';
}

int ctl_argument(char *request, size_t size, const char *key, const char *value)
{
	size_t len = strlen(request), need = 2 + strlen(key);
	char *at = request + len;

	for (const char *v = value; *v; v++)
		need += is_plain(*v) ? 1 : 3;
	if (need >= size - len)
		return -E2BIG;
	at += sprintf(at, " %s=", key);
	for (; *value; value++)
		at += sprintf(at, is_plain(*value) ? "%c" : "%%%02X", (unsigned char)*value);
	return 0;
}
