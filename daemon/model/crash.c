/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/crash.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bpf/fault_class.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"
#include "daemon/base/utf8.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/crash_address.h"

/* So many frames make a fingerprint: more would tell apart what is the same bug reached by another way. */
#define FINGERPRINT_FRAMES 4
#define CUT_MARK "..."

DEFINE_CLEANUP(crash_local, struct crash *, crash_free)
DEFINE_CLEANUP(identity_local, struct identity *, identity_free)

const char *crash_address_name(enum crash_address address)
{
	static const char *const names[CRASH_ADDRESSES] = {
	    [CRASH_ADDRESS_NONE] = "none",
	    [CRASH_ADDRESS_NULL_PAGE] = "null page",
	    [CRASH_ADDRESS_STACK_GUARD] = "stack guard",
	    [CRASH_ADDRESS_NON_CANONICAL] = "non-canonical",
	    [CRASH_ADDRESS_KERNEL_HALF] = "kernel half",
	    [CRASH_ADDRESS_UNMAPPED] = "unmapped",
	    [CRASH_ADDRESS_MAPPED] = "mapped",
	};

	return address < CRASH_ADDRESSES ? names[address] : "none";
}

const char *crash_core_name(enum crash_core core)
{
	return core == CRASH_CORE_WRITTEN ? "written" : core == CRASH_CORE_NONE ? "none" : "unknown";
}

/* ---- strings ---- */

/* NULL without memory. */
static char *copy_text(const char *prefix, const char *bytes, size_t size)
{
	auto_strbuf text = {0};

	strbuf_adds(&text, prefix);
	utf8_append(&text, bytes, strnlen(bytes, size));
	return strbuf_take(&text);
}

static char *copy_exe(const struct crash_event *e)
{
	bool is_cut = (e->flags & CRASH_EXE_CUT) && e->exe[0];

	return copy_text(is_cut ? e->exe[0] == '/' ? CUT_MARK : CUT_MARK "/" : "", e->exe, sizeof(e->exe));
}

/* ---- frames ---- */

/* The kernel fills shorter build ids up with zeros: those of 16 bytes (MD5, UUID) and 8 (xxHash) are told by that. */
static size_t build_id_bytes(const uint8_t id[CRASH_BUILD_ID_BYTES])
{
	static const size_t known[] = {0, 8, 16, CRASH_BUILD_ID_BYTES};
	size_t used = CRASH_BUILD_ID_BYTES, i = 0;

	while (used > 0 && id[used - 1] == 0)
		used--;
	while (known[i] < used)
		i++;
	return known[i];
}

static void put_hex(char *out, const uint8_t *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	*out = '\0';
}

static struct crash_frame decode_frame(const struct crash_event_frame *from, uint64_t code_begin, uint64_t code_end)
{
	struct crash_frame frame = {.in = CRASH_IN_NOTHING};
	size_t n = build_id_bytes(from->build_id);

	if (from->kind == CRASH_FRAME_BUILD_ID && n > 0) {
		frame.in = CRASH_IN_BUILD_ID;
		put_hex(frame.build_id, from->build_id, n);
		frame.offset = from->offset;
	} else if (from->kind == CRASH_FRAME_NONE && from->offset >= code_begin && from->offset < code_end) {
		frame.in = CRASH_IN_PROGRAM;
		frame.offset = from->offset - code_begin;
	}
	return frame;
}

static void decode_frames(struct crash *c, const struct crash_event_frame *frames, size_t n, uint64_t code_begin,
			  uint64_t code_end)
{
	c->n_frames = n < CRASH_FRAMES ? n : CRASH_FRAMES;
	for (size_t i = 0; i < c->n_frames; i++)
		c->frames[i] = decode_frame(&frames[i], code_begin, code_end);
}

/* ---- fingerprint ---- */

/* FNV-1a. */
static void hash_bytes(uint64_t *hash, const void *bytes, size_t n)
{
	for (const uint8_t *b = bytes; n-- > 0; b++)
		*hash = (*hash ^ *b) * UINT64_C(0x100000001b3);
}

static void hash_text(uint64_t *hash, const char *text)
{
	hash_bytes(hash, text, strlen(text) + 1);
}

