/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the path's components, outermost first: what is recognised further in replaces what was found further
 * out. A component is recognised together with up to two before it and one behind it.
 */
#include "daemon/model/identity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"
#include "daemon/base/utf8.h"

#define CONTAINER_ID_LEN 64
#define ECS_TASK_LEN 32
#define UUID_LEN 36
/* Static pods have the digest of their manifest as uid. */
#define POD_DIGEST_LEN 32

/* A piece of the path; .at is NULL where nothing was found. */
struct piece {
	const char *at;
	size_t len;
};

struct facts {
	struct piece unit, slice, container, pod_uid;
	const char *runtime;
	bool escaped; /* the container's name is written with systemd's escapes */
	bool in_kubepods;
};

/* ---- pieces ---- */

static bool is_text(struct piece p, const char *text)
{
	return p.len == strlen(text) && memcmp(p.at, text, p.len) == 0;
}

static bool strip_prefix(struct piece *p, const char *prefix)
{
	size_t n = strlen(prefix);

	if (p->len < n || memcmp(p->at, prefix, n) != 0)
		return false;
	p->at += n;
	p->len -= n;
	return true;
}

static bool strip_suffix(struct piece *p, const char *suffix)
{
	size_t n = strlen(suffix);

	if (p->len < n || memcmp(p->at + p->len - n, suffix, n) != 0)
		return false;
	p->len -= n;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(struct piece p, size_t len)
{
	for (size_t i = 0; i < p.len; i++)
		if (!is_digit(p.at[i]) && (p.at[i] < 'a' || p.at[i] > 'f'))
			return false;
	return p.len == len;
}

static bool is_decimal(struct piece p)
{
	for (size_t i = 0; i < p.len; i++)
		if (!is_digit(p.at[i]))
			return false;
	return p.len > 0;
}

/* 8-4-4-4-12; in names of slices '-' is written '_'. */
static bool is_uuid(struct piece p, char separator)
{
	static const size_t groups[] = {8, 4, 4, 4, 12};

	if (p.len != UUID_LEN)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		if (i > 0 && *p.at++ != separator)
			return false;
		if (!is_hex((struct piece){p.at, groups[i]}, groups[i]))
			return false;
		p.at += groups[i];
	}
	return true;
}

/* ---- systemd ---- */

/* What systemd allows in a unit's name. */
static bool is_unit_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr(":-_.\\@", c));
}

/* A unit of one of the types in `suffixes`. systemd puts '_' before a name that the kernel could take for a file of its
 * own. */
