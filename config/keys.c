/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "config/values.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/duration.h"
#include "daemon/base/utf8.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

#define TEXTS_MAX 1024
/* Characters of a text that an error quotes. */
#define QUOTED_MAX 80

static const struct choice hierarchies[] = {
    {"auto", CONFIG_HIERARCHY_AUTO},
    {"v2", CONFIG_HIERARCHY_V2},
    {"memory", CONFIG_HIERARCHY_MEMORY},
    {0},
};
static const struct choice page_faults[] = {
    {"auto", CONFIG_FAULTS_AUTO},
    {"tracepoint", CONFIG_FAULTS_TRACEPOINT},
    {"fentry", CONFIG_FAULTS_FENTRY},
    {"perf", CONFIG_FAULTS_PERF},
    {"memcg", CONFIG_FAULTS_MEMCG},
    {"off", CONFIG_FAULTS_OFF},
    {0},
};
static const struct choice yes_or_no[] = {{"true", 1}, {"false", 0}, {0}};
static const struct choice signals[] = {
    {"ILL", CONFIG_SIGNAL_ILL}, {"FPE", CONFIG_SIGNAL_FPE},   {"TRAP", CONFIG_SIGNAL_TRAP},
    {"SYS", CONFIG_SIGNAL_SYS}, {"ABRT", CONFIG_SIGNAL_ABRT}, {0},
};
static const struct choice addresses[] = {
    {"none", CONFIG_ADDRESSES_NONE},
    {"local", CONFIG_ADDRESSES_LOCAL},
    {"all", CONFIG_ADDRESSES_ALL},
    {0},
};
static const struct choice compressions[] = {{"none", CONFIG_COMPRESSION_NONE}, {"gzip", CONFIG_COMPRESSION_GZIP}, {0}};
static const struct choice levels[] = {
    {"error", LOG_ERR}, {"warning", LOG_WARNING}, {"notice", LOG_NOTICE}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}, {0},
};

#define AT(field) .offset = offsetof(struct config, field)