/* Byte by byte: the same on every architecture. */
static void hash_number(uint64_t *hash, uint64_t n)
{
	for (int i = 0; i < 8; i++, n >>= 8)
		hash_bytes(hash, &(uint8_t){n & 0xff}, 1);
}

/* By names rather than numbers, which may change with a version. What has no build id is told apart by the program's
 * path. */
static uint64_t make_fingerprint(const struct crash *c)
{
	const struct bad_class names = bad_class_names(c->class);
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t first = 0, at;
	bool needs_exe;

	while (first < c->n_frames && c->frames[first].in == CRASH_IN_NOTHING)
		first++;
	needs_exe = first == c->n_frames;
	hash_text(&hash, names.signal);
	hash_text(&hash, names.code);
	hash_number(&hash, first);
	for (at = first; at < c->n_frames && at < first + FINGERPRINT_FRAMES; at++) {
		if (c->frames[at].in == CRASH_IN_NOTHING)
			break;
		needs_exe |= c->frames[at].in == CRASH_IN_PROGRAM;
		hash_text(&hash, c->frames[at].build_id);
		hash_number(&hash, c->frames[at].offset);
	}
	if (needs_exe)
		hash_text(&hash, c->exe);
	return hash;
}

/* ---- crash ---- */

static void decode_access(struct crash *c, const struct crash_event *e, enum crash_arch arch)
{
	uint32_t class;

	c->has_error_code = crash_has_access(e, arch);
	if (!c->has_error_code)
		return;
	class = arch == CRASH_ARCH_ARM64 ? fault_class_arm64(FAULT_USER, e->error_code)
					 : fault_class_x86(FAULT_USER, e->error_code);
	c->error_code = e->error_code;
	c->access = (enum fault_access)(class / FAULT_KINDS % FAULT_ACCESSES);
	c->kind = (enum fault_kind)(class % FAULT_KINDS);
}

static void copy_numbers(struct crash *c, const struct crash_event *e)
{
	c->cgroup_id = e->cgroup_id;
	c->pid = e->head.tgid;
	c->tid = e->head.tid;
	c->pid_inside = e->tgid_inside;
	c->tid_inside = e->tid_inside;
	c->uid = e->uid;
	c->sender_pid = e->sender_tgid;
	c->class = e->class;
	c->signal = e->signal;
	c->code = e->code;
	c->collapsed = e->flags & CRASH_COLLAPSED;
	c->ip = e->ip;
	c->sp = e->sp;
}

int crash_new(const struct crash_event *event, enum crash_arch arch, uint64_t time_unix_ns, struct identity *identity,
	      struct crash **ret)
{
	cleanup(identity_local) struct identity *id = identity;
	cleanup(crash_local) struct crash *c = calloc(1, sizeof(*c));

	assert(identity);
	if (!c)
		return -ENOMEM;
	c->comm = copy_text("", event->comm, sizeof(event->comm));
	c->exe = copy_exe(event);
	if (!c->comm || !c->exe)
		return -ENOMEM;
	c->identity = take_ptr(id);
	c->time_unix_ns = time_unix_ns;
	copy_numbers(c, event);
	c->has_address = crash_has_address(event, arch);
	c->address = c->has_address ? event->address : 0;
	decode_access(c, event, arch);
	/* Without an error code: a jump to where no instruction can be fetched fails at its own address. */
	c->where = crash_where(event, arch, c->has_error_code ? c->access == FAULT_EXEC : event->address == event->ip);
	decode_frames(c, event->frames, event->n_frames, event->code_begin, event->code_end);
	c->fingerprint = make_fingerprint(c);
	*ret = take_ptr(c);
	return 0;
}

void crash_set_frames(struct crash *c, const struct crash_exit_event *event)
{
	if (event->n_frames == 0)
		return;
	decode_frames(c, event->frames, event->n_frames, event->code_begin, event->code_end);
	c->fingerprint = make_fingerprint(c);
}

struct crash *crash_free(struct crash *c)
{
	if (c) {
		identity_free(c->identity);
		free(c->comm);
		free(c->exe);
		free(c);
	}
	return NULL;
}
