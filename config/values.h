/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of single values, and the checks of texts. Private to config/. */
#pragma once

#include <stdint.h>

/* A decimal number with an optional fraction and a unit: "10s", "1.5m", "64MiB". 0, -EINVAL if it is none, -ERANGE if it is too
 * large for 64 bits. The unit must be there, except for 0. */
int value_duration(const char *text, uint64_t *ret_ns);
int value_size(const char *text, uint64_t *ret_bytes);
/* Digits only. 0, -EINVAL, -ERANGE. */
int value_uint(const char *text, uint64_t *ret);

/* NULL if the text is good, else what is wrong and what is allowed; static. */
const char *check_glob(const char *text);
const char *check_listen(const char *text);
const char *check_endpoint(const char *text);
const char *check_socket(const char *text);
const char *check_group(const char *text);
const char *check_header_name(const char *text);
const char *check_header_value(const char *text);
