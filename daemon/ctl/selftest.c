/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

int ctl_selftest(int argc, char **argv)
{
	fprintf(stderr, "faultctl selftest is not built yet\n");
	return FAULTD_NO_SUPPORT;
}
