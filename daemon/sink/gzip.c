/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/gzip.h"

#include <zlib.h>

#include "daemon/base/cleanup.h"

/* Keeps every size below within zlib's 32-bit uInt. */
#define INPUT_MAX_BYTES ((size_t)1 << 30)

/* 15 is the largest window; 16 more asks deflate for the gzip wrapper instead of zlib's. */
#define WINDOW_BITS_GZIP (15 + 16)
#define MEMORY_LEVEL 8

static void end_deflate(z_stream **stream)
{
	if (*stream)
		(void)deflateEnd(*stream);
}

int gzip_compress(const void *in, size_t n, uint8_t **ret, size_t *ret_n)
{
	z_stream stream = {0};
	cleanup(end_deflate) z_stream *open = NULL;
	auto_free uint8_t *out = NULL;
	uint8_t *shrunk;
	size_t bound;

	if (n > INPUT_MAX_BYTES)
		return -EFBIG;
	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	open = &stream;

	bound = deflateBound(&stream, (uLong)n);
	out = malloc(bound);
	if (!out)
		return -ENOMEM;

	stream.next_in = (Bytef *)(uintptr_t)in;
	stream.avail_in = (uInt)n;
	stream.next_out = out;
	stream.avail_out = (uInt)bound;
	/* One call is enough: deflateBound() promises that the result fits. */
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		return -ENOMEM;

	shrunk = realloc(out, stream.total_out);
	if (shrunk)
		out = shrunk;
	*ret_n = stream.total_out;
	*ret = take_ptr(out);
	return 0;
}
