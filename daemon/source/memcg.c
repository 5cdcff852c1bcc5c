/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round goes through the tree level by level, in as many steps as the budget asks for: read a cgroup's totals, then
 * list its children. When all are read, one pass from the leaves to the root turns totals into shares.
 *
 * A parent is always read before its children. What a child counts in between is in the child's growth of this round,
 * but in the parent's total only at the next reading: by then the parent has grown as much as its children have in any
 * case, so what it is accounted for runs ahead of its total, and is caught up with. A share thus comes out too small
 * for a while, never too large. (Read the other way round, a parent would report a burst of its child as its own, and
 * nothing would ever make up for it.)
 *
 * In the first round the parent's bearings are older than the child's, too. What the child counts in between goes to
 * the parent: the sum is right.
 *
 * Beyond the capacity a child is not followed: its growth stays in the parent's share. Levels make it the deepest ones.
 */
#include "daemon/source/memcg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"
#include "daemon/base/table.h"

/* With the leading '/', which is not handed to openat(). */
#define PATH_LEN_MAX PATH_MAX
#define STAT_BYTES_MAX 65536
/* What costs about as much as reading one cgroup, some 20 us. */
#define LISTING_PER_UNIT 128
#define LISTING_FOLDER 4
#define LISTING_FILE 1
#define REPORTS_PER_UNIT 16
/* Rounds are numbered from here, so that 0 and 1 mean "never". */
#define FIRST_ROUND 2

struct totals {
	uint64_t faults, major;
};

struct node {
	uint64_t id;
	struct node *parent; /* NULL for the root */
	char *name;          /* last component, "" for the root */
	size_t path_len;     /* 0 for the root */

	struct totals now;       /* this round's reading */
	bool has_now;            /* it was readable in this round */
	struct totals read;      /* the reading before */
	struct totals accounted; /* up to here its growth was passed on */
	bool has_accounted;      /* false until the bearings are taken */
	struct totals children;  /* growth of all children in this round */
	struct totals share;     /* to be reported */

	uint64_t seen;    /* last round that met it */
	uint64_t born;    /* the round that met it first, if it began at zero */
	uint64_t listed;  /* last round that followed all its children */
	uint64_t partial; /* last round that does not know or does not follow all its children */
};

enum phase { IDLE, READING, REPORTING };

struct memcg {
	char *mount;
	const char *faults_key, *major_key;
	size_t capacity;
	struct table *by_id;
	struct node **order, **previous; /* of this round, parents first, and of the one before */
	size_t n_order, n_previous;

	enum phase phase;
	uint64_t round;
	int root_fd;
	size_t at;    /* next in `order` to read or to report */
	DIR *listing; /* children of order[at - 1] that are not all met yet */
	struct strbuf text;
	char path[PATH_LEN_MAX + 1];
};

/* ---- nodes ---- */

static struct node *node_free(struct node *n)
{
	if (n) {
		free(n->name);
		free(n);
	}
	return NULL;
}

DEFINE_CLEANUP(node_local, struct node *, node_free)

/* Names and place of a node, which a rename can change. */
static int place(struct node *n, struct node *parent, const char *name)
{
	size_t len = strlen(name);

	if (!n->name || strcmp(n->name, name) != 0) {
		char *copy = strdup(name);

		if (!copy)
			return -ENOMEM;
		free(n->name);
		n->name = copy;
	}
	n->parent = parent;
	n->path_len = parent ? parent->path_len + 1 + len : 0;
	return 0;
}

/* A cgroup that its parent did not have a round ago was born since: it began at zero within our time. Otherwise its
 * present total is from before, or was in the parent's share until now. */
static bool began_at_zero(const struct memcg *m, const struct node *parent)
{
	return parent && (parent->listed == m->round - 1 || parent->born == m->round);
}

static int add_node(struct memcg *m, uint64_t id, struct node *parent, const char *name, struct node **ret)
{
	struct node *n cleanup(node_local) = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return -ENOMEM;
	n->id = id;
	r = place(n, parent, name);
	if (r == 0)
		r = table_put(m->by_id, id, n);
	if (r < 0)
		return r;
	if (began_at_zero(m, parent)) {
		n->born = m->round;
		n->has_accounted = true;
	}
	*ret = take_ptr(n);
	return 0;
}

