/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/symbols_kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/symbol_table.h"

struct kernel_symbols {
	struct symbol_table table; /* each name is followed by its module's: "do_it\0[ext4]" */
};

static void close_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

DEFINE_CLEANUP(symbols_done, struct kernel_symbols *, kernel_symbols_free)

/* "ffffffff81000000 T name" or, with a tab before it, "[module]" behind. */
static void add_line(struct symbol_table *t, char *line)
{
	char *end, *name, *module;
	uint64_t address = strtoull(line, &end, 16);
	char type;

	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ' || address == 0)
		return;
	type = end[1];
	if (!strchr("tTwW", type))
		return;
	name = end + 3;
	name[strcspn(name, "\n")] = '\0';
	module = strchr(name, '\t');
	if (module)
		*module = '\0';
	/* The NUL between them is part of the name that is kept. */
	if (*name)
		symbol_table_add(t, address, 0, type == 't', name,
				 strlen(name) + 1 + (module ? strlen(module + 1) : 0));
}

static int add_lines(struct symbol_table *t, FILE *file)
{
	auto_free char *line = NULL;
	size_t size = 0;

	errno = 0;
	while (getline(&line, &size, file) >= 0)
		add_line(t, line);
	if (!feof(file))
		return errno ? -errno : -EIO;
	return symbol_table_sort(t);
}

int kernel_symbols_read(const char *path, struct kernel_symbols **ret)
{
	FILE *file cleanup(close_file) = fopen(path, "re");
	struct kernel_symbols *k cleanup(symbols_done) = NULL;
	int r;

	if (!file)
		return -errno;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	r = add_lines(&k->table, file);
	if (r == 0 && k->table.n == 0)
		r = -ENODATA;
	if (r < 0)
		return r;
	*ret = take_ptr(k);
	return 0;
}

struct kernel_symbols *kernel_symbols_free(struct kernel_symbols *k)
{
	if (k) {
		symbol_table_done(&k->table);
		free(k);
	}
	return NULL;
}

const char *kernel_symbols_find(const struct kernel_symbols *k, uint64_t address, uint64_t *ret_offset,
				const char **ret_module)
{
	const char *name = symbol_table_find(&k->table, address, ret_offset);

	if (!name)
		return NULL;
	*ret_module = name + strlen(name) + 1;
	if (!**ret_module)
		*ret_module = "[kernel]";
	return name;
}
