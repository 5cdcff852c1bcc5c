/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"

/* True for well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). */
bool utf8_valid(const char *bytes, size_t len);
/* Appends the bytes, each maximal ill-formed part replaced by one U+FFFD. */
void utf8_append(struct strbuf *out, const char *bytes, size_t len);
/* Looks at the first character of `len` > 0 bytes. True if it is well formed: *ret_char is its code point, *ret_len its
 * length. Otherwise *ret_len is the length of the maximal ill-formed part, at least 1, and *ret_char is U+FFFD. */
bool utf8_next(const char *bytes, size_t len, size_t *ret_len, uint32_t *ret_char);
/* Characters that steer a terminal, turn the direction of writing, end a line for somebody, or are not to be seen. Names of other
 * people's making are not shown with these in them. */
bool utf8_is_harmful(uint32_t c);
