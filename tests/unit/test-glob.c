/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Globs: cases by hand from the rules in glob.h; within one component the C library's fnmatch(3) says what is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/glob.h"

struct match_case {
	const char *pattern, *path;
	bool want;
};

static void check_all(const struct match_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (glob_match(cases[i].pattern, cases[i].path) != cases[i].want)
			fail_msg("%s on %s: not %d", cases[i].pattern, cases[i].path, cases[i].want);
}

#define CHECK_ALL(cases) check_all(cases, ARRAY_SIZE(cases))

static void a_pattern_matches_the_whole_path(void **state)
{
	static const struct match_case cases[] = {
	    {"/", "/", true},
	    {"/", "/a", false},
	    {"/a", "/a", true},
	    {"/a", "/", false},
	    {"/a", "/a/b", false},
	    {"/a/b", "/a", false},
	    {"/a", "/aa", false},
	    {"/aa", "/a", false},
	    {"/system.slice/sshd.service", "/system.slice/sshd.service", true},
	    {"/system.slice/sshd.service", "/systemxslice/sshd.service", false},
	};
	CHECK_ALL(cases);
}

static void star_and_question_mark_stay_within_a_component(void **state)
{
	static const struct match_case cases[] = {
	    {"/*", "/", false},
	    {"/*", "/a", true},
	    {"/*", "/a/b", false},
	    {"/*/*", "/a/b", true},
	    {"/a*", "/a", true},
	    {"/a*c", "/abbc", true},
	    {"/a*c", "/ab/c", false},
	    {"/a?c", "/abc", true},
	    {"/a?c", "/a/c", false},
	    {"/a?", "/a", false},
	    {"/*.service", "/sshd.service", true},
	    {"/*.service", "/.service", true},
	    {"/a**b", "/axyb", true},
	    {"/a**b", "/ax/yb", false},
	    {"/***", "/abc", true},
	    {"/***", "/a/b", false},
	};
	CHECK_ALL(cases);
}

static void double_star_crosses_any_number_of_components(void **state)
{
	static const struct match_case cases[] = {
	    {"/**", "/", true},
	    {"/**", "/a", true},
	    {"/**", "/a/b/c", true},
	    {"**", "/", true},
	    {"**", "/a/b", true},
	    {"/a/**", "/a", true},
	    {"/a/**", "/a/b", true},
	    {"/a/**", "/a/b/c", true},
	    {"/a/**", "/ab", false},
	    {"/a/**", "/", false},
	    {"/**/c", "/c", true},
	    {"/**/c", "/a/b/c", true},
	    {"/**/c", "/a/b/c/d", false},
	    {"**/c", "/a/b/c", true},
	    {"**/c", "/c", true},
	    {"/a/**/c", "/a/c", true},
	    {"/a/**/c", "/a/b/b/c", true},
	    {"/a/**/c", "/a/b/b/cc", false},
	    {"/**/b/**/b", "/b", false},
	    {"/**/b/**/b", "/b/b", true},
	    {"/**/b/**/b", "/a/b/c/b", true},
	    {"/**/b/*/d", "/b/x/b/c/d", true},
	    {"/**/kubepods*/**", "/kubelet/kubepods.slice/pod1/x", true},
	    {"/**/**", "/", true},
	    {"/*/**", "/", false},
	    {"/*/**", "/a", true},
	};
	CHECK_ALL(cases);
}

static void sets_and_quotes_are_as_in_fnmatch(void **state)
{
	static const struct match_case cases[] = {
	    {"/[ab]", "/a", true},
	    {"/[ab]", "/c", false},
	    {"/[a-c]x", "/bx", true},
	    {"/[!a-c]", "/b", false},
	    {"/[!a-c]", "/d", true},
	    {"/[^a-c]", "/d", true},
	    {"/[]]", "/]", true},
	    {"/[!]]", "/]", false},
	    {"/[]-]", "/-", true},
	    {"/[a-]", "/-", true},
	    {"/[\\]]", "/]", true},
	    {"/[\\-a]", "/-", true},
	    {"/[[:digit:]]", "/7", true},
	    {"/[[:digit:]]", "/x", false},
	    {"/[![:alpha:]_]", "/_", false},
	    {"/\\*", "/*", true},
	    {"/\\*", "/a", false},
	    {"/\\[a]", "/[a]", true},
	    {"/\\\\x2d", "/\\x2d", true},
	    {"/a\\x2db", "/ax2db", true},
	    {"/*\\\\x2d*", "/app-gnome\\x2dterm.slice", true},
	    {"/[a-z]*[0-9]", "/x1", true},
	    {"/[!a]", "/", false},
	};
	CHECK_ALL(cases);
}

static void a_character_of_several_bytes_is_one(void **state)
{
	static const struct match_case cases[] = {
	    {"/?", "/\xc3\xa9", true},
	    {"/??", "/\xc3\xa9", false},
	    {"/[\xc3\xa9\xc3\xa8]", "/\xc3\xa9", true},
	    {"/[\xc3\xa9]", "/\xc3\xaa", false},
	    {"/[!a]", "/\xc3\xa9", true},
	    {"/caf\xc3\xa9*", "/caf\xc3\xa9.service", true},
	    {"/?", "/\xff", true},
	    {"/*\xff*", "/a\xff", true},
	};
	CHECK_ALL(cases);
}

