/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as text for Prometheus: text format 0.0.4 or OpenMetrics 1.0.0. Pure: bytes from data, no I/O.
 */
#pragma once

#include <stddef.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/snapshot.h"

enum exposition_format { EXPOSITION_TEXT, EXPOSITION_OPENMETRICS };

/* The format that the client's Accept header prefers (NULL: none given); quality values are honoured, ties go to OpenMetrics,
 * anything not understood to EXPOSITION_TEXT. */
enum exposition_format exposition_negotiate(const char *accept);
/* The full Content-Type of a format, static. */
const char *exposition_content_type(enum exposition_format format);
/* Appends the whole exposition; failure shows in strbuf_error(). */
void exposition_render(const struct snapshot *s, enum exposition_format format, struct strbuf *out);
/* Appends the list of all metrics (name, type, labels, meaning) in Markdown: docs/metrics.md. */
void exposition_reference(struct strbuf *out);
