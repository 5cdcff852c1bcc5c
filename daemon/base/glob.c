/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/glob.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/utf8.h"

/* Bytes not yet looked at. Patterns and paths are cut into components first, so no view of a component holds a '/'. */
struct view {
	const char *at, *end;
};

/* ---- sets: [...] ---- */

static uint32_t next_char(struct view *v)
{
	uint32_t c;
	size_t n;

	(void)utf8_next(v->at, (size_t)(v->end - v->at), &n, &c);
	v->at += n;
	return c;
}

struct named_class {
	const char *name;
	int (*has)(int);
};

static const struct named_class *find_class(const char *name, size_t len)
{
	static const struct named_class classes[] = {
	    {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
	    {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
	    {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strlen(classes[i].name) == len && memcmp(classes[i].name, name, len) == 0)
			return &classes[i];
	return NULL;
}

/* The end of a class's name if `v` stands before "[:name:]". */
static const char *class_end(const struct view *v)
{
	const char *end;

	if (v->end - v->at < 4 || v->at[0] != '[' || v->at[1] != ':')
		return NULL;
	end = memchr(v->at + 2, ':', (size_t)(v->end - v->at - 2));
	return end && end + 1 < v->end && end[1] == ']' ? end : NULL;
}

/* One character of a set, a backslash quotes the next. False at the end of the component. */
static bool set_char(struct view *v, uint32_t *ret)
{
	if (v->at < v->end && *v->at == '\\')
		v->at++;
	if (v->at >= v->end)
		return false;
	*ret = next_char(v);
	return true;
}

/* Reads one item of a set: a character, a range or a class. Sets *has if it holds `c`. Returns what is wrong with it,
 * NULL if it is well formed; then `v` may be at the end of the component. */
static const char *read_item(struct view *v, uint32_t c, bool *has)
{
	const char *name_end = class_end(v);
	uint32_t low = 0, high;

	if (name_end) {
		const struct named_class *class = find_class(v->at + 2, (size_t)(name_end - v->at - 2));

		if (!class)
			return "unknown class in [...]: allowed are [:alnum:], [:alpha:], [:digit:], [:lower:], "
			       "[:upper:] and so on";
		*has |= c < 0x80 && class->has((int)c);
		v->at = name_end + 2;
		return NULL;
	}
	if (v->end - v->at > 1 && v->at[0] == '[' && (v->at[1] == '.' || v->at[1] == '='))
		return "[. and [= in [...] are not supported: use characters, ranges and classes like [:digit:]";
	if (!set_char(v, &low))
		return NULL;
	high = low;
	if (v->end - v->at > 1 && v->at[0] == '-' && v->at[1] != ']') {
		v->at++;
		if (!set_char(v, &high))
			return NULL;
	}
	if (low > high)
		return "reversed range in [...]: the lower end comes first";
	*has |= low <= c && c <= high;
	return NULL;
}

/* Reads the set that `v` stands in (behind its '['), moves behind its ']' and tells in *ret_has whether it holds `c`.
 * Returns what is wrong with the set, NULL if it is well formed. */
static const char *read_set(struct view *v, uint32_t c, bool *ret_has)
{
	bool negated = v->at < v->end && (*v->at == '!' || *v->at == '^'), has = false;

	v->at += negated;
	/* A ']' in the first place stands for itself, as in POSIX. */
	for (bool first = true; v->at < v->end && (first || *v->at != ']'); first = false) {
		const char *wrong = read_item(v, c, &has);

		if (wrong)
			return wrong;
	}
	if (v->at >= v->end)
		return "unclosed [: close it with ] within the component, or write \\[ for the character itself";
	v->at++;
	*ret_has = has != negated;
	return NULL;
}

/* ---- one component ---- */

/* Matches one unit of the pattern (not '*') at the beginning of `text` and moves both behind it. */
static bool match_unit(struct view *pattern, struct view *text)
{
	bool has;

	if (text->at >= text->end)
		return false;
	if (*pattern->at == '?') {
		pattern->at++;
		next_char(text);
		return true;
	}
	if (*pattern->at == '[') {
		pattern->at++;
		return !read_set(pattern, next_char(text), &has) && has;
	}
	if (*pattern->at == '\\' && ++pattern->at >= pattern->end)
		return false;
	return *pattern->at++ == *text->at++;
}

/* Only the last star is ever tried again: what an earlier one could take more, the last one can take as well. Hence the
 * time is bounded by the product of the lengths. */
static bool match_component(struct view pattern, struct view text)
{
	struct view after_star = {0}, from = {0};

	while (pattern.at < pattern.end || text.at < text.end) {
		if (pattern.at < pattern.end && *pattern.at == '*') {
			pattern.at++;
			after_star = pattern;
			from = text;
			continue;
		}
		if (pattern.at < pattern.end && match_unit(&pattern, &text))
			continue;
		if (!after_star.at || from.at >= from.end)
			return false;
		next_char(&from);
		pattern = after_star;
		text = from;
	}
	return true;
}

/* ---- components ---- */

/* Cuts the first component off. */
static struct view next_component(struct view *v)
{
	const char *slash = memchr(v->at, '/', (size_t)(v->end - v->at));
	struct view component = {v->at, slash ? slash : v->end};

	v->at = slash ? slash + 1 : v->end;
	return component;
}

static bool is_double_star(struct view component)
{
	return component.end - component.at == 2 && memcmp(component.at, "**", 2) == 0;
}

static struct view view_of(const char *s)
{
	return (struct view){s, s + strlen(s)};
}

bool glob_match(const char *pattern_text, const char *path_text)
{
	struct view pattern = view_of(pattern_text), path = view_of(path_text), after_stars = {0}, from = {0};

	if (path.at == path.end || *path.at++ != '/')
		return false;
	/* The root has no components. A pattern without '/' in front can match if it begins with a component "**". */
	if (pattern.at < pattern.end && *pattern.at == '/')
		pattern.at++;
	else if (!is_double_star(next_component(&(struct view){pattern.at, pattern.end})))
		return false;

	while (pattern.at < pattern.end || path.at < path.end) {
		if (pattern.at < pattern.end) {
			struct view rest = pattern, component = next_component(&rest);

			if (is_double_star(component)) {
				pattern = after_stars = rest;
				from = path;
				continue;
			}
			if (path.at < path.end && match_component(component, next_component(&path))) {
				pattern = rest;
				continue;
			}
		}
		if (!after_stars.at || from.at >= from.end)
			return false;
		next_component(&from);
		pattern = after_stars;
		path = from;
	}
	return true;
}

static const char *check_component(struct view v)
{
	bool has;

	while (v.at < v.end) {
		char c = *v.at++;

		if (c == '\\') {
			if (v.at++ >= v.end)
				return "\\ at the end of a component: it quotes the character after it, which cannot "
				       "be /";
		} else if (c == '[') {
			const char *wrong = read_set(&v, 0, &has);

			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

const char *glob_check(const char *pattern)
{
	struct view v = view_of(pattern);

	if (v.at == v.end)
		return "empty pattern: a pattern matches the whole path, /** matches all";
	if (strcmp(pattern, "/") == 0)
		return NULL;
	if (*v.at == '/')
		v.at++;
	else if (!is_double_star(next_component(&(struct view){v.at, v.end})))
		return "a pattern matches the whole path and must begin with / or **/";
	if (v.end[-1] == '/')
		return "/ at the end: paths have none, /** at the end matches a cgroup and all below it";
	while (v.at < v.end) {
		struct view component = next_component(&v);
		const char *wrong =
		    component.at == component.end ? "empty component: paths have no //" : check_component(component);

		if (wrong)
			return wrong;
	}
	return NULL;
}
