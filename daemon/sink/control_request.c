/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/control_request.h"

#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/glob.h"

enum {
	KEY_SINCE = 1 << 0,
	KEY_CGROUP = 1 << 1,
	KEY_FOLLOW = 1 << 2,
	KEY_FORMAT = 1 << 3,
};

/* ---- values ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place: %XX becomes the byte. */
static const char *unescape(char *value)
{
	char *to = value;

	for (const char *from = value; *from; from++) {
		int high, low;

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		high = hex_digit(from[1]);
		low = high < 0 ? -1 : hex_digit(from[2]);
		if (low < 0)
			return "% in a value that is not followed by two hexadecimal digits: % itself is %25";
		if (high == 0 && low == 0)
			return "%00 in a value: no value holds a NUL";
		*to++ = (char)(high << 4 | low);
		from += 2;
	}
	*to = '\0';
	return NULL;
}

static const char *parse_since(const char *value, uint64_t *ret)
{
	uint64_t ns = 0;

	for (const char *c = value; *c; c++)
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(ns, 10, &ns) ||
		    __builtin_add_overflow(ns, (uint64_t)(*c - '0'), &ns))
			return "since is a number of nanoseconds since 1970, below 2^64";
	if (!*value)
		return "since is empty: it is a number of nanoseconds since 1970";
	*ret = ns;
	return NULL;
}

static const char *parse_value(struct control_request *r, int key, const char *value)
{
	switch (key) {
	case KEY_SINCE:
		return parse_since(value, &r->since_unix_ns);
	case KEY_CGROUP:
		r->cgroup = value;
		if (r->verb == CONTROL_CRASHES)
			return glob_check(value);
		return value[0] == '/' ? NULL : "cgroup is the path of a cgroup, which begins with /";
	case KEY_FOLLOW:
		r->follow = true;
		return strcmp(value, "1") == 0 ? NULL : "follow can only be 1; leave it out otherwise";
	default:
		r->json = strcmp(value, "json") == 0;
		return r->json || strcmp(value, "text") == 0 ? NULL : "format is text or json";
	}
}

/* ---- words ---- */

static const struct {
	const char *name;
	int key;
} keys[] = {{"since", KEY_SINCE}, {"cgroup", KEY_CGROUP}, {"follow", KEY_FOLLOW}, {"format", KEY_FORMAT}};

static const struct {
	const char *name;
	int keys;
	int required;
	const char *allowed;
} verbs[] = {
    [CONTROL_CRASHES] =
	{"crashes", KEY_SINCE | KEY_CGROUP | KEY_FOLLOW | KEY_FORMAT, 0,
	 "crashes takes since=UNIX_NS, cgroup=GLOB, follow=1 and format=text or json, each at most once"},
    [CONTROL_BAD] = {"bad", KEY_CGROUP, KEY_CGROUP, "bad takes cgroup=PATH, once"},
};

static int find_key(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return keys[i].key;
	return 0;
}

/* `*seen` gathers the keys that were there. */
static const char *parse_argument(struct control_request *r, char *word, int *seen)
{
	char *value = strchr(word, '=');
	const char *wrong;
	int key;

	if (!value)
		return verbs[r->verb].allowed;
	*value++ = '\0';
	key = find_key(word);
	if (!(key & verbs[r->verb].keys) || (key & *seen))
		return verbs[r->verb].allowed;
	*seen |= key;
	wrong = unescape(value);
	return wrong ? wrong : parse_value(r, key, value);
}

static const char *parse_verb(struct control_request *r, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, word) == 0) {
			r->verb = i;
			return NULL;
		}
	return "no such verb: allowed are crashes and bad";
}

static bool has_control(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			return true;
	return false;
}

/* Cuts the first word off and returns it. */
static char *next_word(char **rest)
{
	char *word = *rest, *space = strchr(word, ' ');

	if (space)
		*space++ = '\0';
	*rest = space;
	return word;
}

const char *control_request_parse(char *line, size_t len, struct control_request *ret)
{
	char *rest = line;
	const char *wrong;
	int seen = 0;

	if (has_control(line, len))
		return "a control character in the request: in values it is written as %XX";
	line[len] = '\0';
	*ret = (struct control_request){0};
	wrong = parse_verb(ret, next_word(&rest));
	while (!wrong && rest)
		wrong = parse_argument(ret, next_word(&rest), &seen);
	if (!wrong && (seen & verbs[ret->verb].required) != verbs[ret->verb].required)
		wrong = verbs[ret->verb].allowed;
	return wrong;
}
