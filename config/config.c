/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/keys.h"
#include "config/values.h"
#include "config/yaml.h"
#include "daemon/base/cleanup.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define KEYS_MAX 64
/* Nobody reads on beyond so many errors; the work that a file can cause is bounded with them. */
#define ERRORS_MAX 100
#define HEADERS_MAX 64
/* A window of more intervals than this costs more memory than it is worth. */
#define WINDOW_INTERVALS_MAX 3600

/* Where each key was set last, for errors that need more than one key to be seen. */
struct position {
	char *file;
	size_t line, column;
};

struct loader {
	struct config *config;
	struct strbuf *errors;
	const char *file;    /* being read */
	bool seen[KEYS_MAX]; /* in this file */
	struct position set[KEYS_MAX];
	int memory; /* -ENOMEM once memory ran out */
	unsigned n_errors;
};

DEFINE_CLEANUP(config_local, struct config *, config_free)
DEFINE_CLEANUP(tree_local, struct tree *, tree_free)

/* ---- the object ---- */

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < n_keys; i++) {
		key_clear(c, &keys[i]);
		if (keys[i].type == KEY_TEXT)
			free(*(char **)((char *)c + keys[i].offset));
	}
	free(c);
	return NULL;
}

/* ---- errors ---- */

static bool is_enough(const struct loader *l)
{
	return l->n_errors >= ERRORS_MAX || l->memory < 0;
}

static void begin_error(struct loader *l, size_t line, size_t column)
{
	l->n_errors++;
	strbuf_addf(l->errors, "%s:%zu:%zu: ", l->file, line, column);
}

static void error_at(struct loader *l, const struct tree *y, const char *path, const char *what)
{
	begin_error(l, y->line, y->column);
	strbuf_addf(l->errors, "%s: %s\n", path, what);
}

static void error_unknown(struct loader *l, const struct tree *y, const char *path)
{
	const char *near = key_near(path);
	auto_strbuf shown = {0};

	print_quoted(path, true, &shown);
	begin_error(l, y->line, y->column);
	strbuf_addf(l->errors, "%s: no such key", strbuf_error(&shown) ? "?" : shown.data);
	if (near && strcmp(near, path) == 0) /* cgroups.max: 1 */
		strbuf_addf(l->errors, "; allowed is %s: in the section %.*s\n", strrchr(near, '.') + 1,
			    (int)(strrchr(near, '.') - near), near);
	else if (near)
		strbuf_addf(l->errors, ", did you mean %s?\n", near);
	else
		strbuf_adds(l->errors, "; allowed keys are in the manual and in the default file\n");
}

/* ---- values ---- */

static void set_scalar(struct loader *l, const struct key *key, const struct tree *y)
{
	auto_strbuf problem = {0};
	int r;

	if (y->kind != TREE_SCALAR || (y->null && !*y->text)) {
		begin_error(l, y->line, y->column);
		strbuf_addf(l->errors, "%s: is %s; allowed is one value", key->path,
			    y->kind == TREE_SEQUENCE  ? "a list"
			    : y->kind == TREE_MAPPING ? "a section"
						      : "empty");
		if (key->type != KEY_TEXT && key->type != KEY_TEXTS) {
			strbuf_adds(l->errors, ", ");
			key_print_range(key, l->errors);
		}
		strbuf_addc(l->errors, '\n');
		return;
	}
	r = key_set(l->config, key, y->text, &problem);
	if (r == -ENOMEM || strbuf_error(&problem))
		l->memory = -ENOMEM;
	else if (r < 0)
		error_at(l, y, key->path, problem.data);
}

static void set_list(struct loader *l, const struct key *key, const struct tree *y)
{
	if (y->kind != TREE_SEQUENCE) {
		error_at(l, y, key->path, "is no list; allowed is [VALUE, ...]");
		return;
	}
	key_clear(l->config, key);
	if (key->type == KEY_DURATIONS && y->n_items == 0)
		error_at(l, y, key->path, "is empty; allowed are 1 to 8 windows");
	for (size_t i = 0; i < y->n_items && !is_enough(l); i++)
		set_scalar(l, key, y->items[i]);
}

