/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/ctl/symbols_elf.h"
#include "daemon/ctl/symbols_kernel.h"

#define PROCESSES_MAX 64
#define FILES_MAX 64
#define FILES_BYTES_MAX ((size_t)256 << 20)
/* How long mappings are believed without a hint, and how often they are read again for one that fits none of them. */
#define MAPS_BELIEVED_NS NSEC_PER_SEC
#define MAPS_PAUSE_NS (100 * NSEC_PER_MSEC)

/* A file whose symbols were asked for. */
struct file {
	uint64_t serial; /* 0: free */
	uint64_t used;
	unsigned major, minor; /* as /proc/PID/maps has them, for processes that are gone */
	struct stat st;
	struct elf_symbols *symbols; /* NULL: it has none */
	size_t bytes;
};

/* An executable mapping. */
struct mapping {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char *path;           /* as in /proc/PID/maps; "" if it has none */
	uint64_t file_serial; /* 0: not asked yet */
};

struct process {
	uint32_t tgid; /* 0: free */
	uint64_t used, read_ns;
	struct mapping *maps;
	size_t n, capacity;
};

struct symbols {
	char *proc;
	uint64_t clock; /* counts questions, for "used" */
	uint64_t serial;
	struct process processes[PROCESSES_MAX];
	struct file files[FILES_MAX];
	struct kernel_symbols *kernel;
	bool kernel_asked;
	int kernel_error;
};

static void close_stream(FILE **f)
{
	if (*f)
		fclose(*f);
}

DEFINE_CLEANUP(elf_done, struct elf_symbols *, elf_symbols_free)

/* ---- mappings ---- */

static void process_done(struct process *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->maps[i].path);
	free(p->maps);
	*p = (struct process){0};
}

/* start-end perms offset major:minor inode path */
static bool parse_mapping(char *line, struct mapping *ret)
{
	unsigned long long start, end, offset, inode;
	unsigned major, minor;
	int path = 0;
	char x;

	if (sscanf(line, "%llx-%llx %*2c%c%*c %llx %x:%x %llu %n", &start, &end, &x, &offset, &major, &minor, &inode,
		   &path) < 7 ||
	    x != 'x' || path == 0)
		return false;
	line[strcspn(line, "\n")] = '\0';
	*ret = (struct mapping){
	    .start = start,
	    .end = end,
	    .offset = offset,
	    .inode = inode,
	    .major = major,
	    .minor = minor,
	    .path = strdup(line + path),
	};
	return ret->path;
}

static int add_mapping(struct process *p, const struct mapping *m)
{
	if (p->n == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 32;
		struct mapping *maps = reallocarray(p->maps, capacity, sizeof(*maps));

		if (!maps)
			return -ENOMEM;
		p->maps = maps;
		p->capacity = capacity;
	}
	p->maps[p->n++] = *m;
	return 0;
}

static int read_maps(const struct symbols *s, uint32_t tgid, struct process *ret)
{
	struct process p cleanup(process_done) = {.tgid = tgid};
	FILE *file cleanup(close_stream) = NULL;
	auto_free char *line = NULL;
	char path[PATH_MAX];
	struct mapping m;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/%u/maps", s->proc, tgid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (getline(&line, &size, file) >= 0)
		if (parse_mapping(line, &m) && add_mapping(&p, &m) < 0) {
			free(m.path);
			return -ENOMEM;
		}
	/* A process that is about to end has an empty list. */
	if (p.n == 0)
		return -ESRCH;
	*ret = p;
	p = (struct process){0};
	return 0;
}

/* The entry of the process; else the one to be replaced, of which only the tgid is to be looked at. */
static struct process *entry_of(struct symbols *s, uint32_t tgid)
{
	struct process *oldest = &s->processes[0];

	for (size_t i = 0; i < PROCESSES_MAX; i++) {
		if (s->processes[i].tgid == tgid)
			return &s->processes[i];
		if (s->processes[i].used < oldest->used)
			oldest = &s->processes[i];
	}
	return oldest;
}

/* The file's name without "path/" begins with what the kernel said. */
static bool has_name(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0;
}

