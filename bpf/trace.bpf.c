/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Page faults and bad accesses as records, one each, for `faultctl trace`: filtered, then limited per CPU, so that a
 * storm costs a comparison and a clock reading per fault and no more. What the limit leaves out and what the ring has
 * no room for is counted.
 *
 * No program here reads user memory: such a read could fault and be seen by itself.
 */
#include "bpf/bad_access_class.h"
#include "bpf/fault_class.h"
#include "bpf/trace_abi.h"
#include "bpf/signal_info.bpf.h"
#include "bpf/user_regs.bpf.h"

/* Set before load. */
const volatile __u32 only_tgid = 0; /* 0: any */
const volatile __u32 not_tgid = 0;  /* the tracer: its own faults would feed themselves */
const volatile bool by_comm = false, by_cgroup = false;
const volatile __u64 only_comm[TRACE_COMM_BYTES / 8] = {0};
/* Between two records of a CPU and kind on average, and how much of that may be saved up. */
const volatile __u64 period_ns = 1, burst_ns = 1;
/* Look the mapping of user ips up (bpf_find_vma, Linux 5.17). */
const volatile bool with_map = false;
const volatile __u32 page_shift = 12;
/* Of do_mem_abort: which page faults are asked for. */
const volatile bool abort_user = false, abort_kernel = false;

#define SIG_DFL ((void *)0)
#define SIG_IGN ((void *)1)
/* SIGNAL_UNKILLABLE in signal_struct.flags: the init of a pid namespace, whom the default action does not end. */
#define UNKILLABLE 0x40
#define X86_TRAP_PF 14

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} trace_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_cpu);
} trace_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TRACE_CGROUPS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} trace_cgroups SEC(".maps");

/* ---- filters ---- */

struct subject {
	__u32 tgid, tid, flags;
	__u64 cgroup_id;
	__u64 comm[TRACE_COMM_BYTES / 8];
};

static __always_inline bool wanted_cgroup(struct subject *s)
{
	__u8 *verdict;

	if (!by_cgroup)
		return true;
	verdict = bpf_map_lookup_elem(&trace_cgroups, &s->cgroup_id);
	if (!verdict)
		s->flags |= TRACE_CHECK_CGROUP;
	return !verdict || *verdict;
}

static __always_inline bool wanted(struct subject *s)
{
	__u64 both = bpf_get_current_pid_tgid();

	s->tgid = both >> 32;
	s->tid = (__u32)both;
	if (s->tgid == not_tgid || (only_tgid && s->tgid != only_tgid))
		return false;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	if (by_comm && (s->comm[0] != only_comm[0] || s->comm[1] != only_comm[1]))
		return false;
	s->cgroup_id = bpf_get_current_cgroup_id();
	return wanted_cgroup(s);
}

/* ---- limit ---- */

static __always_inline struct trace_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&trace_cpus, &zero);
}

/* Whether the limit would let one more through. */
static __always_inline bool has_allowance(const struct trace_cpu *cpu, __u32 lane, __u64 now_ns)
{
	__u64 next = cpu->next_ns[lane];

	return (next < now_ns ? now_ns : next) + period_ns <= now_ns + burst_ns;
}

/* A bucket of tokens in one word: next_ns runs ahead of the clock by what was spent and has not come back yet. */
static __always_inline bool within_limit(struct trace_cpu *cpu, __u32 lane, __u64 now_ns)
{
	if (!has_allowance(cpu, lane, now_ns)) {
		__sync_fetch_and_add(&cpu->left_out[lane], 1);
		return false;
	}
	if (cpu->next_ns[lane] < now_ns)
		cpu->next_ns[lane] = now_ns;
	cpu->next_ns[lane] += period_ns;
	return true;
}

static __always_inline __u32 lane_of(__u32 type, const struct subject *s)
{
	return TRACE_LANE(type, s->flags & TRACE_CHECK_CGROUP);
}

