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
#include "daemon/base/log.h"
#include "daemon/source/probe_state.h"

static int open_event(int cpu, uint32_t period)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_PAGE_FAULTS,
	    .sample_period = period,
	    .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

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

/* An event that a CPU's going offline ends stays open, and its clock stands still. -1 if it cannot be told. */
static int64_t enabled_ns(int fd)
{
	struct {
		uint64_t count, enabled_ns;
	} value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? (int64_t)value.enabled_ns : -1;
}

/* 1 with an event on the CPU, 0 if it is not online, -errno. */
static int watch_cpu(struct probe *p, uint32_t cpu)
{
	const struct bpf_program *program =
	    p->by_memory ? p->faults->progs.perf_fault_mem : p->faults->progs.perf_fault;
	auto_close int fd = open_event((int)cpu, p->perf_period);
	int r;

	if (fd < 0)
		return fd == -ENODEV ? 0 : fd;
	r = attach_program(fd, program);
	if (r < 0)
		return r;
	p->perf_events[cpu] = (struct perf_event){.fd = take_fd(&fd), .enabled_ns = -1};
	return 1;
}

int probe_perf_attach(struct probe *p, struct probe_reason *reason)
{
	unsigned watched = 0;

	p->perf_events = calloc(p->cpus, sizeof(*p->perf_events));
	if (!p->perf_events)
		return explain(-ENOMEM, reason);
	for (uint32_t cpu = 0; cpu < p->cpus; cpu++)
		p->perf_events[cpu].fd = -EBADF;
	for (uint32_t cpu = 0; cpu < p->cpus; cpu++) {
		int r = watch_cpu(p, cpu);

		if (r < 0) {
			probe_perf_detach(p);
			return explain(r, reason);
		}
		watched += (unsigned)r;
	}
	if (watched > 0)
		return 0;
	probe_perf_detach(p);
	return explain(-ENODEV, reason);
}

static bool has_ended(struct perf_event *e)
{
	int64_t before = e->enabled_ns;

	e->enabled_ns = enabled_ns(e->fd);
	return before >= 0 && e->enabled_ns <= before;
}

void probe_perf_refresh(struct probe *p)
{
	for (uint32_t cpu = 0; p->perf_events && cpu < p->cpus; cpu++) {
		struct perf_event *e = &p->perf_events[cpu];
		int r;

		if (e->fd >= 0 && !has_ended(e))
			continue;
		close_fd(e->fd);
		e->fd = -EBADF;
		r = watch_cpu(p, cpu);
		if (r == 0)
			continue;
		if (r > 0 || !e->failed) {
			p->perf_gaps++;
			if (r > 0)
				log_warning("CPU %u came online: its page faults were not counted until now", cpu);
			else
				log_warning_errno(r, "CPU %u came online, but its page faults cannot be counted: %s",
						  cpu, strerror(-r));
		}
		e->failed = r < 0;
	}
}

void probe_perf_detach(struct probe *p)
{
	for (uint32_t cpu = 0; p->perf_events && cpu < p->cpus; cpu++)
		close_fd(p->perf_events[cpu].fd);
	free(p->perf_events);
	p->perf_events = NULL;
}