const struct key keys[] = {
    {"interval", KEY_DURATION, AT(interval_ns), .min = 100 * MS, .max = 10 * S, .def = "1s",
     .help = "How often counters are closed into the windows. Counters are exact whatever this is; a shorter interval "
	     "makes "
	     "rates follow faster and costs more CPU."},
    {"windows", KEY_DURATIONS, AT(windows_ns), .min = 100 * MS, .max = HOUR, .def = "[10s, 1m, 5m]",
     .help =
	 "Lengths of the sliding windows that rates are told over, ascending, 1 to 8 of them, each a multiple of the "
	 "interval and at most 3600 intervals. Each takes memory for as many counts per cgroup as the longest has "
	 "intervals."},
    {"cgroups.include", KEY_TEXTS, AT(cgroups.include), .check = check_glob, .def = "[\"/**\"]",
     .help = "Cgroups that get series of their own, by globs over their path: * and ? stay within one component, ** as "
	     "a whole "
	     "component stands for any number of them. The rest counts as other, so that the host's totals stay true."},
    {"cgroups.exclude", KEY_TEXTS, AT(cgroups.exclude), .check = check_glob, .def = "[]",
     .help = "Cgroups that count as other although an include matches."},
    {"cgroups.max", KEY_UINT, AT(cgroups.max), .min = 1, .max = 65536, .def = "1024",
     .help = "How many cgroups can have series of their own at once. Those beyond count as other, and "
	     "faultd_drops_total tells so. Takes effect at start."},
    {"cgroups.memory", KEY_SIZE, AT(cgroups.memory_bytes), .min = MIB, .max = 4 * GIB, .def = "64MiB",
     .help = "Bound for the counters in the kernel, which take about 200 bytes per cgroup and CPU. If cgroups.max does "
	     "not fit, "
	     "fewer cgroups are counted on their own. Takes effect at start."},
    {"cgroups.hierarchy", KEY_CHOICE, AT(cgroups.hierarchy), .choices = hierarchies, .def = "auto",
     .help = "Which cgroups are told apart: those of v2, or those of v1's memory controller. auto takes v2, unless v1 "
	     "has the memory controller and nobody uses v2: it is not mounted, or process 1 and faultd are both in its "
	     "root. With v2 it still reads v1's memory.stat, by the same path, where v2 has none; v2 never looks at "
	     "v1. The log and faultd --check say which it is. Takes effect at start."},
    {"probes.page_faults", KEY_CHOICE, AT(probes.page_faults), .choices = page_faults, .def = "auto",
     .help = "How page faults are seen. auto takes the first that this kernel offers: tracepoint (exact, by class), "
	     "fentry "
	     "(the same on arm64), perf (exact, by mode only), memcg (totals from memory.stat). faultd --check tells "
	     "what each would give here. Takes effect at start."},
    {"probes.perf_period", KEY_UINT, AT(probes.perf_period), .min = 1, .max = 1000000, .def = "1",
     .help = "With perf: one in so many faults of a CPU is seen and counts for all of them. Above 1 counts are "
	     "estimates, short by less "
	     "than this per CPU, and which cgroup is hit is chance; the cost of the others all but goes. Takes effect "
	     "at start."},
    {"probes.bad_access", KEY_CHOICE, AT(probes.bad_access), .choices = yes_or_no, .def = "true",
     .help =
	 "Whether bad accesses (SIGSEGV and SIGBUS) are counted, by signal, code and outcome. Takes effect at start."},
    {"bad_access.also", KEY_SET, AT(bad_access.also), .choices = signals, .def = "[ILL, FPE]",
     .help = "Other signals of a fault that are counted in the same way: ILL illegal instruction, FPE arithmetic, TRAP "
	     "breakpoints "
	     "and such, SYS forbidden system calls, ABRT abort(). Takes effect at start."},
    {"bad_access.latency", KEY_CHOICE, AT(bad_access.latency), .choices = yes_or_no, .def = "false",
     .help = "Measures the time from the fault to the delivery of its signal, as a histogram per cgroup. Makes each "
	     "page fault of the "
	     "host dearer (docs/performance.md) and needs the page-fault tracepoints. Takes effect at start."},
    {"bad_access.addresses", KEY_CHOICE, AT(bad_access.addresses), .choices = addresses, .def = "none",
     .help = "Who sees the raw addresses of crash records, which give away where a process has its memory: none; "
	     "local, only who "
	     "may use the control socket; all, also the journal and the collector."},
    {"bad_access.history", KEY_UINT, AT(bad_access.history), .min = 16, .max = 100000, .def = "256",
     .help = "How many crash records are kept for faultctl crashes; about 2 KiB each."},
    {"bad_access.records_per_minute", KEY_UINT, AT(bad_access.records_per_minute), .min = 0, .max = 60000, .def = "10",
     .help = "How many crashes of one cgroup may leave a record in a minute, so that a crash loop floods neither the "
	     "journal nor the "
	     "collector. All are counted; a record says how many before it were suppressed."},
    {"bad_access.journal", KEY_CHOICE, AT(bad_access.journal), .choices = yes_or_no, .def = "true",
     .help = "Whether crash records go to the journal, where there is one."},
    {"control.socket", KEY_TEXT, AT(control.socket), .check = check_socket, .def = "\"/run/faultd/control.sock\"",
     .help = "Unix socket for faultctl. Empty: none."},
    {"control.group", KEY_TEXT, AT(control.group), .check = check_group, .def = "\"\"",
     .help =
	 "Group that may use the control socket besides root and the daemon's user. Empty: the daemon's own group."},
    {"scrape.listen", KEY_TEXTS, AT(scrape.listen), .check = check_listen, .def = "[\"127.0.0.1:11011\"]",
     .help = "Where Prometheus finds /metrics: ADDRESS:PORT, [IPV6]:PORT, unix:/PATH, or systemd for sockets handed "
	     "over by "
	     "a socket unit. An empty list switches the endpoint off. Anybody who can connect can read, so mind before "
	     "you leave loopback."},
    {"scrape.max_concurrent", KEY_UINT, AT(scrape.max_concurrent), .min = 1, .max = 64, .def = "4",
     .help = "Answers to /metrics that may be under way at once; more get 503."},
    {"ship.endpoint", KEY_TEXT, AT(ship.endpoint), .check = check_endpoint, .def = "\"\"", .secret = true,
     .help = "Collector that takes OTLP over HTTP, e.g. \"http://127.0.0.1:4318\"; /v1/metrics and "
	     "/v1/logs are appended; a path that ends in one of them stands for both. "
	     "Empty: nothing is shipped."},
    {"ship.interval", KEY_DURATION, AT(ship.interval_ns), .min = S, .max = HOUR, .def = "10s",
     .help = "How often a batch is made. Not shorter than interval."},
    {"ship.timeout", KEY_DURATION, AT(ship.timeout_ns), .min = 100 * MS, .max = 5 * MINUTE, .def = "10s",
     .help = "How long one delivery may take in all before it is given up and tried again later."},
    {"ship.compression", KEY_CHOICE, AT(ship.compression), .choices = compressions, .def = "gzip",
     .help = "Compression of request bodies. A collector that refuses gzip is served without."},
    {"ship.logs", KEY_CHOICE, AT(ship.logs), .choices = yes_or_no, .def = "true",
     .help = "Whether crash records are shipped, as log records to /v1/logs beside the metrics."},
    {"ship.headers", KEY_HEADERS, .check = check_header_value, .def = "{}",
     .help = "Headers of each request, e.g. {Authorization: \"Bearer ...\"}. They are never printed or logged."},
    {"ship.queue.max_size", KEY_SIZE, AT(ship.queue_bytes), .min = 64 * KIB, .max = GIB, .def = "16MiB",
     .help = "Batches that wait for the collector are kept in memory up to this size; then the oldest metrics go, and "
	     "crash records when they take half of it. Totals are "
	     "cumulative: a lost batch loses resolution, not counts."},
    {"log.level", KEY_CHOICE, AT(log.level), .choices = levels, .def = "info",
     .help = "The least important lines that are logged."},
};
const size_t n_keys = ARRAY_SIZE(keys);

