/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client takes, by the weighted lists in its request (RFC 9110 section 12). Pure, allocates nothing, takes any
 * bytes in linear time. Here too: exposition_negotiate().
 */
#pragma once

#include <stdbool.h>

/* True if an Accept-Encoding header (NULL: none given) takes gzip at least as gladly as no compression. */
bool negotiate_gzip(const char *accept_encoding);