/* Takes a cgroup into this round. -ENOSPC beyond the capacity. */
static int meet(struct memcg *m, uint64_t id, struct node *parent, const char *name)
{
	struct node *n = table_get(m->by_id, id);
	int r;

	/* Met under two names while it was renamed. */
	if (n && n->seen == m->round)
		return 0;
	r = n ? place(n, parent, name) : add_node(m, id, parent, name, &n);
	if (r < 0)
		return r;
	n->seen = m->round;
	n->has_now = false;
	n->children = (struct totals){0};
	m->order[m->n_order++] = n;
	return 0;
}

/* The path with '/' in front, "/" for the root; valid until the next call. */
static const char *path_of(struct memcg *m, const struct node *n)
{
	m->path[n->path_len] = '\0';
	if (n->path_len == 0)
		strcpy(m->path, "/");
	for (; n->parent; n = n->parent) {
		size_t len = n->path_len - n->parent->path_len - 1;

		memcpy(m->path + n->path_len - len, n->name, len);
		m->path[n->parent->path_len] = '/';
	}
	return m->path;
}

/* ---- reading ---- */

/* The number behind "key " at the beginning of a line. */
static bool find_value(const char *text, const char *key, uint64_t *ret)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *c;
		uint64_t value = 0;

		line += *line == '\n';
		if (strncmp(line, key, len) != 0 || line[len] != ' ')
			continue;
		for (c = line + len + 1; *c >= '0' && *c <= '9'; c++) {
			value = value * 10 + (uint64_t)(*c - '0');
			/* No counter gets there; sums of such values still fit. */
			if (value > UINT64_C(1) << 60)
				return false;
		}
		*ret = value;
		return c > line + len + 1 && (*c == '\n' || *c == '\0');
	}
	return false;
}

