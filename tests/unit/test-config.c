/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

#define SEC UINT64_C(1000000000)

static struct config *good(const char *text)
{
	struct strbuf errors = {0};
	struct config *c = NULL;
	int r = config_parse("f", text, strlen(text), &errors, &c);

	if (r < 0)
		fail_msg("refused: %s", errors.data ? errors.data : "?");
	assert_int_equal(errors.len, 0);
	strbuf_done(&errors);
	return c;
}

static void assert_refused(const char *text, const char *expected)
{
	struct strbuf errors = {0};
	struct config *c = NULL;

	assert_int_equal(config_parse("f", text, strlen(text), &errors, &c), -22);
	assert_null(c);
	assert_string_equal(errors.data, expected);
	strbuf_done(&errors);
}

static void assert_defaults(const char *text)
{
	struct config *c = good(text);

	assert_int_equal(c->interval_ns, SEC);
	assert_int_equal(c->n_windows, 3);
	assert_int_equal(c->windows_ns[0], 10 * SEC);
	assert_int_equal(c->windows_ns[1], 60 * SEC);
	assert_int_equal(c->windows_ns[2], 300 * SEC);
	assert_int_equal(c->cgroups.max, 1024);
	assert_int_equal(c->cgroups.memory_bytes, 64 << 20);
	assert_int_equal(c->cgroups.include.count, 1);
	assert_string_equal(c->cgroups.include.items[0], "/**");
	assert_int_equal(c->cgroups.exclude.count, 0);
	assert_string_equal(c->scrape.listen.items[0], "127.0.0.1:11011");
	assert_string_equal(c->ship.endpoint, "");
	assert_int_equal(c->ship.compression, CONFIG_COMPRESSION_GZIP);
	assert_int_equal(c->log.level, LOG_INFO);
	config_free(c);
}

static void files_that_say_nothing_mean_defaults(void **state)
{
	assert_defaults("");
	assert_defaults("# only a comment\n\n# and another\n");
	assert_defaults("\xef\xbb\xbf");
	assert_defaults("---\n");
	assert_defaults("cgroups:\nship:\n");
}

static void values_arrive_in_base_units(void **state)
{
	struct config *c = good("\xef\xbb\xbfinterval: 250ms\r\n"
				"windows: [1s, 1.5m]\r\n"
				"cgroups: {exclude: ['/user.slice/**'], max: 7, memory: 1.5MiB}\r\n"
				"ship:\r\n  endpoint: https://c:4318/otlp\r\n  headers: {Authorization: 'Bearer x'}\r\n"
				"  queue: {max_size: 128KiB}\r\n"
				"probes: {page_faults: off}\r\n"
				"log: {level: debug}\r\n");

	assert_int_equal(c->interval_ns, SEC / 4);
	assert_int_equal(c->windows_ns[1], 90 * SEC);
	assert_int_equal(c->cgroups.max, 7);
	assert_int_equal(c->cgroups.memory_bytes, 3 << 19);
	assert_string_equal(c->cgroups.exclude.items[0], "/user.slice/**");
	assert_string_equal(c->ship.headers[0].name, "Authorization");
	assert_string_equal(c->ship.headers[0].value, "Bearer x");
	assert_int_equal(c->ship.queue_bytes, 131072);
	assert_int_equal(c->probes.page_faults, CONFIG_FAULTS_OFF);
	assert_int_equal(c->log.level, LOG_DEBUG);
	config_free(c);
}

static void anchors_and_aliases_are_plain_yaml(void **state)
{
	struct config *c = good("interval: &i 2s\nship: {interval: *i}\n");

	assert_int_equal(c->ship.interval_ns, 2 * SEC);
	config_free(c);
}

