/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

int ctl_trace(int argc, char **argv)
{
	fprintf(stderr, "faultctl trace is not built yet\n");
	return FAULTD_NO_SUPPORT;
}
