/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/journal.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/fault.h"
#include "daemon/sink/crash_line.h"

#define SOCKET_PATH "/run/systemd/journal/socket"
/* More than the largest entry and its bookkeeping in the kernel. */
#define SEND_BUFFER (256 << 10)

struct journal {
	int fd;
	struct sockaddr_un
	    address; /* of each datagram, rather than a connection that a restart of journald would break */
	struct strbuf entry;
	struct strbuf value;
};

DEFINE_CLEANUP(journal_local, struct journal *, journal_free)

/* ---- socket ---- */

/* Whether somebody receives there. */
static int probe(const struct sockaddr_un *address)
{
	auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	return 0;
}

int journal_new(const char *path, struct journal **ret)
{
	cleanup(journal_local) struct journal *j = calloc(1, sizeof(*j));
	const char *at = path ? path : SOCKET_PATH;
	const int size = SEND_BUFFER;
	int r;

	if (!j)
		return -ENOMEM;
	j->fd = -EBADF;
	j->address.sun_family = AF_UNIX;
	if (strlen(at) >= sizeof(j->address.sun_path))
		return -ENAMETOOLONG;
	memcpy(j->address.sun_path, at, strlen(at) + 1);
	r = probe(&j->address);
	if (r < 0)
		return r;
	j->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (j->fd < 0)
		return -errno;
	/* The host may allow less; then the largest entries fail. */
	(void)setsockopt(j->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	*ret = take_ptr(j);
	return 0;
}

struct journal *journal_free(struct journal *j)
{
	if (j) {
		close_fd(j->fd);
		strbuf_done(&j->entry);
		strbuf_done(&j->value);
		free(j);
	}
	return NULL;
}

static int send_entry(struct journal *j)
{
	if (strbuf_error(&j->entry) < 0)
		return strbuf_error(&j->entry);
	if (sendto(j->fd, j->entry.data, j->entry.len, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&j->address, sizeof(j->address)) < 0)
		return -errno;
	return 0;
}

/* ---- fields ---- */

/* Not in the middle of a character. */
static size_t cut_length(const char *value, size_t len)
{
	if (len <= JOURNAL_VALUE_MAX)
		return len;
	len = JOURNAL_VALUE_MAX;
	while (len > 0 && ((unsigned char)value[len] & 0xc0) == 0x80)
		len--;
	return len;
}

/* KEY=value, or with a line end inside: KEY, the length as 64 bits in little endian, the value. Nothing for an empty
 * value. */
static void put(struct journal *j, const char *key, const char *value)
{
	size_t len = cut_length(value, strlen(value));
	uint64_t le_len = htole64(len);

	if (len == 0)
		return;
	strbuf_adds(&j->entry, key);
	if (memchr(value, '\n', len)) {
		strbuf_addc(&j->entry, '\n');
		strbuf_add(&j->entry, &le_len, sizeof(le_len));
	} else {
		strbuf_addc(&j->entry, '=');
	}
	strbuf_add(&j->entry, value, len);
	strbuf_addc(&j->entry, '\n');
}

static void put_number(struct journal *j, const char *key, uint64_t number)
{
	strbuf_addf(&j->entry, "%s=%" PRIu64 "\n", key, number);
}

static void put_hex(struct journal *j, const char *key, uint64_t number)
{
	strbuf_addf(&j->entry, "%s=0x%" PRIx64 "\n", key, number);
}

/* Of what was gathered in j->value. */
static void put_gathered(struct journal *j, const char *key)
{
	if (strbuf_error(&j->value) < 0)
		j->entry.error = strbuf_error(&j->value);
	else if (j->value.data)
		put(j, key, j->value.data);
	strbuf_reset(&j->value);
}

static void put_frames(struct journal *j, const struct crash *c)
{
	for (size_t i = 0; i < c->n_frames; i++) {
		const struct crash_frame *f = &c->frames[i];

		strbuf_addf(&j->value, "%s#%zu ", i ? "\n" : "", i);
		if (f->in == CRASH_IN_NOTHING)
			strbuf_addc(&j->value, '?');
		else
			strbuf_addf(&j->value, "%s+0x%" PRIx64, f->in == CRASH_IN_PROGRAM ? "program" : f->build_id,
				    f->offset);
	}
	put_gathered(j, "FAULTD_FRAMES");
}

static void put_message(struct journal *j, const struct crash *c)
{
	crash_line_message(c, &j->value);
	put_gathered(j, "MESSAGE");
	put(j, "MESSAGE_ID", JOURNAL_CRASH_MESSAGE_ID);
	put_number(j, "PRIORITY", LOG_ERR);
	put(j, "SYSLOG_IDENTIFIER", "faultd");
	put_number(j, "OBJECT_PID", c->pid);
}

static void put_who(struct journal *j, const struct crash *c)
{
	put(j, "FAULTD_CGROUP", c->identity->label);
	put(j, "FAULTD_UNIT", c->identity->unit);
	put(j, "FAULTD_CONTAINER_ID", c->identity->container_id);
	put(j, "FAULTD_POD_UID", c->identity->pod_uid);
	put_number(j, "FAULTD_PID", c->pid);
	put_number(j, "FAULTD_TID", c->tid);
	put_number(j, "FAULTD_PID_INSIDE", c->pid_inside);
	put_number(j, "FAULTD_UID", c->uid);
	put(j, "FAULTD_COMM", c->comm);
	put(j, "FAULTD_EXE", c->exe);
}

static void put_fault(struct journal *j, const struct crash *c)
{
	const struct bad_class names = bad_class_names(c->class);
	const struct fault_class access = fault_class_names(FAULT_CLASS(FAULT_USER, c->access, c->kind));

	put(j, "FAULTD_SIGNAL", names.signal);
	put(j, "FAULTD_CODE", names.code);
	strbuf_addf(&j->entry, "FAULTD_SI_CODE=%" PRId32 "\n", c->code);
	if (c->sender_pid)
		put_number(j, "FAULTD_SENDER_PID", c->sender_pid);
	if (c->has_error_code) {
		put(j, "FAULTD_ACCESS", access.access);
		put(j, "FAULTD_KIND", access.kind);
	}
	put(j, "FAULTD_ADDRESS_CLASS", crash_address_name(c->where));
	strbuf_addf(&j->entry, "FAULTD_FINGERPRINT=%016" PRIx64 "\n", c->fingerprint);
	put_frames(j, c);
	put(j, "FAULTD_CORE", crash_core_name(c->core));
	put_number(j, "FAULTD_SUPPRESSED", c->suppressed);
}

static void put_addresses(struct journal *j, const struct crash *c)
{
	if (c->has_address)
		put_hex(j, "FAULTD_ADDRESS", c->address);
	put_hex(j, "FAULTD_IP", c->ip);
	put_hex(j, "FAULTD_SP", c->sp);
	if (c->has_error_code)
		put_hex(j, "FAULTD_ERROR_CODE", c->error_code);
}

int journal_crash(struct journal *j, const struct crash *c, bool addresses)
{
	strbuf_reset(&j->entry);
	put_message(j, c);
	put_who(j, c);
	put_fault(j, c);
	if (addresses)
		put_addresses(j, c);
	return send_entry(j);
}
