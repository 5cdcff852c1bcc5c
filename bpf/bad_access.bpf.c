/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts bad accesses per cgroup, class and outcome, and records the fatal ones.
 *
 * They are counted at signal_deliver: there the victim is the current task whoever sent the signal, two threads that fault together
 * are one, and the handler tells the outcome. signal_generate only takes notes of what delivery cannot see any more: who sent the
 * signal. `info` of both tracepoints is NULL, 1 or a pointer, and newer verifiers take it for a number: it is compared, then
 * probe-read.
 *
 * A delivery to a handler can turn out to be the beginning of the end: the handler's frame does not fit on the stack, so the kernel
 * sends another signal before one instruction ran; or the handler puts the default action back and raises the signal again, by call
 * or by returning to the faulting instruction. Such pairs are one fatal access of the first one's class, see begun_by().
 */
#include "bpf/bad_access_class.h"
#include "bpf/crash_record.bpf.h"
#include "bpf/signal_info.bpf.h"
#include "bpf/slot_claim.bpf.h"

/* Set by the daemon before load. */
const volatile __u32 signals = 0;             /* bits of enum bad_signal that count */
const volatile bool with_latency = false;     /* the programs that measure are attached, too */
const volatile bool memory_hierarchy = false; /* which id of the cgroup: see current_cgroup_id() */

#define SIG_DFL ((void *)0)
#define SIG_IGN ((void *)1)
/* SIGNAL_UNKILLABLE in signal_struct.flags: the init of a pid namespace, whom the default action does not end. */
#define UNKILLABLE 0x40

/* A delivery to a handler. */
struct handled {
	__u32 bit; /* of its signal; 0: there was none */
	__u32 class;
	__s32 code;
	__u32 flags;
	__u64 cgroup_id, ip, sp;
	__u64 address, trap, error_code;
};

/* What is remembered of a thread. The pending bits say where a signal comes from that waits in the thread's own queue, or, in
 * the note of the group's leader, in the group's queue; of a signal at most one waits in each. */
struct note {
	__u32 sent;            /* own queue: sent by a process, whatever its code claims */
	__u32 faulted;         /* own queue: by the kernel, while the group's queue holds one that was sent */
	__u32 group_sent;      /* group's queue: sent by a process */
	__u32 sender;          /* tgid of who sent last; 0: not known */
	struct handled raised; /* the delivery whose handler sent the last one */
	struct handled last;   /* of this thread */
	__u64 fault_ns;        /* when the fault happened whose signal waits; 0: not known */
	__u32 crashed;         /* this thread's delivery ended its process: CRASHED... */
	__u32 ended;           /* leader: the process is ending of a delivery that was counted, as follows */
	__u32 ended_class;
	__u32 pad;
	__u64 ended_cgroup;
};

#define CRASHED 1
#define CRASHED_WITHOUT_FRAMES 2

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct note);
} notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bad_cell);
} bad_cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bad_touched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bad_latency);
} bad_latency SEC(".maps");

/* The page fault that this CPU took last. */
struct fault_stamp {
	__u64 ns;
	__u32 tid; /* 0: its signal was made */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fault_stamp);
} fault_stamps SEC(".maps");

static __always_inline struct note *note_of(struct task_struct *task)
{
	return bpf_task_storage_get(&notes, task, 0, 0);
}

/* That of the process' first thread, which may be the thread itself. */
static __always_inline struct note *note_of_leader(struct task_struct *task, struct note *own)
{
	return task->group_leader == task ? own : note_of(task->group_leader);
}

static __always_inline struct note *make_note(struct task_struct *task)
{
	struct note *note = bpf_task_storage_get(&notes, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!note)
		drop_count(FAULT_DROP_BAD_NOTE);
	return note;
}

/* ---- counting ---- */

static __always_inline void count_in(__u32 slot, __u32 outcome, __u32 class, __s64 n)
{
	struct bad_cell *cell = bpf_map_lookup_elem(&bad_cells, &slot);
	__u32 word = slot / 64;
	__u64 *touched = bpf_map_lookup_elem(&bad_touched, &word);

	if (!cell || !touched || outcome >= BAD_OUTCOMES || class >= BAD_CLASSES_MAX) {
		drop_count(FAULT_DROP_BAD_UNCOUNTED);
		return;
	}
	__sync_fetch_and_add(&cell->count[outcome][class], n);
	__sync_fetch_and_or(touched, 1ull << (slot % 64));
}

