/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exposition in the making: families, names, labels and numbers in the two formats. Private to the exposition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/snapshot.h"
#include "daemon/sink/exposition.h"

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_INFO, KIND_HISTOGRAM };

/* A metric family; the name is without the suffix that its kind adds to the samples. */
struct family {
	const char *name;
	enum kind kind;
	const char *labels; /* for the reference: names, separated by commas */
	const char *help;   /* holds no quote, backslash or line feed: the two formats escape them differently */
};

/* An entry that is shown. */
struct series {
	const struct cgroup_entry *entry;
	size_t at; /* in the aggregate */
	size_t label, label_len;
};

struct page {
	struct strbuf *out;
	enum exposition_format format;
	const struct snapshot *snapshot;
	struct series *series;
	size_t n_series;
	struct strbuf labels; /* the series' label cgroup, escaped once */
};

const char *page_suffix(enum kind kind);
const char *page_type_word(enum kind kind, enum exposition_format format);
/* The unit that a family's name ends in; NULL if none. */
const char *page_unit(const char *name);

/* Appends the text with the three escapes that both formats have. */
void page_escaped(struct strbuf *out, const char *text);
/* `units` in units of 1/scale, scale a power of ten. */
void page_fixed(struct strbuf *out, uint64_t units, uint64_t scale);
void page_rate(struct strbuf *out, double rate);

/* The lines before a family's samples. */
void page_head(const struct page *p, const struct family *f);
void page_name(const struct page *p, const struct family *f);
/* A sample up to and without the quote that ends the label cgroup; `suffix` is the kind's own if NULL. */
void page_cgroup(const struct page *p, const struct family *f, const char *suffix, const struct series *s);
void page_label(const struct page *p, const char *before, const char *value);

/* What many samples of a family have in common behind the cgroup. */
struct tail {
	char text[96];
	size_t len;
};

void page_set_tail(struct tail *t, int written);
/* A family of rates, one per window of each series that `shown` (NULL: all) says yes to. */
void page_rates(const struct page *p, const struct family *f, bool (*shown)(const struct series *s),
		double (*rate)(const struct aggregate *a, size_t at, size_t w));

/* ---- the families of bad accesses, exposition_bad.c ---- */

extern const struct family *const bad_families[];
extern const size_t n_bad_families;
void page_bad_accesses(const struct page *p);