/* ---- finding ---- */

const struct key *key_find(const char *path)
{
	for (size_t i = 0; i < n_keys; i++)
		if (strcmp(keys[i].path, path) == 0)
			return &keys[i];
	return NULL;
}

bool key_is_section(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < n_keys; i++)
		if (strncmp(keys[i].path, path, n) == 0 && keys[i].path[n] == '.')
			return true;
	return false;
}

#define NEAR_MAX 64

/* Edits between two words, a swap of neighbours counting as one (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][NEAR_MAX + 1], n = strlen(a), m = strlen(b);

	if (n > NEAR_MAX || m > NEAR_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[n % 3][m];
}

static const char *last_word(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* A key spelt nearly so; or one of the same name in another section. */
const char *key_near(const char *path)
{
	const char *near = NULL;
	/* One slip in three letters, no more: a wild guess helps nobody. */
	size_t best = strlen(path) < 6 ? strlen(path) / 3 + 1 : 3, d;

	for (size_t i = 0; i < n_keys; i++) {
		static char section[NEAR_MAX + 1];
		const char *dot = strchr(keys[i].path, '.');

		d = distance(path, keys[i].path);
		if (d < best) {
			best = d;
			near = keys[i].path;
		}
		if (!dot || (size_t)(dot - keys[i].path) > NEAR_MAX)
			continue;
		if (!strchr(path, '.')) {
			char word[NEAR_MAX + 1] = "";

			memcpy(word, keys[i].path, (size_t)(dot - keys[i].path));
			d = distance(path, word);
			if (d < best) {
				best = d;
				near = strcpy(section, word);
			}
		}
	}
	for (size_t i = 0; !near && i < n_keys; i++)
		if (strcmp(last_word(path), last_word(keys[i].path)) == 0)
			near = keys[i].path;
	return near;
}

/* ---- setting ---- */

static void *field(const struct config *c, const struct key *key)
{
	return (char *)c + key->offset;
}

static int wrong(struct strbuf *problem, const struct key *key, const char *text, const char *what)
{
	if (!key->secret) {
		print_quoted(text, true, problem);
		strbuf_adds(problem, " ");
	}
	strbuf_adds(problem, what);
	key_print_range(key, problem);
	return -EINVAL;
}

static int set_number(struct config *c, const struct key *key, const char *text, struct strbuf *problem, uint64_t *ret)
{
	bool is_size = key->type == KEY_SIZE, is_count = key->type == KEY_UINT;
	int r = is_count ? value_uint(text, ret) : is_size ? value_size(text, ret) : value_duration(text, ret);

	if (r == -EINVAL)
		return wrong(problem, key, text,
			     is_count  ? "is no whole number; allowed is "
			     : is_size ? "is no size; allowed is a number with B, KiB, MiB or GiB, "
				       : "is no duration; allowed is a number with ns, us, ms, s, m, h or d, ");
	if (r < 0 || *ret < key->min || *ret > key->max)
		return wrong(problem, key, text, "is out of range; allowed is ");
	return 0;
}

static int set_choice(struct config *c, const struct key *key, const char *text, struct strbuf *problem)
{
	for (const struct choice *choice = key->choices; choice->name; choice++)
		if (strcmp(choice->name, text) == 0) {
			*(int *)field(c, key) = choice->value;
			return 0;
		}
	return wrong(problem, key, text, "is not known; allowed is ");
}