static bool is_unit(struct piece p, const char *const suffixes[], struct piece *ret)
{
	struct piece name;

	(void)strip_prefix(&p, "_");
	for (size_t i = 0; i < p.len; i++)
		if (!is_unit_char(p.at[i]))
			return false;
	for (; *suffixes; suffixes++) {
		name = p;
		if (strip_suffix(&name, *suffixes) && name.len > 0) {
			*ret = p;
			return true;
		}
	}
	return false;
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of the escape \xNN at `p`, -1 if none is there. */
static int escaped_byte(struct piece p)
{
	int high, low;

	if (p.len < 4 || p.at[0] != '\\' || p.at[1] != 'x')
		return -1;
	high = hex_value(p.at[2]);
	low = hex_value(p.at[3]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Appends with escapes decoded. What is no escape, or would be no text, stays as it is written. */
static void append_unescaped(struct strbuf *out, struct piece p)
{
	while (p.len > 0) {
		char bytes[4];
		size_t n = 0, len;
		uint32_t code;
		int byte;

		while (n < sizeof(bytes) && n * 4 < p.len &&
		       (byte = escaped_byte((struct piece){p.at + n * 4, p.len - n * 4})) >= 0)
			bytes[n++] = (char)byte;
		if (n > 0 && utf8_next(bytes, n, &len, &code) && code != 0) {
			strbuf_add(out, bytes, len);
			len *= 4;
		} else {
			(void)utf8_next(p.at, p.len, &len, &code);
			utf8_append(out, p.at, len);
		}
		p.at += len;
		p.len -= len;
	}
}

/* ---- containers ---- */

struct runtime_name {
	const char *name, *runtime;
};

static const char *find_runtime(const struct runtime_name *names, struct piece p)
{
	for (; names->name; names++)
		if (is_text(p, names->name))
			return names->runtime;
	return NULL;
}

static void found(struct facts *f, const char *runtime, struct piece container, bool escaped)
{
	f->runtime = runtime;
	f->container = container;
	f->escaped = escaped;
}

/* <prefix>-<id>.scope from the systemd drivers; <prefix>-<id> from cgroupfs drivers; <slice>:<prefix>:<id> where a
 * runtime with the cgroupfs driver was handed the systemd driver's form. */
static bool find_prefixed(struct piece p, struct facts *f)
{
	static const struct runtime_name prefixes[] = {
	    {"docker", "docker"},
	    {"cri-containerd", "containerd"},
	    {"nerdctl", "containerd"},
	    {"crio", "cri-o"},
	    {"libpod", "podman"},
	    {"libpod-payload", "podman"},
	    {NULL, NULL},
	};
	struct piece id, prefix;
	const char *runtime, *colon;

	(void)strip_suffix(&p, ".scope");
	if (p.len <= CONTAINER_ID_LEN)
		return false;
	id = (struct piece){p.at + p.len - CONTAINER_ID_LEN, CONTAINER_ID_LEN};
	prefix = (struct piece){p.at, p.len - CONTAINER_ID_LEN};
	if (!is_hex(id, CONTAINER_ID_LEN) || (!strip_suffix(&prefix, "-") && !strip_suffix(&prefix, ":")))
		return false;
	colon = memrchr(prefix.at, ':', prefix.len);
	if (colon)
		prefix = (struct piece){colon + 1, (size_t)(prefix.at + prefix.len - colon - 1)};
	runtime = find_runtime(prefixes, prefix);
	if (runtime)
		found(f, runtime, id, false);
	return runtime;
}

static bool is_pod_uid(struct piece p, char separator)
{
	return is_uuid(p, separator) || is_hex(p, POD_DIGEST_LEN);
}

static bool is_pod_folder(struct piece p)
{
	return strip_prefix(&p, "pod") && is_pod_uid(p, '-');
}

/* <folder>/<id>. Who made the container in a pod's folder is not written there; CRI-O and podman would have put their
 * prefix. */
static bool find_by_folder(struct piece folder, struct piece p, struct facts *f)
{
	static const struct runtime_name folders[] = {
	    {"docker", "docker"},
	    {"k8s.io", "containerd"},
	    {"default", "containerd"},
	    {NULL, NULL},
	};
	const char *runtime;

	if (!is_hex(p, CONTAINER_ID_LEN))
		return false;
	runtime = f->in_kubepods && is_pod_folder(folder) ? "containerd" : find_runtime(folders, folder);
	if (runtime)
		found(f, runtime, p, false);
	return runtime;
}

/* A task's id, or that and a number. */
static bool is_ecs_task(struct piece p, bool number_needed)
{
	const char *dash;
	struct piece task = p;

	if (!number_needed && (is_uuid(p, '-') || is_hex(p, ECS_TASK_LEN)))
		return true;
	dash = memrchr(p.at, '-', p.len);
	if (!dash)
		return false;
	task.len = (size_t)(dash - p.at);
	return (is_uuid(task, '-') || is_hex(task, ECS_TASK_LEN)) &&
	       is_decimal((struct piece){dash + 1, p.len - task.len - 1});
}

/* /ecs/<task>/<id of Docker> on EC2, /ecs/<task>/<task>-<number> on Fargate. */
static bool find_ecs(struct piece grandparent, struct piece parent, struct piece p, struct facts *f)
{
	if (!grandparent.at || !is_text(grandparent, "ecs") || !is_ecs_task(parent, false))
		return false;
	if (!is_hex(p, CONTAINER_ID_LEN) && !is_ecs_task(p, true))
		return false;
	found(f, "ecs", p, false);
	return true;
}

static bool find_lxc(struct piece parent, struct piece p, struct facts *f)
{
	bool in_folder = parent.at && (is_text(parent, "lxc") || is_text(parent, "lxc.payload"));

	if (strip_prefix(&p, "lxc.")) {
		/* lxc.monitor.<name> is LXC itself. */
		if (!strip_prefix(&p, "payload.") || p.len == 0)
			return false;
	} else if (!in_folder) {
		return false;
	}
	found(f, "lxc", p, false);
	return true;
}

/* libvirt's machines have scopes of the same form, named <driver>-<number>-<name>. */
static bool is_libvirt(struct piece name)
{
	static const char *const drivers[] = {"qemu\\x2d", "lxc\\x2d", "ch\\x2d", "xen\\x2d"};

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		struct piece rest = name;
		const char *escape;

		if (!strip_prefix(&rest, drivers[i]))
			continue;
		escape = memchr(rest.at, '\\', rest.len);
		if (escape && is_decimal((struct piece){rest.at, (size_t)(escape - rest.at)}))
			return true;
	}
	return false;
}

/* Below the unit the container is in "payload", nspawn itself in "supervisor". */
static bool find_nspawn(struct piece p, struct piece next, struct facts *f)
{
	bool service = strip_prefix(&p, "systemd-nspawn@") && strip_suffix(&p, ".service");
	bool scope = !service && strip_prefix(&p, "machine-") && strip_suffix(&p, ".scope") && !is_libvirt(p);

	if ((!service && !scope) || p.len == 0 || (next.at && is_text(next, "supervisor")))
		return false;
	found(f, "nspawn", p, true);
	return true;
}

/* ---- pods ---- */

/* [<anything>-]kubepods[-<class>]-pod<uid>.slice, or that at the beginning of the form with colons. */
static bool find_pod_in_slice(struct piece p, struct facts *f)
{
	const char *colon = memchr(p.at, ':', p.len);
	size_t lengths[] = {UUID_LEN, POD_DIGEST_LEN};

	if (colon)
		p.len = (size_t)(colon - p.at);
	if (!strip_suffix(&p, ".slice") || !memmem(p.at, p.len, "kubepods", strlen("kubepods")))
		return false;
	f->in_kubepods = true;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct piece before = p, uid;

		if (p.len <= lengths[i])
			continue;
		before.len -= lengths[i];
		uid = (struct piece){p.at + before.len, lengths[i]};
		if (strip_suffix(&before, "-pod") && is_pod_uid(uid, '_')) {
			f->pod_uid = uid;
			return true;
		}
	}
	return false;
}

static void find_pod(struct piece p, struct facts *f)
{
	if (is_text(p, "kubepods")) {
		f->in_kubepods = true;
	} else if (!find_pod_in_slice(p, f) && f->in_kubepods && is_pod_folder(p)) {
		(void)strip_prefix(&p, "pod");
		f->pod_uid = p;
	}
}

/* ---- the whole path ---- */

static void look_at(struct piece grandparent, struct piece parent, struct piece p, struct piece next, struct facts *f)
{
	static const char *const units[] = {".service", ".scope", ".socket", ".mount", ".swap", NULL};
	static const char *const slices[] = {".slice", NULL};

	(void)(is_unit(p, units, &f->unit) || is_unit(p, slices, &f->slice));
	find_pod(p, f);
	(void)(find_prefixed(p, f) || find_ecs(grandparent, parent, p, f) || find_nspawn(p, next, f) ||
	       find_lxc(parent, p, f) || (parent.at && find_by_folder(parent, p, f)));
}

static struct piece next_piece(struct piece *rest)
{
	const char *end;
	struct piece p;

	while (rest->len > 0 && *rest->at == '/') {
		rest->at++;
		rest->len--;
	}
	if (rest->len == 0)
		return (struct piece){0};
	end = memchr(rest->at, '/', rest->len);
	p = (struct piece){rest->at, end ? (size_t)(end - rest->at) : rest->len};
	rest->at += p.len;
	rest->len -= p.len;
	return p;
}

static void find_facts(const char *path, size_t len, struct facts *f)
{
	struct piece rest = {path, len}, grandparent = {0}, parent = {0}, p = next_piece(&rest), next;

	for (; p.at; grandparent = parent, parent = p, p = next) {
		next = next_piece(&rest);
		look_at(grandparent, parent, p, next, f);
	}
}

/* ---- text ---- */

static char *text_of(struct piece p, bool escaped)
{
	auto_strbuf out = {0};

	if (escaped)
		append_unescaped(&out, p);
	else
		utf8_append(&out, p.at, p.len);
	return strbuf_take(&out);
}

static char *pod_uid_of(struct piece p)
{
	char *text = text_of(p, false);

	for (char *c = text; c && *c; c++)
		if (*c == '_')
			*c = '-';
	return text;
}

struct identity *identity_free(struct identity *id)
{
	if (id) {
		free(id->path);
		free(id->label);
		free(id->unit);
		free(id->slice);
		free(id->runtime);
		free(id->container_id);
		free(id->pod_uid);
		free(id);
	}
	return NULL;
}

DEFINE_CLEANUP(identity_local, struct identity *, identity_free)

static int make(const char *path, size_t len, const struct facts *f, struct identity **ret)
{
	struct identity *id cleanup(identity_local) = calloc(1, sizeof(*id));

	if (!id)
		return -ENOMEM;
	id->path = strndup(path, len);
	id->label = text_of((struct piece){path, len}, false);
	id->unit = text_of(f->unit, true);
	id->slice = text_of(f->slice, true);
	id->runtime = strdup(f->runtime ? f->runtime : "");
	id->container_id = text_of(f->container, f->escaped);
	id->pod_uid = pod_uid_of(f->pod_uid);
	if (!id->path || !id->label || !id->unit || !id->slice || !id->runtime || !id->container_id || !id->pod_uid)
		return -ENOMEM;
	*ret = take_ptr(id);
	return 0;
}

int identity_parse(const char *path, size_t len, struct identity **ret)
{
	struct facts f = {0};

	len = strnlen(path, len);
	if (len == 0)
		return -EINVAL;
	find_facts(path, len, &f);
	return make(path, len, &f, ret);
}

int identity_pseudo(const char *label, struct identity **ret)
{
	return make(label, strlen(label), &(struct facts){0}, ret);
}
