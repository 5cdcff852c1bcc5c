/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/identity.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/glob.h"

struct patterns {
	char **items;
	size_t count;
};

struct filter {
	struct patterns include, exclude;
};

static void patterns_done(struct patterns *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i]);
	free(p->items);
}

/* On failure `ret` holds what was copied so far. */
static int patterns_copy(char *const *items, size_t n, struct patterns *ret)
{
	ret->items = calloc(n ? n : 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (; ret->count < n; ret->count++) {
		if (glob_check(items[ret->count]))
			return -EINVAL;
		ret->items[ret->count] = strdup(items[ret->count]);
		if (!ret->items[ret->count])
			return -ENOMEM;
	}
	return 0;
}

static bool any_matches(const struct patterns *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++)
		if (glob_match(p->items[i], path))
			return true;
	return false;
}

struct filter *filter_free(struct filter *f)
{
	if (f) {
		patterns_done(&f->include);
		patterns_done(&f->exclude);
		free(f);
	}
	return NULL;
}

DEFINE_CLEANUP(filter_local, struct filter *, filter_free)

int filter_new(char *const *include, size_t n_include, char *const *exclude, size_t n_exclude, struct filter **ret)
{
	struct filter *f cleanup(filter_local) = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	r = patterns_copy(include, n_include, &f->include);
	if (r == 0)
		r = patterns_copy(exclude, n_exclude, &f->exclude);
	if (r < 0)
		return r;
	*ret = take_ptr(f);
	return 0;
}

int filter_pass(const struct filter *f, const char *path)
{
	return any_matches(&f->include, path) && !any_matches(&f->exclude, path);
}