static int add_choice(struct config *c, const struct key *key, const char *text, struct strbuf *problem)
{
	for (const struct choice *choice = key->choices; choice->name; choice++)
		if (strcmp(choice->name, text) == 0) {
			*(uint32_t *)field(c, key) |= (uint32_t)choice->value;
			return 0;
		}
	return wrong(problem, key, text, "is not known; allowed is ");
}

static int set_text(const struct key *key, const char *text, struct strbuf *problem, char **target)
{
	const char *fault = key->check ? key->check(text) : NULL;
	char *copy;

	if (fault)
		return wrong(problem, key, text, fault);
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 0;
}

static int add_text(struct config *c, const struct key *key, const char *text, struct strbuf *problem)
{
	struct config_list *list = field(c, key);
	char **items, *item = NULL;
	int r;

	if (list->count >= TEXTS_MAX)
		return wrong(problem, key, text, "is one item too many; allowed are at most 1024");
	r = set_text(key, text, problem, &item);
	if (r < 0)
		return r;
	items = realloc(list->items, (list->count + 1) * sizeof(*items));
	if (!items) {
		free(item);
		return -ENOMEM;
	}
	items[list->count++] = item;
	list->items = items;
	return 0;
}

static int add_window(struct config *c, const struct key *key, const char *text, struct strbuf *problem)
{
	uint64_t ns;
	int r = set_number(c, key, text, problem, &ns);

	if (r < 0)
		return r;
	if (c->n_windows == ARRAY_SIZE(c->windows_ns))
		return wrong(problem, key, text, "is one window too many; allowed are at most 8, each ");
	c->windows_ns[c->n_windows++] = ns;
	return 0;
}

int key_set(struct config *c, const struct key *key, const char *text, struct strbuf *problem)
{
	uint64_t number;
	int r;

	switch (key->type) {
	case KEY_DURATION:
	case KEY_SIZE:
	case KEY_UINT:
		r = set_number(c, key, text, problem, &number);
		if (r < 0)
			return r;
		if (key->type == KEY_UINT)
			*(uint32_t *)field(c, key) = (uint32_t)number;
		else
			*(uint64_t *)field(c, key) = number;
		return 0;
	case KEY_CHOICE:
		return set_choice(c, key, text, problem);
	case KEY_SET:
		return add_choice(c, key, text, problem);
	case KEY_TEXT:
		return set_text(key, text, problem, field(c, key));
	case KEY_TEXTS:
		return add_text(c, key, text, problem);
	case KEY_DURATIONS:
		return add_window(c, key, text, problem);
	case KEY_HEADERS:
		break;
	}
	return -EINVAL;
}

int key_add_header(struct config *c, const char *name, const char *value, struct strbuf *problem)
{
	const char *fault = check_header_name(name);
	struct config_header *headers, header = {0};

	if (fault || (fault = check_header_value(value))) {
		print_quoted(name, true, problem); /* never the value */
		strbuf_addf(problem, " %s", fault);
		return -EINVAL;
	}
	headers = realloc(c->ship.headers, (c->ship.n_headers + 1) * sizeof(*headers));
	if (headers) {
		c->ship.headers = headers;
		header.name = strdup(name);
		header.value = strdup(value);
	}
	if (!header.name || !header.value) {
		free(header.name);
		free(header.value);
		return -ENOMEM;
	}
	headers[c->ship.n_headers++] = header;
	return 0;
}

void key_clear(struct config *c, const struct key *key)
{
	if (key->type == KEY_DURATIONS)
		c->n_windows = 0;
	if (key->type == KEY_SET)
		*(uint32_t *)field(c, key) = 0;
	if (key->type == KEY_TEXTS) {
		struct config_list *list = field(c, key);

		for (size_t i = 0; i < list->count; i++)
			free(list->items[i]);
		free(list->items);
		*list = (struct config_list){0};
	}
	if (key->type == KEY_HEADERS) {
		for (size_t i = 0; i < c->ship.n_headers; i++) {
			free(c->ship.headers[i].name);
			free(c->ship.headers[i].value);
		}
		free(c->ship.headers);
		c->ship.headers = NULL;
		c->ship.n_headers = 0;
	}
}

/* ---- printing ---- */

static void print_number(uint64_t value, const struct choice *units, struct strbuf *out)
{
	while (units[1].name && value % (uint64_t)units->value)
		units++;
	strbuf_addu(out, value / (uint64_t)units->value);
	strbuf_adds(out, units->name);
}

void print_duration(uint64_t ns, struct strbuf *out)
{
	char text[DURATION_TEXT_BYTES];

	strbuf_adds(out, duration_text(ns, text));
}

