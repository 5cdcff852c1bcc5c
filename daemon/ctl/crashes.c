/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

int ctl_crashes(int argc, char **argv)
{
	fprintf(stderr, "faultctl crashes is not built yet\n");
	return FAULTD_NO_SUPPORT;
}
