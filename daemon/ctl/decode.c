/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl decode: what raw fault codes say. Needs neither the daemon nor root, nor the machine they come from.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"
#include "daemon/model/fault_code.h"

#define NUMBER_FORMS "a number of at most 64 bits, decimal or hexadecimal with 0x in front, is wanted"

/* ---- command line ---- */

struct arguments {
	enum fault_arch arch;
	bool json;
	char **codes; /* ends with NULL, holds at least one */
};

static void print_help(void)
{
	printf("faultctl decode [--arch ARCH] [--json] CODE...\n"
	       "Tells what raw fault codes say, a line each: the class as which faultd counts the fault, its meaning, "
	       "and in\n"
	       "brackets the signal that a process gets for it if the kernel does not mend it.\n"
	       "\n"
	       "      --arch ARCH  where the code comes from (default here: %s):\n"
	       "                     x86_64       error code of a page fault\n"
	       "                     arm64        ESR_EL1\n"
	       "                     riscv64      scause\n"
	       "                     s390x        interruption code, or CODE:TEID with the translation-exception\n"
	       "                                  identification\n"
	       "                     powerpc      DSISR, or CODE:TRAP with the trap's number: of trap 0x400 the code "
	       "is SRR1\n"
	       "                     arm          FSR, bit 31 set for a prefetch abort\n"
	       "                     loongarch64  exception code, or ESTAT that holds it\n"
	       "      --json       a JSON object per line\n"
	       "  -h, --help\n"
	       "\n"
	       "Codes are decimal or hexadecimal with 0x in front, at most 64 bits. What the code alone does not tell, "
	       "such as\n"
	       "whether a fault of riscv64 was taken in user mode, is left out, or \"unknown\" in JSON.\n",
	       fault_arch_name(fault_arch_here()));
}

#define SHOWN_BYTES 48