static void each_error_has_its_line(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
	    {"interval: 1s\ninterval: 2s\n", "f:2:1: interval: is set twice in this file; allowed is once\n"},
	    {"intervall: 1s\n", "f:1:1: \"intervall\": no such key, did you mean interval?\n"},
	    {"itnerval: 1s\n", "f:1:1: \"itnerval\": no such key, did you mean interval?\n"},
	    {"listen: []\n", "f:1:1: \"listen\": no such key, did you mean scrape.listen?\n"},
	    {"cgroup: {max: 1}\n", "f:1:1: \"cgroup\": no such key, did you mean cgroups?\n"},
	    {"cgroups:\n  mx: 1\n", "f:2:3: \"cgroups.mx\": no such key, did you mean cgroups.max?\n"},
	    {"\xd0\xba\xd0\xbb: 1\n",
	     "f:1:1: \"\xd0\xba\xd0\xbb\": no such key; allowed keys are in the manual and in the default file\n"},
	    {"cgroups.max: 1\n", "f:1:1: \"cgroups.max\": no such key; allowed is max: in the section cgroups\n"},
	    {"interval: 10x\n",
	     "f:1:11: interval: \"10x\" is no duration; allowed is a number with ns, us, ms, s, m, h "
	     "or d, 100ms to 10s\n"},
	    {"interval: 10\n", "f:1:11: interval: \"10\" is no duration; allowed is a number with ns, us, ms, s, m, h "
			       "or d, 100ms to 10s\n"},
	    {"interval: -1s\n",
	     "f:1:11: interval: \"-1s\" is no duration; allowed is a number with ns, us, ms, s, m, h "
	     "or d, 100ms to 10s\n"},
	    {"interval: 99999999999999999999999s\n", "f:1:11: interval: \"99999999999999999999999s\" is out of range; "
						     "allowed is 100ms to 10s\n"},
	    {"interval: 11s\n", "f:1:11: interval: \"11s\" is out of range; allowed is 100ms to 10s\n"},
	    {"interval: yes\n",
	     "f:1:11: interval: \"yes\" is no duration; allowed is a number with ns, us, ms, s, m, h "
	     "or d, 100ms to 10s\n"},
	    {"interval: .nan\n",
	     "f:1:11: interval: \".nan\" is no duration; allowed is a number with ns, us, ms, s, m, "
	     "h or d, 100ms to 10s\n"},
	    {"interval:\n", "f:1:10: interval: is empty; allowed is one value, 100ms to 10s\n"},
	    {"interval: [1s]\n", "f:1:11: interval: is a list; allowed is one value, 100ms to 10s\n"},
	    {"cgroups: {max: -5}\n", "f:1:16: cgroups.max: \"-5\" is no whole number; allowed is 1 to 65536\n"},
	    {"cgroups: {max: 0}\n", "f:1:16: cgroups.max: \"0\" is out of range; allowed is 1 to 65536\n"},
	    {"cgroups: {max: 18446744073709551617}\n",
	     "f:1:16: cgroups.max: \"18446744073709551617\" is out of range; allowed is 1 to 65536\n"},
	    {"cgroups: {memory: 64MB}\n",
	     "f:1:19: cgroups.memory: \"64MB\" is no size; allowed is a number with B, KiB, MiB "
	     "or GiB, 1MiB to 4GiB\n"},
	    {"cgroups: {include: /a}\n", "f:1:20: cgroups.include: is no list; allowed is [VALUE, ...]\n"},
	    {"cgroups: no\n", "f:1:10: cgroups: is no section; allowed are keys below it\n"},
	    {"cgroups: {max: 1}\ncgroups: {max: 2}\n",
	     "f:2:1: cgroups: is there twice in this file; allowed is one section of a name\n"},
	    {"probes: {page_faults: on}\n",
	     "f:1:23: probes.page_faults: \"on\" is not known; allowed is auto, tracepoint, "
	     "fentry, perf, memcg or off\n"},
	    {"log: {level: \"\\e[2J\"}\n",
	     "f:1:14: log.level: \"\\x1b[2J\" is not known; allowed is error, warning, notice, "
	     "info or debug\n"},
	    {"scrape: {listen: ['localhost:80']}\n", "f:1:19: scrape.listen: \"localhost:80\" is no address; allowed "
						     "are numbers (127.0.0.1:11011), no names, and "
						     "[IPV6]:PORT, unix:/PATH and systemd\n"},
	    {"scrape: {listen: ['127.0.0.1:65536']}\n", "f:1:19: scrape.listen: \"127.0.0.1:65536\" has no port; after "
							"the last ':' comes a number from 0 (any free "
							"port) to 65535\n"},
	    {"scrape: {listen: ['[::1]:1', '[::1]:1']}\n",
	     "f:1:18: scrape.listen: names an address twice; allowed is each once\n"},
	    {"ship: {endpoint: 'ftp://x'}\n",
	     "f:1:18: ship.endpoint: is no URL that can be shipped to; it begins with http:// or https://\n"},
	    {"ship: {endpoint: 'http://u:p@x'}\n",
	     "f:1:18: ship.endpoint: carries a user or password; put credentials in ship.headers\n"},
	    {"ship: {endpoint: 'http://x/?token=p'}\n",
	     "f:1:18: ship.endpoint: has a query or fragment; allowed is a scheme, a host, a port and a path\n"},
	    {"ship: {headers: {A: , B: ~}}\n",
	     "f:1:21: ship.headers: holds a header without a value; allowed is a text, \"\" if it is empty\n"
	     "f:1:26: ship.headers: holds a header without a value; allowed is a text, \"\" if it is empty\n"},
	    {"cgroups: {max: 010}\n", "f:1:16: cgroups.max: \"010\" is no whole number; allowed is 1 to 65536\n"},
	    {"cgroups:\n  exclude: [**/x]\n",
	     "f:2:14: is no YAML: while scanning an alias: did not find expected alphabetic or numeric character; a "
	     "text that begins with * is allowed in quotes only\n"},
	    {"ship: {headers: {'X Y': secret}}\n",
	     "f:1:18: ship.headers: \"X Y\" is no header name; allowed are letters, "
	     "digits and !#$%&'*+-.^_`|~\n"},
	    {"ship: {headers: {X: \"secret\\r\\nHost: y\"}}\n",
	     "f:1:18: ship.headers: \"X\" has control characters; a header's value is one line of text\n"},
	    {"ship: {headers: {X: a, x: b}}\n", "f:1:24: ship.headers: names a header twice; allowed is each once\n"},
	    {"windows: []\n", "f:1:10: windows: is empty; allowed are 1 to 8 windows\n"},
	    {"windows: [1m, 10s]\n",
	     "f:1:10: windows: are not in ascending order; allowed is each longer than the one before\n"},
	    {"interval: 7s\n",
	     "f:1:11: interval: the window 10s is no multiple of interval 7s; allowed are whole multiples of it, up to "
	     "3600\n"
	     "f:1:11: interval: the window 1m is no multiple of interval 7s; allowed are whole multiples of it, up to "
	     "3600\n"
	     "f:1:11: interval: the window 5m is no multiple of interval 7s; allowed are whole multiples of it, up to "
	     "3600\n"},
	    {"interval: 100ms\nwindows: [1s, 1h]\n",
	     "f:2:10: windows: the window 1h is too long for interval 100ms; allowed are whole multiples of it, up to "
	     "3600\n"},
	    {"interval: 2s\nship: {interval: 1s}\n",
	     "f:2:18: ship.interval: ship.interval is shorter than interval; allowed is one at least as long\n"},
	    {"interval: 1s\n---\ninterval: 2s\n", "f:2:1: a second document begins; allowed is one per file\n"},
	    {"<<: {a: b}\n", "f:1:1: (top): merges with <<; allowed is to write the keys out\n"},
	    {"interval: !!int 5\n", "f:1:11: has a tag (!...); allowed are values without\n"},
	    {"- a\n", "f:1:1: (top): is no configuration; allowed are lines of KEY: VALUE\n"},
	    {"cgroups:\n\tmax: 1\n",
	     "f:2:1: is no YAML: while scanning for the next token: found character that cannot "
	     "start any token; a tab stands where YAML allows spaces only\n"},
	    {"# \xc3\xa4\xc3\xb6\ncgroups:\n\tmax: 1\n",
	     "f:3:1: is no YAML: while scanning for the next token: found character that cannot "
	     "start any token; a tab stands where YAML allows spaces only\n"},
	    {"interval: 1s\n\xc3\xa4: \x01\n",
	     "f:2:4: is no text (control characters are not allowed); allowed is UTF-8 without control characters\n"},
	    {"interval: 1s\nx: \xff\n",
	     "f:2:4: is no text (invalid leading UTF-8 octet); allowed is UTF-8 without control characters\n"},
	    {"interval: \"1s\\0\"\n", "f:1:11: a value holds a NUL character; allowed is text without\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i].text, cases[i].expected);
}

static void all_errors_are_told_at_once(void **state)
{
	assert_refused("interval: 11s\nfoo: 1\ncgroups: {max: x}\n",
		       "f:1:11: interval: \"11s\" is out of range; allowed is 100ms to 10s\n"
		       "f:2:1: \"foo\": no such key; allowed keys are in the manual and in the default file\n"
		       "f:3:16: cgroups.max: \"x\" is no whole number; allowed is 1 to 65536\n");
}

static void no_more_than_a_hundred_errors_are_told(void **state)
{
	struct strbuf text = {0}, errors = {0};
	struct config *c = NULL;
	size_t lines = 0;

	for (int i = 0; i < 3000; i++)
		strbuf_addf(&text, "unknown%d: 1\n", i);
	assert_int_equal(config_parse("f", text.data, text.len, &errors, &c), -22);
	for (const char *at = errors.data; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 101);
	assert_non_null(strstr(errors.data, "f: there may be more errors; the first 100 are told\n"));
	strbuf_done(&text);
	strbuf_done(&errors);
}

static void what_expands_without_end_is_refused(void **state)
{
	struct strbuf text = {0}, errors = {0};
	struct config *c = NULL;

	strbuf_adds(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 12; i++)
		strbuf_addf(&text, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1, i - 1,
			    i - 1, i - 1, i - 1, i - 1, i - 1);
	assert_int_equal(config_parse("f", text.data, text.len, &errors, &c), -22);
	assert_non_null(strstr(errors.data, "expands to too much"));
	strbuf_reset(&text);
	strbuf_reset(&errors);
	for (int i = 0; i < 5000; i++)
		strbuf_addc(&text, '[');
	assert_int_equal(config_parse("f", text.data, text.len, &errors, &c), -22);
	strbuf_done(&text);
	strbuf_done(&errors);
}

/* ---- what the listener and the shipper will take ---- */

/* `value` in quotes between the two. */
static bool accepts(const char *before, const char *value, const char *behind)
{
	char text[512];
	struct strbuf errors = {0};
	struct config *c = NULL;
	int r;

	snprintf(text, sizeof(text), "%s'%s'%s", before, value, behind);
	r = config_parse("f", text, strlen(text), &errors, &c);
	assert_true(r == 0 || r == -22);
	config_free(c);
	strbuf_done(&errors);
	return r == 0;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void only_addresses_that_can_be_bound_pass(void **state)
{
	static const char *const fine[] = {"127.0.0.1:0",    "0.0.0.0:65535",    "[::]:1",  "[::ffff:1.2.3.4]:1",
					   "[fe80::1%lo]:1", "unix:/run/f.sock", "systemd", "255.255.255.255:1"};
	static const char *const wrong[] = {"999.1.1.1:80", "1.2.3.4.5:80",    "...:1",  "[:::]:1",  "[]:80",
					    "[1.2.3.4]:1",  "[::1]",           "::1:1",  "[::1%]:1", "[::1]x:1",
					    "[::12:1",      "[fe80::1%a b]:1", ":80",    "1.2.3.4",  "1.2.3.4:",
					    "1.2.3.4:-1",   "1.2.3.4:65536",   "unix:x", "unix:/",   "unix:/a/",
					    "unix:",        "Systemd",         ""};

	for (size_t i = 0; i < COUNT(fine); i++)
		if (!accepts("scrape: {listen: [", fine[i], "]}"))
			fail_msg("refused: %s", fine[i]);
	for (size_t i = 0; i < COUNT(wrong); i++)
		if (accepts("scrape: {listen: [", wrong[i], "]}"))
			fail_msg("accepted: %s", wrong[i]);
}

/* By RFC 3986, less what a collector's base URL does not have. */
static void only_urls_that_can_be_shipped_to_pass(void **state)
{
	static const char *const fine[] = {"",
					   "http://h",
					   "HTTPS://h.example.com:4318/otlp/",
					   "http://127.0.0.1:1",
					   "http://[::1]",
					   "http://[::1]:4318/x",
					   "http://h/%20",
					   "http://h/@y",
					   "http://h_o:65535"};
	static const char *const wrong[] = {
	    "h:4318",           "//h",         "http:/h",        "http://",      "http:///x",    "http://:1",
	    "http://h:",        "http://h:0",  "http://h:99999", "http://h:abc", "http://h:1:2", "http://[::1",
	    "http://[::1]x",    "http://[]",   "http://[zz]",    "http://h\"x",  "http://h/{x}", "http://h/\\",
	    "http://h\xc3\xa4", "http://h|:1", "http://h/a b",   "x://http://h", "http://u@h",   "http://u:p@[::1]/",
	    "http://h#f",       "http://h%20", "http://a,b"};

	for (size_t i = 0; i < COUNT(fine); i++)
		if (!accepts("ship: {endpoint: ", fine[i], "}"))
			fail_msg("refused: %s", fine[i]);
	for (size_t i = 0; i < COUNT(wrong); i++)
		if (accepts("ship: {endpoint: ", wrong[i], "}"))
			fail_msg("accepted: %s", wrong[i]);
}

/* What is printed parses back to what printed it. */
static void the_printed_configuration_parses_back(void **state)
{
	static const char *const texts[] = {
	    "",
	    "interval: 250ms\nwindows: [1s, 1m, 90s]\n",
	    "cgroups: {include: ['/a\\\\\"b/*', \"/t\\tab\\u2028\\u00e9/**\"], max: 3, memory: 3145729B}\n"
	    "ship: {endpoint: 'https://h/p', headers: {X-A: \"q\\\"uo\\\\te\", Y: 'z'}, timeout: 1500ms}\n"
	    "scrape: {listen: []}\n",
	};

	for (size_t i = 0; i < 3; i++) {
		struct strbuf once = {0}, twice = {0};
		struct config *a = good(texts[i]), *b;

		config_print(a, true, &once);
		b = good(once.data);
		config_print(b, true, &twice);
		assert_string_equal(once.data, twice.data);
		if (i == 2) {
			assert_string_equal(b->cgroups.include.items[0], "/a\\\\\"b/*");
			assert_string_equal(b->cgroups.include.items[1], "/t\tab\xe2\x80\xa8\xc3\xa9/**");
			assert_string_equal(b->ship.headers[0].value, "q\"uo\\te");
			assert_int_equal(b->cgroups.memory_bytes, 3145729);
			assert_int_equal(b->scrape.listen.count, 0);
		}
		config_free(a);
		config_free(b);
		strbuf_done(&once);
		strbuf_done(&twice);
	}
}

static void secrets_are_not_printed(void **state)
{
	struct config *c = good("ship: {headers: {Authorization: 'Bearer hush'}}\n");
	struct strbuf out = {0};

	config_print(c, false, &out);
	assert_null(strstr(out.data, "hush"));
	assert_non_null(strstr(out.data, "\"Authorization\": \"<hidden>\""));
	strbuf_done(&out);
	config_free(c);
}

/* ---- files ---- */

static char folder[] = "/tmp/test-config-XXXXXX";

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void drop_ins_override_in_the_order_of_their_names(void **state)
{
	struct strbuf errors = {0};
	struct config *c = NULL;

	write_file("a.yaml", "cgroups: {max: 10, include: ['/a', '/b']}\ninterval: 2s\n");
	mkdir(path_of("a.yaml.d"), 0755);
	write_file("a.yaml.d/20.yaml", "cgroups: {max: 20}\n");
	write_file("a.yaml.d/10.yaml", "cgroups: {max: 15, include: ['/c']}\n");
	write_file("a.yaml.d/30.conf", "nonsense");
	write_file("a.yaml.d/.40.yaml", "nonsense");
	assert_int_equal(config_load(path_of("a.yaml"), &errors, &c), 0);
	assert_int_equal(c->cgroups.max, 20);
	assert_int_equal(c->cgroups.include.count, 1);
	assert_string_equal(c->cgroups.include.items[0], "/c");
	assert_int_equal(c->interval_ns, 2 * SEC);
	config_free(c);
	strbuf_done(&errors);
}

static void errors_of_all_files_name_their_file(void **state)
{
	struct strbuf errors = {0};
	struct config *c = NULL;
	char expected[1024];

	write_file("b.yaml", "foo: 1\n");
	mkdir(path_of("b.yaml.d"), 0755);
	write_file("b.yaml.d/1.yaml", "\ninterval: x\n");
	assert_int_equal(config_load(path_of("b.yaml"), &errors, &c), -22);
	snprintf(expected, sizeof(expected),
		 "%s/b.yaml:1:1: \"foo\": no such key; allowed keys are in the manual and in the default file\n"
		 "%s/b.yaml.d/1.yaml:2:11: interval: \"x\" is no duration; allowed is a number with ns, us, ms, s, m, "
		 "h or d, "
		 "100ms to 10s\n",
		 folder, folder);
	assert_string_equal(errors.data, expected);
	strbuf_done(&errors);
}

static void names_of_files_steer_no_terminal(void **state)
{
	struct strbuf errors = {0};
	struct config *c = NULL;

	assert_int_equal(config_parse("a\x1b[31m\n\xc2\x9b\xff.yaml", "foo: 1", 6, &errors, &c), -22);
	assert_string_equal(errors.data,
			    "a\\x1b[31m\\x0a\\u009b\\ufffd.yaml:1:1: \"foo\": no such key; allowed keys are in "
			    "the manual and in the default file\n");
	strbuf_done(&errors);
	assert_int_equal(config_load("/nonexistent\x1b", &errors, &c), -22);
	assert_string_equal(errors.data, "/nonexistent\\x1b:1:1: cannot be read: No such file or directory\n");
	strbuf_done(&errors);
}

static void assert_unreadable(const char *path, const char *why)
{
	struct strbuf errors = {0};
	struct config *c = NULL;

	assert_int_equal(config_load(path, &errors, &c), -22);
	assert_non_null(strstr(errors.data, why));
	strbuf_done(&errors);
}

static void what_is_no_readable_file_is_refused(void **state)
{
	mkdir(path_of("dir"), 0755);
	assert_unreadable(path_of("dir"), "dir:1:1: cannot be read: is a directory; allowed is a file\n");
	assert_unreadable(path_of("none"), "none:1:1: cannot be read: No such file or directory\n");
	mkfifo(path_of("fifo"), 0600);
	assert_unreadable(path_of("fifo"), "is no regular file");
	write_file("big", "");
	assert_int_equal(truncate(path_of("big"), 2 << 20), 0);
	assert_unreadable(path_of("big"), "is larger than 1 MiB");
}

/* ---- lists that are kept twice ---- */

static void assert_file_holds(const char *file, const char *expected)
{
	struct strbuf text = {0};
	char block[4096];
	FILE *f = fopen(file, "r");
	size_t n;

	if (!f)
		fail_msg("cannot open %s", file);
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		strbuf_add(&text, block, n);
	fclose(f);
	assert_string_equal(text.data, expected);
	strbuf_done(&text);
}

static void the_default_file_is_what_the_table_says(void **state)
{
	struct strbuf text = {0};

	config_print_default(&text);
	assert_file_holds(PROJECT "/config/faultd.yaml", text.data);
	assert_defaults(text.data);
	strbuf_done(&text);
}

static void the_reference_is_what_the_table_says(void **state)
{
	struct strbuf text = {0};

	config_print_reference(&text);
	assert_file_holds(PROJECT "/docs/configuration.md", text.data);
	strbuf_done(&text);
}

static void the_development_file_is_valid(void **state)
{
	struct strbuf errors = {0};
	struct config *c = NULL;

	assert_int_equal(config_load(PROJECT "/config/dev.yaml", &errors, &c), 0);
	config_free(c);
	strbuf_done(&errors);
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_that_say_nothing_mean_defaults),
	    cmocka_unit_test(values_arrive_in_base_units),
	    cmocka_unit_test(anchors_and_aliases_are_plain_yaml),
	    cmocka_unit_test(each_error_has_its_line),
	    cmocka_unit_test(all_errors_are_told_at_once),
	    cmocka_unit_test(no_more_than_a_hundred_errors_are_told),
	    cmocka_unit_test(what_expands_without_end_is_refused),
	    cmocka_unit_test(only_addresses_that_can_be_bound_pass),
	    cmocka_unit_test(only_urls_that_can_be_shipped_to_pass),
	    cmocka_unit_test(the_printed_configuration_parses_back),
	    cmocka_unit_test(secrets_are_not_printed),
	    cmocka_unit_test(drop_ins_override_in_the_order_of_their_names),
	    cmocka_unit_test(errors_of_all_files_name_their_file),
	    cmocka_unit_test(names_of_files_steer_no_terminal),
	    cmocka_unit_test(what_is_no_readable_file_is_refused),
	    cmocka_unit_test(the_default_file_is_what_the_table_says),
	    cmocka_unit_test(the_reference_is_what_the_table_says),
	    cmocka_unit_test(the_development_file_is_valid),
	};

	return cmocka_run_group_tests_name("config", tests, make_folder, remove_folder);
}