static void print_size(uint64_t bytes, struct strbuf *out)
{
	static const struct choice units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {0}};

	print_number(bytes, units, out);
}

static void print_escape(uint32_t c, struct strbuf *out)
{
	if (c < 0x80)
		strbuf_addf(out, "\\x%02x", c);
	else if (c < 0x10000)
		strbuf_addf(out, "\\u%04x", c);
	else
		strbuf_addf(out, "\\U%08x", c);
}

void print_safe(const char *text, struct strbuf *out)
{
	for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
		uint32_t c;

		utf8_next(text, left, &n, &c);
		if (utf8_is_harmful(c) || c == 0xfffd)
			print_escape(c, out);
		else
			strbuf_add(out, text, n);
	}
}

void print_quoted(const char *text, bool cut, struct strbuf *out)
{
	size_t left = strlen(text), n;

	strbuf_addc(out, '"');
	for (size_t shown = 0; left > 0; text += n, left -= n, shown++) {
		uint32_t c;

		utf8_next(text, left, &n, &c);
		if (cut && shown == QUOTED_MAX) {
			strbuf_adds(out, "...");
			break;
		}
		if (c == '"' || c == '\\')
			strbuf_addc(out, '\\');
		if (utf8_is_harmful(c) || c == 0xfffd)
			print_escape(c, out);
		else
			strbuf_add(out, text, n);
	}
	strbuf_addc(out, '"');
}

static void print_texts(const struct config_list *list, struct strbuf *out)
{
	strbuf_addc(out, '[');
	for (size_t i = 0; i < list->count; i++) {
		strbuf_adds(out, i ? ", " : "");
		print_quoted(list->items[i], false, out);
	}
	strbuf_addc(out, ']');
}

static void print_headers(const struct config *c, bool secrets, struct strbuf *out)
{
	strbuf_addc(out, '{');
	for (size_t i = 0; i < c->ship.n_headers; i++) {
		strbuf_adds(out, i ? ", " : "");
		print_quoted(c->ship.headers[i].name, false, out);
		strbuf_adds(out, ": ");
		print_quoted(secrets ? c->ship.headers[i].value : "<hidden>", false, out);
	}
	strbuf_addc(out, '}');
}

static void print_set(const struct key *key, uint32_t bits, struct strbuf *out)
{
	const char *between = "";

	strbuf_addc(out, '[');
	for (const struct choice *choice = key->choices; choice->name; choice++)
		if (bits & (uint32_t)choice->value) {
			strbuf_addf(out, "%s%s", between, choice->name);
			between = ", ";
		}
	strbuf_addc(out, ']');
}

void key_print(const struct config *c, const struct key *key, bool secrets, struct strbuf *out)
{
	const void *value = field(c, key);

	switch (key->type) {
	case KEY_DURATION:
		print_duration(*(const uint64_t *)value, out);
		break;
	case KEY_SIZE:
		print_size(*(const uint64_t *)value, out);
		break;
	case KEY_UINT:
		strbuf_addu(out, *(const uint32_t *)value);
		break;
	case KEY_CHOICE:
		for (const struct choice *choice = key->choices; choice->name; choice++)
			if (choice->value == *(const int *)value)
				strbuf_adds(out, choice->name);
		break;
	case KEY_SET:
		print_set(key, *(const uint32_t *)value, out);
		break;
	case KEY_TEXT:
		print_quoted(*(char *const *)value, false, out);
		break;
	case KEY_TEXTS:
		print_texts(value, out);
		break;
	case KEY_DURATIONS:
		strbuf_addc(out, '[');
		for (size_t i = 0; i < c->n_windows; i++) {
			strbuf_adds(out, i ? ", " : "");
			print_duration(c->windows_ns[i], out);
		}
		strbuf_addc(out, ']');
		break;
	case KEY_HEADERS:
		print_headers(c, secrets, out);
		break;
	}
}

void key_print_range(const struct key *key, struct strbuf *out)
{
	void (*print)(uint64_t, struct strbuf *) = key->type == KEY_SIZE ? print_size : print_duration;

	if (key->type == KEY_UINT)
		strbuf_addf(out, "%llu to %llu", (unsigned long long)key->min, (unsigned long long)key->max);
	for (const struct choice *choice = key->choices; choice && choice->name; choice++)
		strbuf_addf(out, "%s%s", choice == key->choices ? "" : choice[1].name ? ", " : " or ", choice->name);
	if (key->type == KEY_DURATION || key->type == KEY_DURATIONS || key->type == KEY_SIZE) {
		print(key->min, out);
		strbuf_adds(out, " to ");
		print(key->max, out);
	}
}