static int read_text(struct memcg *m, int fd)
{
	ssize_t n;

	strbuf_reset(&m->text);
	do {
		strbuf_reserve(&m->text, 4095);
		if (strbuf_error(&m->text))
			return strbuf_error(&m->text);
		n = read(fd, m->text.data + m->text.len, m->text.capacity - m->text.len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		m->text.len += (size_t)n;
		if (m->text.len > STAT_BYTES_MAX)
			return -EFBIG;
	} while (n != 0);
	m->text.data[m->text.len] = '\0';
	return 0;
}

/* Whatever is wrong with the file: the cgroup has no reading in this round. */
static void read_totals(struct memcg *m, int folder, struct node *n)
{
	int fd auto_close = openat(folder, "memory.stat", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	n->has_now = fd >= 0 && read_text(m, fd) == 0 && find_value(m->text.data, m->faults_key, &n->now.faults) &&
		     find_value(m->text.data, m->major_key, &n->now.major);
}

static bool is_gone(int error)
{
	return error == ENOENT || error == ENODEV || error == ENOTDIR || error == ELOOP || error == ESTALE;
}

static void end_listing(struct memcg *m, struct node *n)
{
	if (n->partial != m->round)
		n->listed = m->round;
	if (m->listing)
		closedir(m->listing);
	m->listing = NULL;
}

/* Reads the next cgroup and opens its folder for listing. */
static void read_next(struct memcg *m)
{
	struct node *n = m->order[m->at++];
	const char *path = path_of(m, n);
	int fd auto_close =
	    openat(m->root_fd, n->parent ? path + 1 : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		/* A cgroup that is gone has no children; with any other error they may all be there. */
		if (!is_gone(errno))
			n->partial = m->round;
		return;
	}
	if ((uint64_t)st.st_ino != n->id)
		return;
	read_totals(m, fd, n);
	/* kernfs counts links as of old: two and one per subfolder. It saves listing the dozens of files of each leaf.
	 */
	if (st.st_nlink == 2) {
		end_listing(m, n);
		return;
	}
	m->listing = fdopendir(fd);
	if (m->listing)
		(void)take_fd(&fd);
	else
		n->partial = m->round;
}

static bool may_be_folder(const struct dirent *entry)
{
	return (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && strcmp(entry->d_name, ".") != 0 &&
	       strcmp(entry->d_name, "..") != 0;
}

static void meet_child(struct memcg *m, struct node *parent, const char *name)
{
	struct stat st;

	/* Not d_ino: stacked file systems have another one there. */
	if (fstatat(dirfd(m->listing), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (!is_gone(errno))
			parent->partial = m->round;
		return;
	}
	if (!S_ISDIR(st.st_mode))
		return;
	if (parent->path_len + 1 + strlen(name) > PATH_LEN_MAX || meet(m, (uint64_t)st.st_ino, parent, name) < 0)
		parent->partial = m->round;
}

static void list_some(struct memcg *m)
{
	struct node *n = m->order[m->at - 1];

	for (int left = LISTING_PER_UNIT; left > 0;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(m->listing);
		if (!entry) {
			if (errno && !is_gone(errno))
				n->partial = m->round;
			end_listing(m, n);
			return;
		}
		left -= may_be_folder(entry) ? LISTING_FOLDER : LISTING_FILE;
		if (may_be_folder(entry))
			meet_child(m, n, entry->d_name);
	}
}

/* ---- accounting ---- */

/* What a dead cgroup counted since its last reading is in the growth of its parent, and nobody takes it from there. Who
 * could not be met although alive comes back later, with new bearings: its parent's listing was not complete. */
static void bury(struct memcg *m)
{
	for (size_t i = m->n_previous; i > 0; i--) {
		struct node *n = m->previous[i - 1];

		if (n->seen == m->round)
			continue;
		table_remove(m->by_id, n->id);
		node_free(n);
	}
	m->n_previous = 0;
}

/* Returns the growth, at least the children's. */
static uint64_t account_one(uint64_t now, uint64_t children, uint64_t *accounted, uint64_t *share)
{
	uint64_t growth = now > *accounted ? now - *accounted : 0;

	if (growth < children)
		growth = children;
	*accounted += growth;
	*share = growth - children;
	return growth;
}

/* Without a usable reading (the controller is off there, the file could not be read, the counter went back) a cgroup is
 * taken to have grown as its children have. What is its own is in its parent's share of this round already, and stays
 * there: the next reading only takes bearings. How much of the children's growth came after the bearings is not known:
 * all of it, so that nothing counts twice. Above the root nobody has claimed anything: its next reading counts. */
static struct totals account_unread(struct node *n)
{
	if (n->has_now)
		n->accounted = n->now;
	n->accounted.faults += n->children.faults;
	n->accounted.major += n->children.major;
	n->has_accounted = n->has_now || (n->has_accounted && !n->parent);
	return n->children;
}

/* Turns the reading into the share and returns the growth. */
static struct totals account(struct node *n)
{
	bool usable =
	    n->has_now && n->has_accounted && n->now.faults >= n->read.faults && n->now.major >= n->read.major;
	struct totals growth;

	n->share = (struct totals){0};
	if (usable) {
		growth.faults = account_one(n->now.faults, n->children.faults, &n->accounted.faults, &n->share.faults);
		growth.major = account_one(n->now.major, n->children.major, &n->accounted.major, &n->share.major);
	} else {
		growth = account_unread(n);
	}
	if (n->has_now)
		n->read = n->now;
	return growth;
}

static void account_all(struct memcg *m)
{
	bury(m);
	for (size_t i = m->n_order; i > 0; i--) {
		struct node *n = m->order[i - 1];
		struct totals growth = account(n);

		if (n->parent) {
			n->parent->children.faults += growth.faults;
			n->parent->children.major += growth.major;
		}
	}
}

/* ---- rounds ---- */

static void forget_all(struct memcg *m)
{
	struct node **nodes = m->phase == IDLE ? m->previous : m->order;
	size_t n = m->phase == IDLE ? m->n_previous : m->n_order;

	/* In the middle of a round a node is in the order of this round, in that of the one before, or in both. */
	for (size_t i = 0; m->phase == READING && i < m->n_previous; i++)
		if (m->previous[i]->seen != m->round) {
			table_remove(m->by_id, m->previous[i]->id);
			node_free(m->previous[i]);
		}
	for (size_t i = 0; i < n; i++) {
		table_remove(m->by_id, nodes[i]->id);
		node_free(nodes[i]);
	}
	m->n_order = m->n_previous = 0;
}

static int begin_round(struct memcg *m)
{
	struct stat st;
	int fd auto_close = open(m->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* Another tree is mounted there now: what is known of the former one only takes room. */
	if (m->n_previous > 0 && m->previous[0]->id != (uint64_t)st.st_ino)
		forget_all(m);
	m->round++;
	m->at = m->n_order = 0;
	r = meet(m, (uint64_t)st.st_ino, NULL, "");
	if (r < 0)
		return r;
	m->root_fd = take_fd(&fd);
	m->phase = READING;
	return 0;
}

static void read_some(struct memcg *m, size_t *budget)
{
	for (; *budget > 0 && (m->listing || m->at < m->n_order); (*budget)--) {
		if (m->listing)
			list_some(m);
		else
			read_next(m);
	}
	if (m->listing || m->at < m->n_order)
		return;
	m->root_fd = close_fd(m->root_fd);
	account_all(m);
	m->at = 0;
	m->phase = REPORTING;
}

static void report_some(struct memcg *m, size_t units, void (*grown)(const struct memcg_growth *, void *),
			void *userdata)
{
	/* One more than is left of the budget, so that a round of few cgroups ends with its last reading. */
	size_t left = (units < SIZE_MAX / REPORTS_PER_UNIT ? units + 1 : 1) * REPORTS_PER_UNIT;

	for (; m->at < m->n_order && left > 0; m->at++) {
		const struct node *n = m->order[m->at];
		struct memcg_growth g = {.id = n->id, .faults = n->share.faults, .major = n->share.major};

		if (!g.faults && !g.major)
			continue;
		g.path = path_of(m, n);
		grown(&g, userdata);
		left--;
	}
}

int memcg_step(struct memcg *m, size_t budget, void (*grown)(const struct memcg_growth *g, void *userdata),
	       void *userdata)
{
	struct node **order = m->order;
	int r;

	if (m->phase == IDLE) {
		r = begin_round(m);
		if (r < 0)
			return r;
	}
	if (budget == 0)
		budget = 1;
	if (m->phase == READING)
		read_some(m, &budget);
	if (m->phase == REPORTING)
		report_some(m, budget, grown, userdata);
	if (m->phase != REPORTING || m->at < m->n_order)
		return 0;

	m->order = m->previous;
	m->previous = order;
	m->n_previous = m->n_order;
	m->n_order = 0;
	m->phase = IDLE;
	return 1;
}

/* ---- the module ---- */

DEFINE_CLEANUP(memcg_local, struct memcg *, memcg_free)

int memcg_new(const char *mount, enum memcg_flavour flavour, size_t capacity, struct memcg **ret)
{
	struct memcg *m cleanup(memcg_local) = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->root_fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->root_fd < 0)
		return -errno;
	m->root_fd = close_fd(m->root_fd);
	m->round = FIRST_ROUND - 1;
	m->faults_key = flavour == MEMCG_V1 ? "total_pgfault" : "pgfault";
	m->major_key = flavour == MEMCG_V1 ? "total_pgmajfault" : "pgmajfault";
	m->capacity = capacity ? capacity : 1;
	m->mount = strdup(mount);
	m->order = calloc(m->capacity, sizeof(struct node *));
	m->previous = calloc(m->capacity, sizeof(struct node *));
	if (!m->mount || !m->order || !m->previous)
		return -ENOMEM;
	r = table_new(m->capacity, &m->by_id);
	if (r < 0)
		return r;
	*ret = take_ptr(m);
	return 0;
}

struct memcg *memcg_free(struct memcg *m)
{
	if (m) {
		if (m->listing)
			closedir(m->listing);
		forget_all(m);
		table_free(m->by_id);
		strbuf_done(&m->text);
		free(m->order);
		free(m->previous);
		free(m->mount);
		close_fd(m->root_fd);
		free(m);
	}
	return NULL;
}