/* What was typed or pasted, cut and without what would drive a terminal. */
static const char *shown(const char *text, char to[SHOWN_BYTES])
{
	size_t n = 0;

	for (; text[n] && n < SHOWN_BYTES - 1; n++)
		to[n] = text[n];
	if (text[n])
		memcpy(to + n - 3, "...", 3);
	to[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (to[i] < 0x20 || to[i] > 0x7e)
			to[i] = '?';
	return to;
}

static int usage(void)
{
	fprintf(stderr, "Try faultctl decode --help.\n");
	return FAULTD_USAGE;
}

/* Returns -1 to go on, else the exit code. */
static int take_arch(const char *name, enum fault_arch *ret)
{
	char text[SHOWN_BYTES];

	*ret = fault_arch_by_name(name);
	if (*ret != FAULT_ARCH_UNKNOWN)
		return -1;
	fprintf(stderr, "faultctl decode: --arch '%s' is not known: allowed are " FAULT_ARCH_NAMES "\n",
		shown(name, text));
	return FAULTD_USAGE;
}

static int check_arguments(const struct arguments *a)
{
	if (a->arch == FAULT_ARCH_UNKNOWN) {
		fprintf(stderr,
			"faultctl decode: the codes of this machine are not known: --arch takes " FAULT_ARCH_NAMES
			"\n");
		return FAULTD_USAGE;
	}
	if (*a->codes)
		return -1;
	fprintf(stderr, "faultctl decode: no code is given: " NUMBER_FORMS "\n");
	return usage();
}

/* Returns -1 to go on, else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
	enum { ARCH = 256, JSON };
	static const struct option options[] = {
	    {"arch", required_argument, NULL, ARCH},
	    {"json", no_argument, NULL, JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	int option, r;

	*ret = (struct arguments){.arch = fault_arch_here()};
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case ARCH:
			r = take_arch(optarg, &ret->arch);
			if (r >= 0)
				return r;
			break;
		case JSON:
			ret->json = true;
			break;
		case 'h':
			print_help();
			return FAULTD_OK;
		default:
			return usage();
		}
	}
	ret->codes = argv + optind;
	return check_arguments(ret);
}

/* ---- numbers ---- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : 99;
}

/* Only what is said to be allowed: strtoull() takes signs, blanks and octal numbers, too. -EINVAL, -ERANGE. */
static int parse_number(const char *text, size_t len, uint64_t *ret)
{
	bool hex = len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	uint64_t base = hex ? 16 : 10, value = 0;
	int r = 0;

	if (len == 0)
		return -EINVAL;
	for (size_t i = hex ? 2 : 0; i < len; i++) {
		uint64_t digit = (uint64_t)digit_of(text[i]);

		if (digit >= base)
			return -EINVAL;
		if (value > (UINT64_MAX - digit) / base)
			r = -ERANGE;
		value = value * base + digit;
	}
	if (r == 0)
		*ret = value;
	return r;
}

static int parse_code(const struct arguments *a, const char *text, struct fault_raw *ret)
{
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	char typed[SHOWN_BYTES];
	int r;

	*ret = (struct fault_raw){.arch = a->arch, .mode = FAULT_MODE_BY_CODE, .has_more = colon};
	r = parse_number(text, len, &ret->code);
	if (r == 0 && colon)
		r = parse_number(colon + 1, strlen(colon + 1), &ret->more);
	if (r < 0) {
		fprintf(stderr, "faultctl decode: '%s' is %s: " NUMBER_FORMS "%s\n", shown(text, typed),
			r == -ERANGE ? "too large" : "no code",
			fault_arch_has_more(a->arch) ? ", or two with a colon between them" : "");
		return FAULTD_USAGE;
	}
	if (colon && !fault_arch_has_more(a->arch)) {
		fprintf(
		    stderr,
		    "faultctl decode: '%s': only codes of s390x (CODE:TEID) and powerpc (CODE:TRAP) have two parts\n",
		    shown(text, typed));
		return FAULTD_USAGE;
	}
	return -1;
}

/* ---- lines ---- */

static bool is_known(const char *word)
{
	return strcmp(word, "unknown") != 0;
}

static void add_class(struct strbuf *out, const struct fault_code *c)
{
	size_t before = out->len;

	if (is_known(c->mode))
		strbuf_adds(out, c->mode);
	if (is_known(c->access))
		strbuf_addf(out, "%s%s", out->len > before ? " " : "", c->access);
	if (is_known(c->kind))
		strbuf_addf(out, "%s%s", out->len > before ? ", " : "", c->kind);
	if (!is_known(c->access) && !is_known(c->kind))
		strbuf_addf(out, "%sno page fault", out->len > before ? ", " : "");
}

static void add_text(struct strbuf *out, const struct fault_raw *raw, const struct fault_code *c)
{
	strbuf_addf(out, "0x%" PRIx64, raw->code);
	if (raw->has_more)
		strbuf_addf(out, ":0x%" PRIx64, raw->more);
	strbuf_adds(out, "  ");
	add_class(out, c);
	strbuf_addf(out, ": %s", c->meaning);
	if (c->signal)
		strbuf_addf(out, " (%s)", c->signal);
	strbuf_addc(out, '\n');
}

/* All strings are the decoder's own and need no escapes. Numbers of 64 bits are text, since many readers of JSON take
 * less. */
static void add_json(struct strbuf *out, const struct fault_raw *raw, const struct fault_code *c)
{
	strbuf_addf(out, "{\"arch\":\"%s\",\"code\":\"0x%" PRIx64 "\"", fault_arch_name(raw->arch), raw->code);
	if (raw->has_more)
		strbuf_addf(out, ",\"%s\":\"0x%" PRIx64 "\"", raw->arch == FAULT_ARCH_S390 ? "teid" : "trap",
			    raw->more);
	strbuf_addf(out, ",\"mode\":\"%s\",\"access\":\"%s\",\"kind\":\"%s\",\"page_fault\":%s", c->mode, c->access,
		    c->kind, c->is_page_fault ? "true" : "false");
	strbuf_addf(out, ",\"details\":\"%s\",\"meaning\":\"%s\"", c->details, c->meaning);
	if (c->signal)
		strbuf_addf(out, ",\"signal\":\"%s\"", c->signal);
	strbuf_adds(out, "}\n");
}

static int print_all(const struct strbuf *out)
{
	if (strbuf_error(out)) {
		fprintf(stderr, "faultctl decode: %s\n", strerror(ENOMEM));
		return FAULTD_NO_RESOURCE;
	}
	if (fwrite(out->data, 1, out->len, stdout) == out->len && fflush(stdout) == 0)
		return FAULTD_OK;
	fprintf(stderr, "faultctl decode: cannot write: %s\n", strerror(errno));
	return FAULTD_FAILED;
}

int ctl_decode(int argc, char **argv)
{
	static char name[] = "faultctl decode";
	struct arguments arguments;
	auto_strbuf out = {0};
	int r;

	argv[0] = name; /* for the words of getopt_long() */
	r = parse_arguments(argc, argv, &arguments);
	if (r >= 0)
		return r;
	for (char **text = arguments.codes; *text; text++) {
		struct fault_raw raw;
		struct fault_code code;

		r = parse_code(&arguments, *text, &raw);
		if (r >= 0)
			return r;
		fault_code_decode(&raw, &code);
		if (arguments.json)
			add_json(&out, &raw, &code);
		else
			add_text(&out, &raw, &code);
	}
	return print_all(&out);
}
