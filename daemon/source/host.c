/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <systemd/sd-id128.h>

#include "daemon/base/utf8.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *otel_arch(const char *machine)
{
	static const struct {
		const char *machine, *arch;
	} names[] = {
	    {"x86_64", "amd64"},  {"aarch64", "arm64"}, {"armv7l", "arm32"},    {"i686", "x86"},
	    {"ppc64le", "ppc64"}, {"s390x", "s390x"},   {"riscv64", "riscv64"},
	};

	for (size_t i = 0; i < COUNT(names); i++)
		if (strcmp(machine, names[i].machine) == 0)
			return names[i].arch;
	return "";
}

void host_read(struct host *ret)
{
	struct utsname uts;
	sd_id128_t id;

	*ret = (struct host){.arch = ""};
	if (sd_id128_get_machine(&id) >= 0)
		sd_id128_to_string(id, ret->id);
	if (uname(&uts) < 0)
		return;
	if (utf8_valid(uts.nodename, strlen(uts.nodename)))
		snprintf(ret->name, sizeof(ret->name), "%s", uts.nodename);
	ret->arch = otel_arch(uts.machine);
}
