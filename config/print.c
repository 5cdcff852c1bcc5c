/* SPDX-License-Identifier: Apache-2.0 */
/* The key table as text: the effective configuration, the default file, the reference. */
#include "config/config.h"

#include <string.h>

#include "config/keys.h"
#include "daemon/base/cleanup.h"

#define WIDTH 110

/* Opens the sections that lead to `key` and were not open for the key before; returns the depth. */
static size_t open_sections(const char *before, const char *path, struct strbuf *out)
{
	const char *start = path, *dot;
	size_t depth = 0;

	for (; (dot = strchr(start, '.')); start = dot + 1, depth++) {
		size_t n = (size_t)(dot - path) + 1;

		if (strncmp(before, path, n) == 0)
			continue;
		strbuf_addf(out, "%*s%.*s:\n", (int)(2 * depth), "", (int)(dot - start), start);
	}
	return depth;
}

static const char *name_of(const struct key *key)
{
	const char *dot = strrchr(key->path, '.');

	return dot ? dot + 1 : key->path;
}

void config_print(const struct config *c, bool secrets, struct strbuf *out)
{
	const char *before = "";

	for (size_t i = 0; i < n_keys; i++) {
		size_t depth = open_sections(before, keys[i].path, out);

		strbuf_addf(out, "%*s%s: ", (int)(2 * depth), "", name_of(&keys[i]));
		key_print(c, &keys[i], secrets, out);
		strbuf_addc(out, '\n');
		before = keys[i].path;
	}
}

/* A comment, wrapped. */
static void comment(const char *text, size_t indent, struct strbuf *out)
{
	while (*text) {
		size_t room = WIDTH - indent - 2, n = strlen(text);

		if (n > room)
			for (n = room; n > 0 && text[n] != ' '; n--)
				;
		if (n == 0)
			n = strcspn(text, " ");
		strbuf_addf(out, "%*s# %.*s\n", (int)indent, "", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
}

static void print_range_comment(const struct key *key, size_t indent, struct strbuf *out)
{
	auto_strbuf range = {0};

	key_print_range(key, &range);
	if (range.len)
		strbuf_addf(out, "%*s# Allowed: %s.\n", (int)indent, "", range.data);
}

void config_print_default(struct strbuf *out)
{
	const char *before = "";

	strbuf_adds(
	    out,
	    "# SPDX-License-Identifier: Apache-2.0\n"
	    "# faultd's configuration. All keys are here with their defaults; an empty file means the same.\n"
	    "# Files in faultd.yaml.d/*.yaml are read after this one and override it key by key.\n"
	    "# faultd --check tells what is wrong and what is in effect; systemctl reload faultd applies a change.\n");
	for (size_t i = 0; i < n_keys; i++) {
		auto_strbuf sections = {0};
		size_t depth = open_sections(before, keys[i].path, &sections);

		strbuf_addc(out, '\n');
		if (sections.len)
			strbuf_add(out, sections.data, sections.len);
		comment(keys[i].help, 2 * depth, out);
		print_range_comment(&keys[i], 2 * depth, out);
		strbuf_addf(out, "%*s%s: %s\n", (int)(2 * depth), "", name_of(&keys[i]), keys[i].def);
		before = keys[i].path;
	}
}

static void cell(const char *text, struct strbuf *out)
{
	for (; *text; text++) {
		if (*text == '|')
			strbuf_addc(out, '\\');
		strbuf_addc(out, *text);
	}
}

void config_print_reference(struct strbuf *out)
{
	strbuf_adds(out,
		    "# Configuration\n\n"
		    "`faultd.yaml`, then `faultd.yaml.d/*.yaml` in the order of their names: later files override "
		    "earlier ones, a "
		    "list as a whole. Unknown keys, keys set twice and values out of range are errors; all of them are "
		    "reported at "
		    "once, with file, line and column. `faultd --check` tries a file and prints what is in effect.\n\n"
		    "Durations are a number with `ns`, `us`, `ms`, `s`, `m`, `h` or `d`, sizes with `B`, `KiB`, `MiB` "
		    "or `GiB`.\n\n"
		    "| key | default | allowed | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < n_keys; i++) {
		strbuf_addf(out, "| `%s` | `", keys[i].path);
		cell(keys[i].def, out);
		strbuf_adds(out, "` | ");
		key_print_range(&keys[i], out);
		strbuf_adds(out, " | ");
		cell(keys[i].help, out);
		strbuf_adds(out, " |\n");
	}
}