static bool has_header(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->ship.n_headers; i++)
		if (strcasecmp(c->ship.headers[i].name, name) == 0)
			return true;
	return false;
}

static void set_headers(struct loader *l, const struct key *key, const struct tree *y)
{
	if (y->kind != TREE_MAPPING) {
		error_at(l, y, key->path, "is no set of headers; allowed is {NAME: VALUE, ...}");
		return;
	}
	key_clear(l->config, key);
	if (y->n_items > 2 * HEADERS_MAX) {
		error_at(l, y, key->path, "are too many; allowed are at most 64 headers");
		return;
	}
	for (size_t i = 0; i + 1 < y->n_items && !is_enough(l); i += 2) {
		const struct tree *name = y->items[i], *value = y->items[i + 1];
		auto_strbuf problem = {0};
		int r;

		if (name->kind != TREE_SCALAR || value->kind != TREE_SCALAR) {
			error_at(l, name, key->path, "holds something else than NAME: VALUE; allowed are texts");
		} else if (value->null) {
			error_at(l, value, key->path,
				 "holds a header without a value; allowed is a text, \"\" if it is empty");
		} else if (has_header(l->config, name->text)) {
			error_at(l, name, key->path, "names a header twice; allowed is each once");
		} else {
			r = key_add_header(l->config, name->text, value->text, &problem);
			if (r == -ENOMEM || strbuf_error(&problem))
				l->memory = -ENOMEM;
			else if (r < 0)
				error_at(l, name, key->path, problem.data);
		}
	}
}

static void remember(struct loader *l, const struct key *key, const struct tree *y)
{
	struct position *p = &l->set[key - keys];

	free(p->file);
	*p = (struct position){.file = strdup(l->file), .line = y->line, .column = y->column};
	if (!p->file)
		l->memory = -ENOMEM;
}

static void set_key(struct loader *l, const struct key *key, const struct tree *name, const struct tree *value)
{
	if (l->seen[key - keys]) {
		error_at(l, name, key->path, "is set twice in this file; allowed is once");
		return;
	}
	l->seen[key - keys] = true;
	remember(l, key, value);
	if (key->type == KEY_TEXTS || key->type == KEY_DURATIONS || key->type == KEY_SET)
		set_list(l, key, value);
	else if (key->type == KEY_HEADERS)
		set_headers(l, key, value);
	else
		set_scalar(l, key, value);
}

/* ---- sections ---- */

static bool section_before(const struct tree *y, size_t at)
{
	for (size_t i = 0; i < at; i += 2)
		if (y->items[i]->kind == TREE_SCALAR && strcmp(y->items[i]->text, y->items[at]->text) == 0)
			return true;
	return false;
}

static void walk(struct loader *l, const char *prefix, const struct tree *y);

static void walk_pair(struct loader *l, const char *prefix, const struct tree *y, size_t at)
{
	const struct tree *name = y->items[at], *value = y->items[at + 1];
	auto_strbuf path = {0};
	const struct key *key;

	if (name->kind != TREE_SCALAR) {
		error_at(l, name, *prefix ? prefix : "(top)", "has a key that is no text; allowed are key names");
		return;
	}
	strbuf_addf(&path, "%s%s%s", prefix, *prefix ? "." : "", name->text);
	if (strbuf_error(&path)) {
		l->memory = -ENOMEM;
		return;
	}
	key = strchr(name->text, '.') ? NULL : key_find(path.data);
	if (key)
		set_key(l, key, name, value);
	else if (strcmp(name->text, "<<") == 0)
		error_at(l, name, *prefix ? prefix : "(top)", "merges with <<; allowed is to write the keys out");
	else if (strchr(name->text, '.') || !key_is_section(path.data))
		error_unknown(l, name, path.data);
	else if (section_before(y, at))
		error_at(l, name, path.data, "is there twice in this file; allowed is one section of a name");
	else if (value->kind == TREE_MAPPING)
		walk(l, path.data, value);
	else if (!(value->kind == TREE_SCALAR && value->null))
		error_at(l, value, path.data, "is no section; allowed are keys below it");
}