static __always_inline void count(__u64 cgroup_id, __u32 outcome, __u32 class)
{
	bool retry = false;

	count_in(slot_of(cgroup_id, &retry), outcome, class, 1);
}

static __always_inline void count_latency(__u32 slot, __u64 ns)
{
	struct bad_latency *latency = bpf_map_lookup_elem(&bad_latency, &slot);
	__u32 b = 0;

	if (!latency)
		return;
	for (int i = 0; i < BAD_LATENCY_BUCKETS - 1; i++)
		b += ns >= ((__u64)BAD_LATENCY_FIRST_NS << i);
	__sync_fetch_and_add(&latency->bucket[b & (BAD_LATENCY_BUCKETS - 1)], 1);
	__sync_fetch_and_add(&latency->sum_ns, ns);
}

/* Only if its cgroup still has the slot, or is folded: what died meanwhile took its counts along. */
static __always_inline void take_back(__u64 cgroup_id, __u32 outcome, __u32 class)
{
	__u32 *slot = bpf_map_lookup_elem(&slot_by_cgroup, &cgroup_id);

	if (slot)
		count_in(*slot, outcome, class, -1);
}

/* Before the count: its bit in bad_touched is set last. */
static __always_inline void measure(struct note *own, __u64 cgroup_id)
{
	__u64 since = own ? own->fault_ns : 0;
	bool retry = false;

	if (!since)
		return;
	own->fault_ns = 0;
	count_latency(slot_of(cgroup_id, &retry), bpf_ktime_get_ns() - since);
}

/* ---- where signals come from ---- */

/* Between the fault and its signal the thread may have moved to another CPU: then nothing is known, and that is counted. */
static __always_inline void note_time(struct task_struct *task)
{
	__u32 zero = 0;
	struct fault_stamp *stamp = bpf_map_lookup_elem(&fault_stamps, &zero);
	struct fault_code fault = last_fault_code();
	struct note *own;

	if (!fault_is_page_fault(&fault))
		return;
	if (!stamp || stamp->tid != (__u32)task->pid) {
		drop_count(FAULT_DROP_BAD_LATENCY);
		return;
	}
	own = make_note(task);
	if (own)
		own->fault_ns = stamp->ns;
	stamp->tid = 0;
}

/* A signal that the kernel made for a fault of the thread. That it was queued proves that none like it waited in the thread's own
 * queue. It needs a note only where it could be taken for one in the group's. */
static __always_inline void note_fault(struct task_struct *task, __u32 bit)
{
	struct note *own = note_of(task);
	struct note *leader = note_of_leader(task, own);

	if (own)
		own->sent &= ~bit;
	if (!leader || !(leader->group_sent & bit))
		return;
	own = make_note(task);
	if (own)
		own->faulted |= bit;
}

/* How far below the interrupted place a handler may have got to when it raises its signal again. */
#define HANDLER_STACK (128 * 1024)

static __always_inline bool in_handler_of(const struct handled *last, struct task_struct *task)
{
	__u64 sp = user_place().sp;

	if (task->sas_ss_size && sp - task->sas_ss_sp <= task->sas_ss_size)
		return true;
	return last->sp - sp <= HANDLER_STACK;
}

/* `by_call`: the current task asked for it, and not a timer or a device that interrupted it. */
static __always_inline void note_sender(struct task_struct *task, __u32 bit, bool group, bool by_call)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task_btf();
	struct note *note = make_note(group ? task->group_leader : task), *own = note_of(current);

	if (!note)
		return;
	note->sender = by_call ? current->tgid : 0;
	note->raised.bit = 0;
	if (by_call && own && own->last.bit == bit && current->tgid == task->tgid && in_handler_of(&own->last, current))
		note->raised = own->last;
	if (group)
		note->group_sent |= bit;
	else
		note->sent |= bit;
}

