/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

int ctl_ask(const char *socket, const char *request, FILE **ret)
{
	fprintf(stderr, "%s: not built yet\n", socket);
	return FAULTD_NO_SUPPORT;
}

int ctl_argument(char *request, size_t size, const char *key, const char *value)
{
	return -1;
}
