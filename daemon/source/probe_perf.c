/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/source/probe_state.h"

static int open_event(int cpu, uint32_t period)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_PAGE_FAULTS,
	    .sample_period = period,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The event's end is its descriptor's; a link would need 5.15. */
static int attach_program(int fd, const struct bpf_program *program)
{
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(program)) < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	return 0;
}

static int paranoia(void)
{
	char text[16] = "";
	auto_close int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? atoi(text) : 0;
}

static int explain(int error, struct probe_reason *reason)
{
	if (error != -EPERM && error != -EACCES)
		return probe_explain(error, "the kernel refuses the perf event page-faults", reason);
	snprintf(reason->text, sizeof(reason->text),
		 "the perf event page-faults is not permitted: kernel.perf_event_paranoid is %d; %s", paranoia(),
		 paranoia() > 2 ? "set it to 2 (sysctl) or grant CAP_SYS_ADMIN: above 2 this distribution's kernel "
				  "takes CAP_PERFMON for nothing"
				: "CAP_PERFMON is needed (or root)");
	return error;
}

int probe_perf_attach(struct probe *p, uint32_t period, struct probe_reason *reason)
{
	int r = 0;

	p->perf_fds = calloc(p->cpus, sizeof(*p->perf_fds));
	if (!p->perf_fds)
		return explain(-ENOMEM, reason);
	for (uint32_t cpu = 0; r == 0 && cpu < p->cpus; cpu++) {
		int fd = open_event((int)cpu, period);

		if (fd == -ENODEV) /* not online */
			continue;
		if (fd < 0) {
			r = fd;
			break;
		}
		p->perf_fds[p->n_perf++] = fd;
		r = attach_program(fd, p->faults->progs.perf_fault);
	}
	if (r == 0 && p->n_perf > 0)
		return 0;
	probe_perf_detach(p);
	return explain(r < 0 ? r : -ENODEV, reason);
}

void probe_perf_detach(struct probe *p)
{
	for (unsigned i = 0; i < p->n_perf; i++)
		close_fd(p->perf_fds[i]);
	free(p->perf_fds);
	p->perf_fds = NULL;
	p->n_perf = 0;
}