static void walk(struct loader *l, const char *prefix, const struct tree *y)
{
	for (size_t i = 0; i + 1 < y->n_items && !is_enough(l); i += 2)
		walk_pair(l, prefix, y, i);
}

static void read_text(struct loader *l, const char *name, const char *text, size_t len)
{
	cleanup(tree_local) struct tree *y = NULL;
	int r;

	l->file = name;
	memset(l->seen, 0, sizeof(l->seen));
	r = tree_read(name, text, len, l->errors, &y);
	if (r == -ENOMEM)
		l->memory = r;
	if (r < 0 || !y || (y->kind == TREE_SCALAR && y->null))
		return;
	if (is_enough(l))
		return;
	if (y->kind == TREE_MAPPING)
		walk(l, "", y);
	else
		error_at(l, y, "(top)", "is no configuration; allowed are lines of KEY: VALUE");
	if (l->n_errors >= ERRORS_MAX)
		strbuf_addf(l->errors, "%s: there may be more errors; the first %u are told\n", name, ERRORS_MAX);
}

/* ---- across keys ---- */

static void error_on(struct loader *l, const char *path, const char *what)
{
	const struct position *p = &l->set[key_find(path) - keys];

	if (p->file)
		strbuf_addf(l->errors, "%s:%zu:%zu: %s: %s\n", p->file, p->line, p->column, path, what);
	else
		strbuf_addf(l->errors, "(default): %s: %s\n", path, what);
}

static bool was_set(const struct loader *l, const char *path)
{
	return l->set[key_find(path) - keys].file != NULL;
}

/* Names the key that the user wrote, of two that do not fit together. */
static const char *of_two(const struct loader *l, const char *path, const char *other)
{
	return was_set(l, path) || !was_set(l, other) ? path : other;
}

static void error_on_window(struct loader *l, uint64_t window_ns, const char *what)
{
	auto_strbuf text = {0};

	strbuf_adds(&text, "the window ");
	print_duration(window_ns, &text);
	strbuf_adds(&text, what);
	print_duration(l->config->interval_ns, &text);
	strbuf_addf(&text, "; allowed are whole multiples of it, up to %d", WINDOW_INTERVALS_MAX);
	if (strbuf_error(&text))
		l->memory = -ENOMEM;
	else
		error_on(l, of_two(l, "windows", "interval"), text.data);
}

static void check_windows(struct loader *l)
{
	const struct config *c = l->config;

	for (size_t i = 0; i < c->n_windows; i++) {
		uint64_t window = c->windows_ns[i];

		if (i > 0 && window <= c->windows_ns[i - 1])
			error_on(l, "windows",
				 "are not in ascending order; allowed is each longer than the one before");
		if (window < c->interval_ns || window % c->interval_ns)
			error_on_window(l, window, " is no multiple of interval ");
		else if (window / c->interval_ns > WINDOW_INTERVALS_MAX)
			error_on_window(l, window, " is too long for interval ");
	}
}

static void check_listen_twice(struct loader *l)
{
	const struct config_list *list = &l->config->scrape.listen;

	for (size_t i = 0; i < list->count; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(list->items[i], list->items[j]) == 0)
				error_on(l, "scrape.listen", "names an address twice; allowed is each once");
}

static void check_across(struct loader *l)
{
	check_windows(l);
	check_listen_twice(l);
	if (l->config->ship.interval_ns < l->config->interval_ns)
		error_on(l, of_two(l, "ship.interval", "interval"),
			 "ship.interval is shorter than interval; allowed is one at least as long");
}

/* ---- defaults ---- */

static void read_defaults(struct loader *l)
{
	auto_strbuf text = {0};

	config_print_default(&text);
	if (strbuf_error(&text))
		l->memory = -ENOMEM;
	else
		read_text(l, "(default)", text.data, text.len);
	for (size_t i = 0; i < n_keys; i++) {
		free(l->set[i].file);
		l->set[i] = (struct position){0};
	}
}