static __always_inline struct trace_record *begin(__u32 type, const struct subject *s)
{
	__u32 lane = lane_of(type, s);
	struct trace_cpu *cpu = this_cpu();
	__u64 now_ns = bpf_ktime_get_ns();
	struct trace_record *r;

	if (!cpu || !within_limit(cpu, lane, now_ns))
		return 0;
	r = bpf_ringbuf_reserve(&trace_ring, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&cpu->lost[lane], 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->type = type;
	r->flags = s->flags;
	r->time_ns = now_ns;
	r->cgroup_id = s->cgroup_id;
	r->tgid = s->tgid;
	r->tid = s->tid;
	r->cpu = bpf_get_smp_processor_id();
	__builtin_memcpy(r->comm, s->comm, sizeof(r->comm));
	return r;
}

/* ---- where the instruction is ---- */

enum bpf_func_id___with { BPF_FUNC_find_vma___with = 1 };

struct found_map {
	__u64 ip, offset;
	char name[TRACE_MODULE_BYTES];
};

/* Of signals between their making and their delivery, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct found_map);
} trace_maps SEC(".maps");

static long note_map(struct task_struct *task, struct vm_area_struct *vma, struct found_map *found)
{
	struct file *file = vma->vm_file;

	found->offset = found->ip - vma->vm_start + ((__u64)vma->vm_pgoff << page_shift);
	if (file)
		bpf_probe_read_kernel_str(found->name, sizeof(found->name), file->f_path.dentry->d_name.name);
	return 0;
}

/* The process may be gone when the reader looks, the one that crashed above all. Does not wait: if somebody changes the
 * mappings just now they stay unknown. */
static __always_inline bool find_map(struct found_map *found)
{
	if (!with_map || !bpf_core_enum_value_exists(enum bpf_func_id___with, BPF_FUNC_find_vma___with))
		return false;
	return bpf_find_vma(bpf_get_current_task_btf(), found->ip, note_map, found, 0) == 0;
}

static __always_inline void set_map(struct trace_record *r, const struct found_map *found)
{
	r->flags |= TRACE_HAS_MAP;
	r->module_offset = found->offset;
	__builtin_memcpy(r->module, found->name, sizeof(r->module));
}

/* ---- page faults ---- */

static __always_inline int fault(__u32 mode, __u64 address, struct pt_regs *regs, __u64 error_code)
{
	struct subject s = {0};
	struct trace_record *r;

	if (!wanted(&s))
		return 0;
	r = begin(TRACE_FAULT, &s);
	if (!r)
		return 0;
	r->flags |= TRACE_HAS_ADDRESS | TRACE_HAS_ERROR_CODE;
	r->mode = mode;
	r->address = address;
	r->ip = ip_of(regs);
	r->error_code = error_code;
	if (mode == FAULT_USER) {
		struct found_map found = {.ip = r->ip};

		if (find_map(&found))
			set_map(r, &found);
	}
	bpf_ringbuf_submit(r, 0);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(trace_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return fault(FAULT_USER, address, regs, error_code);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(trace_kernel, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return fault(FAULT_KERNEL, address, regs, error_code);
}

/* Where arm64 has no tracepoints. All kernels that can hang a program here have the whole register as the second argument. */
SEC("fentry/do_mem_abort")
int BPF_PROG(trace_abort, unsigned long far, unsigned long esr, struct pt_regs *regs)
{
	bool user = fault_is_arm64_user(esr);

	if (!fault_is_arm64_page_fault(esr) || !(user ? abort_user : abort_kernel))
		return 0;
	return fault(user ? FAULT_USER : FAULT_KERNEL, far, regs, esr);
}

/* ---- bad accesses ---- */

static const __u32 signals = 1u << BAD_SEGV | 1u << BAD_BUS | 1u << BAD_ILL | 1u << BAD_FPE;

/* The code that the signal's fault left behind, if it was one of a memory access. */
static __always_inline void read_error_code(struct trace_record *r, __u32 signal)
{
	struct fault_code f = last_fault_code();

	if (signal != BAD_SEGV && signal != BAD_BUS)
		return;
#if defined(__TARGET_ARCH_x86)
	if (f.trap != X86_TRAP_PF)
		return;
#endif
	if (!f.known)
		return;
	r->flags |= TRACE_HAS_ERROR_CODE;
	r->error_code = f.code;
}

/* Nothing comes of a signal that is ignored, and of one whose default action the init of a namespace is spared. */
static __always_inline bool has_effect(const void *handler)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return handler != SIG_IGN && !(handler == SIG_DFL && task->signal->flags & UNKILLABLE);
}

/* The mapping is looked up when the signal is made, not when it is delivered: the kernel lends the means (to release
 * the lock of the mappings with interrupts off) to one program at a time, until interrupts are on again, and at the
 * delivery the daemon needs them for the stack of a crash. */
SEC("tp_btf/signal_generate")
int BPF_PROG(trace_made, int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
{
	struct found_map found = {0};
	struct trace_cpu *cpu = this_cpu();
	struct subject s = {0};

	/* Results other than 0 (delivered) and 4 (delivered without info): it was ignored, or one like it waits. */
	if (!(signals & 1u << bad_signal_of(sig)) || (result != 0 && result != 4) || !wanted(&s))
		return 0;
	if ((__u32)task->pid != s.tid || !cpu || !has_allowance(cpu, lane_of(TRACE_BAD, &s), bpf_ktime_get_ns()))
		return 0;
	found.ip = user_place().ip;
	if (find_map(&found))
		bpf_map_update_elem(&trace_maps, &s.tid, &found, BPF_ANY);
	return 0;
}

static __always_inline void take_map(struct trace_record *r)
{
	/* Before 6.2 a key may not lie in the ring's memory. */
	__u32 tid = r->tid;
	struct found_map *found = bpf_map_lookup_elem(&trace_maps, &tid);

	if (!found)
		return;
	if (found->ip == r->ip)
		set_map(r, found);
	bpf_map_delete_elem(&trace_maps, &tid);
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(trace_bad, int sig, struct kernel_siginfo *info, struct k_sigaction *action)
{
	__u32 signal = bad_signal_of(sig);
	void *handler = action->sa.sa_handler;
	struct subject s = {0};
	struct trace_record *r;
	bool sent;
	int code;

	if (!(signals & 1u << signal) || !has_effect(handler) || !wanted(&s))
		return 0;
	r = begin(TRACE_BAD, &s);
	if (!r)
		return 0;
	code = signal_code(info);
	sent = code <= 0 || in_sigqueue_call(sig);
	r->mode = FAULT_USER;
	r->class = bad_class(signal, code, sent);
	r->outcome = handler == SIG_DFL ? BAD_FATAL : BAD_HANDLED;
	r->ip = user_place().ip;
	/* si_addr means something only for these codes, and so does what is left of the fault. */
	if (!sent && code < BAD_SI_KERNEL) {
		r->flags |= TRACE_HAS_ADDRESS;
		r->address = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
		read_error_code(r, signal);
	}
	take_map(r);
	bpf_ringbuf_submit(r, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