static void ill_formed_patterns_are_told_and_match_nothing_wrong(void **state)
{
	static const char *const bad[] = {"",         "a",        "*.service", "a/**",       "/a/",  "//",
					  "/a//b",    "/[a",      "/[",        "/[]",        "/[!]", "/[a/b]",
					  "/a\\",     "/a\\/b",   "/[b-a]",    "/[[:foo:]]", "/[\\", "/[a-",
					  "/[[.a.]]", "/[[=a=]]", "***/a",     "/[a\\]"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *text = glob_check(bad[i]);

		if (!text)
			fail_msg("%s passed", bad[i]);
		assert_true(strlen(text) > 10 && strlen(text) < 120);
		(void)glob_match(bad[i], "/a/b");
		(void)glob_match(bad[i], "/[a");
	}
	assert_false(glob_match("/[a", "/a"));
	assert_false(glob_match("/a\\", "/a"));
	assert_false(glob_match("/a", ""));
	assert_false(glob_match("/**", "other"));
}

static void well_formed_patterns_pass(void **state)
{
	static const char *const good[] = {"/",     "/**",   "**",    "**/a",     "/a/**/b",      "/*",
					   "/a\\*", "/[]a]", "/[a-]", "/[!a-z]*", "/[[:digit:]]", "/caf\xc3\xa9",
					   "/a**b"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (glob_check(good[i]))
			fail_msg("%s: %s", good[i], glob_check(good[i]));
}

static void one_component_agrees_with_fnmatch(void **state)
{
	static const char pattern_chars[] = "aab*?[]!-\\", text_chars[] = "aab-]![";
	size_t compared = 0;

	srand(2);
	for (int i = 0; i < 300000; i++) {
		char pattern[10] = "/", text[8] = "/";
		size_t p = 1 + (size_t)rand() % 8, t = 1 + (size_t)rand() % 6;

		for (size_t k = 1; k <= p; k++)
			pattern[k] = pattern_chars[(size_t)rand() % (sizeof(pattern_chars) - 1)];
		for (size_t k = 1; k <= t; k++)
			text[k] = text_chars[(size_t)rand() % (sizeof(text_chars) - 1)];
		if (glob_check(pattern) || strcmp(pattern, "/**") == 0)
			continue;
		compared++;
		if (glob_match(pattern, text) != (fnmatch(pattern, text, FNM_PATHNAME) == 0))
			fail_msg("%s on %s: not %d", pattern, text, !glob_match(pattern, text));
	}
	assert_true(compared > 50000);
}

/* The plainest way to say what "**" means, in exponential time. */
static bool naive(const char **pattern, size_t p, const char **path, size_t t)
{
	if (p == 0)
		return t == 0;
	if (strcmp(*pattern, "**") == 0)
		return naive(pattern + 1, p - 1, path, t) || (t > 0 && naive(pattern, p, path + 1, t - 1));
	return t > 0 && fnmatch(*pattern, *path, 0) == 0 && naive(pattern + 1, p - 1, path + 1, t - 1);
}

static void double_stars_agree_with_their_definition(void **state)
{
	static const char *const parts[] = {"**", "**", "*", "a", "b", "?b", "a*"}, *const names[] = {"a", "b", "ab"};

	srand(3);
	for (int i = 0; i < 100000; i++) {
		const char *pattern[6], *path[7];
		char pattern_text[64] = "", path_text[64] = "";
		size_t p = 1 + (size_t)rand() % 6, t = (size_t)rand() % 7;

		for (size_t k = 0; k < p; k++) {
			pattern[k] = parts[(size_t)rand() % ARRAY_SIZE(parts)];
			strcat(strcat(pattern_text, "/"), pattern[k]);
		}
		for (size_t k = 0; k < t; k++) {
			path[k] = names[(size_t)rand() % ARRAY_SIZE(names)];
			strcat(strcat(path_text, "/"), path[k]);
		}
		if (glob_match(pattern_text, t ? path_text : "/") != naive(pattern, p, path, t))
			fail_msg("%s on %s", pattern_text, path_text);
	}
}

static double seconds(const char *pattern, const char *path, bool want)
{
	struct timespec a, b;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	assert_int_equal(glob_match(pattern, path), want);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

static void the_worst_case_stays_fast(void **state)
{
	char pattern[4096] = "/", path[4097] = "/";

	/* a*a*...b on aaaa...: 2^n ways for who tries them all. */
	for (size_t i = 1; i < 4000; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[4000] = 'b';
	memset(path + 1, 'a', 4095);
	assert_true(seconds(pattern, path, false) < 1);

	/* The same with components. */
	memset(pattern, 0, sizeof(pattern));
	memset(path, 0, sizeof(path));
	while (strlen(pattern) < 4000)
		strcat(pattern, "/**/a");
	strcat(pattern, "/b");
	while (strlen(path) < 4000)
		strcat(path, "/a");
	assert_true(seconds(pattern, path, false) < 1);
	assert_true(seconds("/**/*a*a*a*a*b/**", path, false) < 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pattern_matches_the_whole_path),
	    cmocka_unit_test(star_and_question_mark_stay_within_a_component),
	    cmocka_unit_test(double_star_crosses_any_number_of_components),
	    cmocka_unit_test(sets_and_quotes_are_as_in_fnmatch),
	    cmocka_unit_test(a_character_of_several_bytes_is_one),
	    cmocka_unit_test(ill_formed_patterns_are_told_and_match_nothing_wrong),
	    cmocka_unit_test(well_formed_patterns_pass),
	    cmocka_unit_test(one_component_agrees_with_fnmatch),
	    cmocka_unit_test(double_stars_agree_with_their_definition),
	    cmocka_unit_test(the_worst_case_stays_fast),
	};
	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
