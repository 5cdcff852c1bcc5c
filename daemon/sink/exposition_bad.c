/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/sink/exposition_page.h"

static const struct family bad_accesses = {
    "faultd_bad_accesses", KIND_COUNTER, "cgroup, signal, code, outcome",
    "Signals of bad memory accesses that were delivered, in the cgroup of the victim."};
static const struct family bad_rate = {"faultd_bad_access_rate", KIND_GAUGE, "cgroup, window",
				       "Bad accesses per second over a sliding window, whatever their outcome."};
static const struct family bad_latency = {
    "faultd_bad_access_latency_seconds", KIND_HISTOGRAM, "cgroup, le",
    "Time from the page fault to the delivery of its signal; only with bad_access.latency."};
const struct family *const bad_families[] = {&bad_accesses, &bad_rate, &bad_latency};
const size_t n_bad_families = ARRAY_SIZE(bad_families);

static void put_counts(const struct page *p)
{
	struct tail tails[BAD_OUTCOMES][BAD_CLASSES];

	for (uint32_t o = 0; o < BAD_OUTCOMES; o++)
		for (uint32_t class = 0; class < BAD_CLASSES; class ++) {
			struct bad_class names = bad_class_names(class);
			struct tail *t = &tails[o][class];

			page_set_tail(t, snprintf(t->text, sizeof(t->text),
						  "\",signal=\"%s\",code=\"%s\",outcome=\"%s\"} ", names.signal,
						  names.code, bad_outcome_name(o)));
		}
	page_head(p, &bad_accesses);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++)
		for (uint32_t at = 0; s->entry->bad && at < BAD_OUTCOMES * BAD_CLASSES; at++) {
			const struct tail *t = &tails[at / BAD_CLASSES][at % BAD_CLASSES];
			uint64_t count = s->entry->bad->count[at / BAD_CLASSES][at % BAD_CLASSES];

			if (count == 0)
				continue;
			page_cgroup(p, &bad_accesses, NULL, s);
			strbuf_add(p->out, t->text, t->len);
			strbuf_addu(p->out, count);
			strbuf_addc(p->out, '\n');
		}
}

static bool has_bad(const struct series *s)
{
	return s->entry->bad;
}

static double rate_of_all(const struct aggregate *a, size_t at, size_t w)
{
	return aggregate_bad_rate(a, at, BAD_HANDLED, w) + aggregate_bad_rate(a, at, BAD_FATAL, w);
}

static void put_bucket(const struct page *p, const struct series *s, uint32_t bucket, uint64_t below)
{
	page_cgroup(p, &bad_latency, "_bucket", s);
	strbuf_adds(p->out, "\",le=\"");
	if (bucket == BAD_LATENCY_BUCKETS - 1)
		strbuf_adds(p->out, "+Inf");
	else
		page_fixed(p->out, (uint64_t)BAD_LATENCY_FIRST_NS << bucket, NSEC_PER_SEC);
	strbuf_adds(p->out, "\"} ");
	strbuf_addu(p->out, below);
	strbuf_addc(p->out, '\n');
}

static void put_latencies(const struct page *p)
{
	page_head(p, &bad_latency);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++) {
		const struct bad_latencies *l = s->entry->latencies;
		uint64_t below = 0;

		if (!l)
			continue;
		for (uint32_t b = 0; b < BAD_LATENCY_BUCKETS; b++) {
			below += l->bucket[b];
			put_bucket(p, s, b, below);
		}
		page_cgroup(p, &bad_latency, "_sum", s);
		strbuf_adds(p->out, "\"} ");
		page_fixed(p->out, l->sum_ns, NSEC_PER_SEC);
		strbuf_addc(p->out, '\n');
		page_cgroup(p, &bad_latency, "_count", s);
		strbuf_adds(p->out, "\"} ");
		strbuf_addu(p->out, below);
		strbuf_addc(p->out, '\n');
	}
}

void page_bad_accesses(const struct page *p)
{
	if (!p->snapshot->bad_signals)
		return;
	put_counts(p);
	page_rates(p, &bad_rate, has_bad, rate_of_all);
	put_latencies(p);
}