static bool agrees(const struct mapping *m, uint64_t ip, const struct symbol_hint *hint)
{
	if (!hint)
		return true;
	if (!*hint->module)
		return m->inode == 0;
	return m->offset + (ip - m->start) == hint->offset && has_name(m->path, hint->module);
}

static struct mapping *find_in(const struct process *p, uint64_t ip, const struct symbol_hint *hint)
{
	for (size_t i = 0; i < p->n; i++)
		if (ip >= p->maps[i].start && ip < p->maps[i].end)
			return agrees(&p->maps[i], ip, hint) ? &p->maps[i] : NULL;
	return NULL;
}

/* The mapping as it was at the event, as far as that can be told. */
static struct mapping *find_mapping(struct symbols *s, uint32_t tgid, uint64_t ip, const struct symbol_hint *hint,
				    uint64_t now_ns)
{
	struct process *p = entry_of(s, tgid), fresh;
	bool known = p->tgid == tgid;
	struct mapping *m = NULL;

	if (known) {
		p->used = ++s->clock;
		if (hint || now_ns - p->read_ns < MAPS_BELIEVED_NS)
			m = find_in(p, ip, hint);
		if (m || now_ns - p->read_ns < MAPS_PAUSE_NS)
			return m;
	}
	if (read_maps(s, tgid, &fresh) < 0)
		return NULL;
	process_done(p);
	*p = fresh;
	p->used = ++s->clock;
	p->read_ns = now_ns;
	return find_in(p, ip, hint);
}

/* ---- files ---- */

static void file_done(struct file *f)
{
	elf_symbols_free(f->symbols);
	*f = (struct file){0};
}

/* Of a file system that may keep us waiting for as long as it likes. */
static bool is_remote(const char *type)
{
	static const char *const types[] = {"fuse", "nfs", "cifs",   "smb3", "9p",
					    "ceph", "afs", "lustre", "gfs2", "ocfs2"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strncmp(type, types[i], strlen(types[i])) == 0)
			return true;
	return false;
}

/* Whether the process has that device mounted as a remote file system: id parent major:minor ... - type ... */
static bool on_remote(const struct symbols *s, uint32_t tgid, const struct mapping *m)
{
	FILE *file cleanup(close_stream) = NULL;
	auto_free char *line = NULL;
	char path[PATH_MAX];
	unsigned major, minor;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/%u/mountinfo", s->proc, tgid);
	file = fopen(path, "re");
	while (file && getline(&line, &size, file) >= 0) {
		const char *type = strstr(line, " - ");

		if (type && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 && major == m->major &&
		    minor == m->minor)
			return is_remote(type + 3);
	}
	return false;
}

/* Only regular files: to open a device can do things. */
static int open_regular(const char *path, uint64_t inode, struct stat *ret)
{
	int fd auto_close = -EBADF;

	if (stat(path, ret) < 0 || !S_ISREG(ret->st_mode))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) || ret->st_ino != inode)
		return -ENOENT;
	return take_fd(&fd);
}

/* The mapped file itself, whatever its name leads to by now; by name only where that is not permitted. */
static int open_mapped(const struct symbols *s, uint32_t tgid, const struct mapping *m, struct stat *ret)
{
	char path[2 * PATH_MAX];
	int fd;

	if (m->path[0] != '/' || on_remote(s, tgid, m))
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/%u/map_files/%llx-%llx", s->proc, tgid, (unsigned long long)m->start,
		 (unsigned long long)m->end);
	fd = open_regular(path, m->inode, ret);
	if (fd >= 0)
		return fd;
	if (snprintf(path, sizeof(path), "%s/%u/root%s", s->proc, tgid, m->path) >= (int)sizeof(path))
		return -ENOENT;
	return open_regular(path, m->inode, ret);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Makes room: one entry, and the bytes. */
static struct file *make_room(struct symbols *s, size_t bytes)
{
	for (;;) {
		struct file *oldest = NULL, *free_one = NULL;
		size_t sum = bytes;

		for (size_t i = 0; i < FILES_MAX; i++) {
			struct file *f = &s->files[i];

			if (f->serial == 0)
				free_one = f;
			else if (!oldest || f->used < oldest->used)
				oldest = f;
			sum += f->bytes;
		}
		if (free_one && (sum <= FILES_BYTES_MAX || !oldest))
			return free_one;
		file_done(oldest);
	}
}

