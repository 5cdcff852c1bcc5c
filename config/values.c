/* SPDX-License-Identifier: Apache-2.0 */
#include "config/values.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <strings.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/glob.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", UINT64_C(1000000000)},
    {"m", UINT64_C(60000000000)},
    {"h", UINT64_C(3600000000000)},
    {"d", UINT64_C(86400000000000)},
};

static const struct unit size_units[] = {
    {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", UINT64_C(1) << 40},
};

static bool grow(uint64_t *value, char digit)
{
	return !__builtin_mul_overflow(*value, 10, value) &&
	       !__builtin_add_overflow(*value, (uint64_t)(digit - '0'), value);
}

int value_uint(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	/* 010 is 8 to some readers of YAML and 10 to others. */
	if (!*text || (text[0] == '0' && text[1]))
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		if (!grow(&value, *text))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

/* Exact decimal arithmetic: "0.1s" is 100 ms to the nanosecond; what is finer than the base unit is cut. */
static int scale(uint64_t whole, const char *fraction, size_t n, uint64_t factor, uint64_t *ret)
{
	uint64_t value, part = 0, place = factor;

	if (__builtin_mul_overflow(whole, factor, &value))
		return -ERANGE;
	for (size_t i = 0; i < n && place; i++) {
		uint64_t digit = (uint64_t)(fraction[i] - '0');

		part += place / 10 * digit + place % 10 * digit / 10;
		place /= 10;
	}
	if (__builtin_add_overflow(value, part, ret))
		return -ERANGE;
	return 0;
}

static int value_with_unit(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	const char *p = text, *fraction = NULL;
	size_t fraction_len = 0;
	uint64_t whole = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		if (!grow(&whole, *p))
			return -ERANGE;
	if (*p == '.') {
		fraction = ++p;
		for (; isdigit((unsigned char)*p); p++)
			fraction_len++;
		if (!fraction_len)
			return -EINVAL;
	}
	if (!*p && whole == 0 && !fraction) {
		*ret = 0;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		if (strcmp(p, units[i].name) == 0)
			return scale(whole, fraction, fraction_len, units[i].factor, ret);
	return -EINVAL;
}

int value_duration(const char *text, uint64_t *ret_ns)
{
	return value_with_unit(text, duration_units, ARRAY_SIZE(duration_units), ret_ns);
}

int value_size(const char *text, uint64_t *ret_bytes)
{
	return value_with_unit(text, size_units, ARRAY_SIZE(size_units), ret_bytes);
}

/* ---- texts ---- */

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

const char *check_glob(const char *text)
{
	return glob_check(text);
}

static bool is_port(const char *text)
{
	uint64_t port;

	return strlen(text) <= 5 && value_uint(text, &port) == 0 && port <= 65535;
}

static bool all_in(const char *text, size_t n, const char *allowed)
{
	return strspn(text, allowed) >= n;
}

/* The `n` bytes of `text` as an address of the family, perhaps with a zone (fe80::1%eth0). */
static bool is_address(int family, const char *text, size_t n)
{
	static const char zone_allowed[] = "-._@0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *zone = family == AF_INET6 ? memchr(text, '%', n) : NULL;
	char copy[INET6_ADDRSTRLEN], bytes[16];
	size_t len = zone ? (size_t)(zone - text) : n;

	if (len >= sizeof(copy) || (zone && (zone + 1 == text + n || !all_in(zone + 1, n - len - 1, zone_allowed))))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return inet_pton(family, copy, bytes) == 1;
}

static bool is_bracketed(const char *text, size_t n)
{
	return n > 2 && text[0] == '[' && text[n - 1] == ']' && is_address(AF_INET6, text + 1, n - 2);
}

const char *check_listen(const char *text)
{
	static const char what[] = "is no address; allowed are ADDRESS:PORT, [IPV6]:PORT, unix:/PATH and systemd";
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (strcmp(text, "systemd") == 0)
		return NULL;
	if (has_control(text))
		return what;
	if (strncmp(text, "unix:", 5) == 0) {
		if (text[5] != '/' || text[strlen(text) - 1] == '/')
			return "is no address; after unix: comes the absolute path of a socket";
		return strlen(text + 5) < 108 ? NULL : "is too long; a socket's path has at most 107 bytes";
	}
	if (n == 0)
		return what;
	if (!is_port(colon + 1))
		return "has no port; after the last ':' comes a number from 0 (any free port) to 65535";
	if (text[0] == '[')
		return is_bracketed(text, n) ? NULL : what;
	return is_address(AF_INET, text, n)
		   ? NULL
		   : "is no address; allowed are numbers (127.0.0.1:11011), no names, and [IPV6]:PORT, unix:/PATH and "
		     "systemd";
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, `n` bytes of it. */
static const char *check_authority(const char *text, size_t n)
{
	static const char host_allowed[] = "-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *close = memchr(text, ']', n), *rest = close ? close + 1 : text;
	const char *colon = memchr(rest, ':', n - (size_t)(rest - text));
	size_t host = colon ? (size_t)(colon - text) : n;
	char port[6] = "";

	if (host == 0)
		return "has no host; allowed is http://HOST:PORT or https://HOST:PORT, with a path if need be";
	if (close ? !is_bracketed(text, host) : !all_in(text, host, host_allowed))
		return "has no host that can be looked up; allowed are names, numbers and [IPV6]";
	if (colon && n - host - 1 < sizeof(port))
		memcpy(port, colon + 1, n - host - 1);
	if (colon && (!is_port(port) || strcmp(port, "0") == 0))
		return "has no port behind the host's ':'; allowed is a number from 1 to 65535";
	return NULL;
}

const char *check_socket(const char *text)
{
	size_t n = strlen(text);

	if (n == 0)
		return NULL;
	if (text[0] != '/' || text[n - 1] == '/' || has_control(text))
		return "is no path of a socket; allowed is an absolute path, or \"\" for none";
	return n < sizeof(((struct sockaddr_un *)NULL)->sun_path) ? NULL : "is too long; allowed are at most 107 bytes";
}

const char *check_group(const char *text)
{
	if (has_control(text) || strpbrk(text, ":/ "))
		return "is no name of a group; allowed is a name, or \"\" for the daemon's own";
	return NULL;
}

/* Nothing passes that the shipper would not take at start (ship_url()). */
const char *check_endpoint(const char *text)
{
	const char *host;

	if (!*text)
		return NULL;
	if (strncasecmp(text, "http://", 7) != 0 && strncasecmp(text, "https://", 8) != 0)
		return "is no URL that can be shipped to; it begins with http:// or https://";
	host = strchr(text, ':') + 3;
	if (memchr(host, '@', strcspn(host, "/?#")))
		return "carries a user or password; put credentials in ship.headers";
	if (strpbrk(host, "?#"))
		return "has a query or fragment; allowed is a scheme, a host, a port and a path";
	for (const char *c = host; *c; c++)
		if (*c <= ' ' || *c > '~' || strchr("\\\"<>^`{|}", *c))
			return "is no URL; blanks, control characters, \\\"<>^`{|} and what is not ASCII are allowed "
			       "as %XX "
			       "in the path only";
	return check_authority(host, strcspn(host, "/"));
}

const char *check_header_name(const char *text)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char *const ours[] = {"content-type", "content-encoding",  "content-length",
					   "host",         "transfer-encoding", "connection"};

	if (!*text || !all_in(text, strlen(text), token))
		return "is no header name; allowed are letters, digits and !#$%&'*+-.^_`|~";
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strcasecmp(text, ours[i]) == 0)
			return "is set by faultd itself; allowed are other headers";
	return NULL;
}

const char *check_header_value(const char *text)
{
	return has_control(text) ? "has control characters; a header's value is one line of text" : NULL;
}
