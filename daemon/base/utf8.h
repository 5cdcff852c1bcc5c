/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/strbuf.h"

/* True for well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). */
bool utf8_valid(const char *bytes, size_t len);
/* Appends the bytes, each maximal ill-formed part replaced by one U+FFFD. */
void utf8_append(struct strbuf *out, const char *bytes, size_t len);