/* SI_USER, SI_QUEUE and SI_TKILL; what else is not positive comes of timers, devices and messages. */
static __always_inline bool is_of_a_call(int code)
{
	return code == 0 || code == -1 || code == -6;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(bad_generated, int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
{
	__u32 signal = bad_signal_of(sig), bit = 1u << signal;
	bool forged;
	int code;

	/* Results other than 0 (delivered) and 4 (delivered without info): it was ignored, or one like it waits already. */
	if (!(signals & bit) || (result != 0 && result != 4))
		return 0;
	code = signal_code(info);
	forged = code > 0 && in_sigqueue_call(sig);
	/* A fault's signal goes to the thread. What the kernel sends to groups with a code of its own is a child's exit, by a signal that
	 * its parent chose. */
	if (code <= 0 || forged || (group && code != BAD_SI_KERNEL)) {
		note_sender(task, bit, group, forged || is_of_a_call(code));
	} else if (!group) {
		note_fault(task, bit);
		/* SI_KERNEL: no page fault, or one that was measured and whose handler could not be entered. */
		if (with_latency && code != BAD_SI_KERNEL && task == (struct task_struct *)bpf_get_current_task_btf())
			note_time(task);
	}
	return 0;
}

/* The note that tells who sent the signal, NULL if none does. The thread's own queue is served before the group's. Takes the mark
 * away. */
static __always_inline struct note *note_of_sender(struct note *own, struct note *leader, __u32 bit)
{
	if (own && own->sent & bit) {
		own->sent &= ~bit;
		return own;
	}
	if (own && own->faulted & bit) {
		own->faulted &= ~bit;
		return NULL;
	}
	if (leader && leader->group_sent & bit) {
		leader->group_sent &= ~bit;
		return leader;
	}
	return NULL;
}

/* ---- delivery ---- */

struct delivery {
	struct kernel_siginfo *info;
	__s32 sig, code;
	__u32 bit, class, flags, sender;
	bool sent;
	__u64 cgroup_id, address;
	struct user_place at;
	struct fault_code fault;
};

/* The process aborts itself with a signal that it sends. */
static __always_inline __u32 class_of(__u32 signal, const struct delivery *d, __u32 tgid)
{
	if (signal == BAD_ABRT && d->sent && d->sender == tgid)
		return BAD_BASE_ABRT + 1;
	return bad_class(signal, d->code, d->sent);
}

/* The handled delivery that this fatal one is the end of; NULL if it is one of its own. */
static __always_inline const struct handled *begun_by(const struct note *own, const struct note *sender,
						      const struct delivery *d)
{
	if (d->sent)
		return sender && sender->raised.bit == d->bit ? &sender->raised : NULL;
	/* Not one instruction after it, or the same one again. */
	if (!own || !own->last.bit || d->at.ip != own->last.ip || d->at.sp != own->last.sp)
		return NULL;
	if (d->code == BAD_SI_KERNEL && d->bit == 1u << BAD_SEGV)
		return &own->last;
	return d->bit == own->last.bit && d->address == own->last.address ? &own->last : NULL;
}

static __always_inline void remember(struct handled *last, const struct delivery *d)
{
	last->bit = d->bit;
	last->class = d->class;
	last->code = d->code;
	last->flags = d->flags;
	last->cgroup_id = d->cgroup_id;
	last->ip = d->at.ip;
	last->sp = d->at.sp;
	last->address = d->address;
	last->trap = d->fault.trap;
	last->error_code = d->fault.code;
}

/* What the record tells is the first one of a pair. */
static __always_inline void become(struct delivery *d, const struct handled *first)
{
	d->class = first->class;
	d->code = first->code;
	d->flags = first->flags | CRASH_COLLAPSED;
	d->at.ip = first->ip;
	d->at.sp = first->sp;
	d->address = first->address;
	d->fault.trap = first->trap;
	d->fault.code = first->error_code;
}

/* False if the frames should be looked for again. */
static __noinline bool record(void *ctx, struct delivery *d)
{
	struct crash_event *e;
	bool found;

	e = bpf_ringbuf_reserve(&crash_ring, sizeof(*e), 0);
	if (!e) {
		drop_count(FAULT_DROP_CRASH_RING);
		return true;
	}
	e->head.type = CRASH_DELIVERED;
	e->head.pad = 0;
	e->pad = 0;
	e->time_ns = bpf_ktime_get_ns();
	e->cgroup_id = d->cgroup_id;
	e->class = d->class;
	e->signal = d->sig;
	e->code = d->code;
	e->flags = d->flags;
	e->sender_tgid = d->sender;
	e->address = d->address;
	e->ip = d->at.ip;
	e->sp = d->at.sp;
	e->trap = d->fault.trap;
	e->error_code = d->fault.code;
	read_process(e);
	read_exe(e);
	if (bpf_probe_read_user(e->instruction, sizeof(e->instruction), (void *)d->at.ip) == 0)
		e->flags |= CRASH_HAS_INSTRUCTION;
	found = read_frames(ctx, e->frames, &e->n_frames);
	bpf_ringbuf_submit(e, 0);
	return found;
}

static __always_inline void read_fault(struct delivery *d)
{
	struct kernel_siginfo *info = d->info;

	/* si_addr means something only for these codes. */
	if (d->sent || d->code <= 0 || d->code >= BAD_SI_KERNEL)
		d->address = 0;
	else {
		d->address = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
		d->flags |= CRASH_HAS_ADDRESS;
	}
	/* A page fault always has a code: with SI_KERNEL what is there is of an older one. */
	if (!d->sent && in_exception()) {
		d->fault = last_fault_code();
		if (d->fault.known && !(d->code == BAD_SI_KERNEL && fault_is_page_fault(&d->fault)))
			d->flags |= CRASH_HAS_ERROR_CODE;
	}
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(bad_delivered, int sig, struct kernel_siginfo *info, struct k_sigaction *action)
{
	__u32 signal = bad_signal_of(sig);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct delivery d = {.info = info, .sig = sig, .bit = 1u << signal};
	struct note *own, *leader, *sender;
	const struct handled *first;
	void *handler;
	bool found;

	if (!(signals & d.bit))
		return 0;
	own = note_of(task);
	leader = note_of_leader(task, own);
	d.code = signal_code(info);
	sender = note_of_sender(own, leader, d.bit);
	d.sent = sender || d.code <= 0;
	d.sender = sender ? sender->sender : 0;
	handler = action->sa.sa_handler;
	if (handler == SIG_IGN || (handler == SIG_DFL && task->signal->flags & UNKILLABLE))
		return 0; /* nothing comes of it */
	d.class = class_of(signal, &d, task->tgid);
	d.cgroup_id = current_cgroup_id(memory_hierarchy);
	d.at = user_place();
	read_fault(&d);
	if (with_latency)
		measure(own, d.cgroup_id);
	if (handler != SIG_DFL) {
		count(d.cgroup_id, BAD_HANDLED, d.class);
		if (!own)
			own = make_note(task);
		if (own)
			remember(&own->last, &d);
		return 0;
	}
	if (!leader)
		leader = make_note(task->group_leader);
	if (leader) {
		/* Another thread was first: its end is not set in motion before it has left the lock that both deliver under. */
		if (leader->ended)
			return 0;
		leader->ended = 1;
	}
	/* The note of a leader's own delivery may have been made just now. */
	if (!own)
		own = note_of(task);
	first = begun_by(own, sender, &d);
	if (first) {
		take_back(first->cgroup_id, BAD_HANDLED, first->class);
		become(&d, first);
	}
	if (leader) {
		leader->ended_class = d.class;
		leader->ended_cgroup = d.cgroup_id;
	}
	count(d.cgroup_id, BAD_FATAL, d.class);
	found = record(ctx, &d);
	if (!own)
		own = make_note(task);
	if (own)
		own->crashed = found ? CRASHED : CRASHED_WITHOUT_FRAMES;
	return 0;
}

/* ---- the beginning and the end ---- */

SEC("tp_btf/page_fault_user")
int BPF_PROG(bad_faulted, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	__u32 zero = 0;
	struct fault_stamp *stamp = bpf_map_lookup_elem(&fault_stamps, &zero);

	if (stamp) {
		stamp->tid = (__u32)bpf_get_current_pid_tgid();
		stamp->ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* What the old program handled is over. And a thread that crashed while the process was already becoming another program takes only
 * itself along: that crash ended nobody. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(bad_execed, struct task_struct *task)
{
	struct note *own = note_of((struct task_struct *)bpf_get_current_task_btf());

	if (!own)
		return 0;
	if (own->ended)
		take_back(own->ended_cgroup, BAD_FATAL, own->ended_class);
	own->ended = 0;
	own->crashed = 0;
	own->last.bit = 0;
	own->raised.bit = 0;
	return 0;
}

/* By now interrupts are on, and the mappings are still there. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(bad_exited, struct task_struct *task)
{
	struct note *note = note_of((struct task_struct *)bpf_get_current_task_btf());
	struct crash_exit_event *e;

	if (!note || !note->crashed)
		return 0;
	e = bpf_ringbuf_reserve(&crash_ring, sizeof(*e), 0);
	if (!e) {
		drop_count(FAULT_DROP_CRASH_RING);
		return 0;
	}
	e->head.type = CRASH_EXITED;
	e->head.tgid = task->tgid;
	e->head.tid = task->pid;
	e->head.pad = 0;
	e->core_written = (task->signal->group_exit_code & 0x80) != 0;
	e->n_frames = 0;
	e->code_begin = BPF_CORE_READ(task, mm, start_code);
	e->code_end = BPF_CORE_READ(task, mm, end_code);
	if (note->crashed == CRASHED_WITHOUT_FRAMES)
		read_frames(ctx, e->frames, &e->n_frames);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