/* ---- files ---- */

static int read_whole(const char *file, struct strbuf *ret)
{
	auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char block[8192];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	while ((n = read(fd, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		strbuf_add(ret, block, (size_t)n);
		if (ret->len > FILE_BYTES_MAX)
			return -EFBIG;
	}
	return strbuf_error(ret);
}

static const char *why_unreadable(int error)
{
	switch (error) {
	case -EISDIR:
		return "is a directory; allowed is a file";
	case -EINVAL:
		return "is no regular file; allowed is one";
	case -EFBIG:
		return "is larger than 1 MiB; no configuration is";
	default:
		return strerror(-error);
	}
}

static void error_unreadable(struct loader *l, const char *file, int error)
{
	auto_strbuf shown = {0};

	print_safe(file, &shown);
	if (error == -ENOMEM || strbuf_error(&shown))
		l->memory = -ENOMEM;
	else
		strbuf_addf(l->errors, "%s:1:1: cannot be read: %s\n", shown.data, why_unreadable(error));
}

static void read_named(struct loader *l, const char *name, const char *text, size_t len)
{
	auto_strbuf shown = {0};

	print_safe(name, &shown);
	if (strbuf_error(&shown))
		l->memory = -ENOMEM;
	else
		read_text(l, shown.data ? shown.data : "", text, len);
}

static void read_file(struct loader *l, const char *file)
{
	auto_strbuf text = {0};
	int r = read_whole(file, &text);

	if (r < 0)
		error_unreadable(l, file, r);
	else
		read_named(l, file, text.data ? text.data : "", text.len);
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".yaml") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_drop_ins(struct loader *l, const char *file)
{
	auto_strbuf folder = {0};
	struct dirent **entries = NULL;
	int n;

	strbuf_addf(&folder, "%s.d", file);
	if (strbuf_error(&folder)) {
		l->memory = -ENOMEM;
		return;
	}
	n = scandir(folder.data, &entries, is_drop_in, by_bytes);
	if (n < 0 && errno != ENOENT)
		error_unreadable(l, folder.data, -errno);
	for (int i = 0; i < n; i++) {
		auto_strbuf path = {0};

		strbuf_addf(&path, "%s/%s", folder.data, entries[i]->d_name);
		if (strbuf_error(&path))
			l->memory = -ENOMEM;
		else
			read_file(l, path.data);
		free(entries[i]);
	}
	free(entries);
}

/* ---- the outside ---- */

static int begin(struct loader *l, struct strbuf *errors)
{

	*l = (struct loader){.config = calloc(1, sizeof(*l->config)), .errors = errors};
	if (!l->config || n_keys > KEYS_MAX)
		return -ENOMEM;
	read_defaults(l);
	return l->memory;
}

static int end(struct loader *l, size_t errors_before, struct config **ret)
{
	cleanup(config_local) struct config *config = l->config;

	if (config && l->memory == 0 && l->errors->len == errors_before)
		check_across(l);
	for (size_t i = 0; i < KEYS_MAX; i++)
		free(l->set[i].file);
	if (!config || l->memory < 0 || strbuf_error(l->errors))
		return -ENOMEM;
	if (l->errors->len > errors_before)
		return -EINVAL;
	*ret = take_ptr(config);
	return 0;
}

int config_load(const char *file, struct strbuf *errors, struct config **ret)
{
	size_t errors_before = errors->len;
	struct loader l;

	if (begin(&l, errors) == 0 && file) {
		read_file(&l, file);
		read_drop_ins(&l, file);
	}
	return end(&l, errors_before, ret);
}

int config_parse(const char *name, const char *text, size_t len, struct strbuf *errors, struct config **ret)
{
	size_t errors_before = errors->len;
	struct loader l;

	if (begin(&l, errors) == 0)
		read_named(&l, name, text, len);
	return end(&l, errors_before, ret);
}
