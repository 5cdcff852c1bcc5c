/* SPDX-License-Identifier: Apache-2.0 */
/* Who this host is, for what leaves it. */
#pragma once

struct host {
	char id[33];      /* machine id, 32 hex digits; "" if the machine has none */
	char name[65];    /* host name */
	const char *arch; /* as OpenTelemetry names it: amd64, arm64, ... */
};

void host_read(struct host *ret);