static struct file *file_by_serial(struct symbols *s, uint64_t serial)
{
	for (size_t i = 0; i < FILES_MAX; i++)
		if (serial && s->files[i].serial == serial)
			return &s->files[i];
	return NULL;
}

/* The one that was read for another process, if the process itself is gone. */
static struct file *file_by_numbers(struct symbols *s, const struct mapping *m)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		struct file *f = &s->files[i];

		if (f->serial && f->major == m->major && f->minor == m->minor && f->st.st_ino == m->inode)
			return f;
	}
	return NULL;
}

static struct file *load_file(struct symbols *s, int fd, const struct stat *st, const struct mapping *m)
{
	struct elf_symbols *symbols cleanup(elf_done) = NULL;
	struct file *f;
	size_t bytes;

	for (size_t i = 0; i < FILES_MAX; i++)
		if (s->files[i].serial && same_file(&s->files[i].st, st))
			return &s->files[i];
	(void)elf_symbols_read(fd, &symbols);
	bytes = symbols ? elf_symbols_bytes(symbols) : 0;
	f = make_room(s, bytes);
	*f = (struct file){
	    .serial = ++s->serial,
	    .major = m->major,
	    .minor = m->minor,
	    .st = *st,
	    .symbols = take_ptr(symbols),
	    .bytes = bytes,
	};
	return f;
}

static struct file *file_of(struct symbols *s, uint32_t tgid, struct mapping *m)
{
	struct file *f = file_by_serial(s, m->file_serial);
	struct stat st;

	if (!f) {
		int fd auto_close = open_mapped(s, tgid, m, &st);

		f = fd >= 0 ? load_file(s, fd, &st, m) : file_by_numbers(s, m);
	}
	if (f) {
		m->file_serial = f->serial;
		f->used = ++s->clock;
	}
	return f;
}

/* ---- answers ---- */

static void place_in(struct symbols *s, uint32_t tgid, uint64_t ip, struct mapping *m, struct symbol_place *ret)
{
	struct file *f;

	ret->module = *m->path ? m->path : "[anon]";
	if (m->inode == 0)
		return;
	ret->module_offset = m->offset + (ip - m->start);
	ret->has_offset = true;
	f = file_of(s, tgid, m);
	if (f && f->symbols)
		ret->symbol = elf_symbols_find(f->symbols, ret->module_offset, &ret->symbol_offset);
}

void symbols_user(struct symbols *s, uint32_t tgid, uint64_t ip, const struct symbol_hint *hint, uint64_t now_ns,
		  struct symbol_place *ret)
{
	struct mapping *m = find_mapping(s, tgid, ip, hint, now_ns);

	*ret = (struct symbol_place){0};
	if (m) {
		place_in(s, tgid, ip, m, ret);
	} else if (hint && *hint->module) {
		ret->module = hint->module;
		ret->module_offset = hint->offset;
		ret->has_offset = true;
	} else if (hint) {
		ret->module = "[anon]";
	}
}

void symbols_kernel(struct symbols *s, uint64_t ip, struct symbol_place *ret)
{
	char path[PATH_MAX];

	*ret = (struct symbol_place){0};
	if (!s->kernel_asked) {
		s->kernel_asked = true;
		snprintf(path, sizeof(path), "%s/kallsyms", s->proc);
		s->kernel_error = kernel_symbols_read(path, &s->kernel);
	}
	if (s->kernel)
		ret->symbol = kernel_symbols_find(s->kernel, ip, &ret->symbol_offset, &ret->module);
	if (!ret->symbol)
		ret->module = "[kernel]";
}

int symbols_kernel_error(const struct symbols *s)
{
	return s->kernel_error;
}

/* ---- the module ---- */

int symbols_new(const char *proc, struct symbols **ret)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (s)
		s->proc = strdup(proc);
	if (!s || !s->proc) {
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct symbols *symbols_free(struct symbols *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < PROCESSES_MAX; i++)
		process_done(&s->processes[i]);
	for (size_t i = 0; i < FILES_MAX; i++)
		file_done(&s->files[i]);
	kernel_symbols_free(s->kernel);
	free(s->proc);
	free(s);
	return NULL;
}
