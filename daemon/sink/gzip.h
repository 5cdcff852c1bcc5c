/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One buffer in, one gzip member out (RFC 1952). The only file that sees zlib.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Compresses `n` bytes (0 is fine, then `in` may be NULL) at zlib's fastest level: our bodies are repetitive text and
 * small messages, where higher levels cost several times the CPU for a few per cent. The result does not depend on time
 * or host. The caller frees *ret. -ENOMEM, -EFBIG beyond 1 GiB; outputs are untouched on failure. */
int gzip_compress(const void *in, size_t n, uint8_t **ret, size_t *ret_n);
