/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_child.h"

#if defined(__x86_64__) || defined(__i386__)
#define X86 1
#else
#define X86 0
#endif

/* ---- addresses ---- */

void body_misaligned(struct witness *w)
{
#if defined(__x86_64__)
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);

	/* With EFLAGS.AC set. The red zone below the stack pointer belongs to the function around. The signal has no address. */
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\t"
			 "movl (%0), %%eax\n\t"
			 "pushfq\n\tandl $~0x40000, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
			 :
			 : "r"(p + 1)
			 : "eax", "memory", "cc");
#elif defined(__i386__)
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);

	__asm__ volatile("pushfl\n\torl $0x40000, (%%esp)\n\tpopfl\n\tmovl (%0), %%eax\n\t"
			 "pushfl\n\tandl $~0x40000, (%%esp)\n\tpopfl"
			 :
			 : "r"(p + 1)
			 : "eax", "memory", "cc");
#elif defined(__aarch64__)
	/* Exclusive accesses must be aligned; with FEAT_LSE2 only those that cross 16 bytes. */
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE) + 15;
	uint64_t value;

	witness_expect(w, p);
	__asm__ volatile("ldaxr %0, [%1]\n\tclrex" : "=r"(value) : "r"(p) : "memory");
	(void)value;
#else
	witness_skip(w, "no instruction of this architecture is known here that must be aligned");
#endif
}

void body_non_canonical(struct witness *w)
{
#if defined(__x86_64__)
	/* A general protection fault, which has no address. */
	touch_read((const void *)0x8000000000000000);
#elif defined(__aarch64__)
	/* Bit 55 chooses the user's half, the top byte may be a tag; what is between is beyond any size of addresses. */
	witness_expect(w, (const void *)0x0070000000000000);
	touch_read((const void *)0x0070000000000000);
#else
	witness_skip(w, "not known for this architecture");
#endif
}

void body_non_canonical_stack(struct witness *w)
{
#if defined(__x86_64__)
	unsigned long saved;

	/* Addresses in rbp are of the stack segment: another exception. */
	__asm__ volatile("movq %%rbp, %0\n\tmovq %1, %%rbp\n\tmovb (%%rbp), %%al\n\tmovq %0, %%rbp"
			 : "=&r"(saved)
			 : "r"(0x8000000000000000)
			 : "rax", "memory");
#else
	witness_skip(w, "stack segments are of x86_64");
#endif
}

void body_kernel_address(struct witness *w)
{
#if defined(__x86_64__)
	const void *p = (const void *)0xffffffff81000000; /* the kernel's text, if it is not randomized */
#else
	const void *p = (const void *)-(uintptr_t)page_bytes();
#endif

#if !X86
	witness_expect(w, p);
#endif
	touch_read(p);
}

/* ---- rights ---- */

void body_privileged(struct witness *w)
{
#if X86
	__asm__ volatile("hlt");
#elif defined(__aarch64__)
	__asm__ volatile("msr daifset, #0xf");
#else
	witness_skip(w, "no privileged instruction of this architecture is known here");
#endif
}

void body_umip(struct witness *w)
{
#if X86
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);

	(void)munmap(p, page_bytes());
	witness_expect(w, p);
	__asm__ volatile("sgdt (%0)" : : "r"(p) : "memory");
#else
	witness_skip(w, "the instruction is of x86");
#endif
}

#if defined(__x86_64__) && defined(SYS_arch_prctl)
#define SHADOW_STACK_ENABLE 0x5001
#define SHADOW_STACK_DISABLE 0x5002
#define SHADOW_STACK 1UL

/* Otherwise the way out of the handler would be the next wrong return. */
static void on_shadow_stack(int signo, siginfo_t *info, void *context)
{
	(void)syscall(SYS_arch_prctl, SHADOW_STACK_DISABLE, SHADOW_STACK);
	witness_on_signal(signo, info, context);
}
#endif

void body_shadow_stack(struct witness *w)
{
#if defined(__x86_64__) && defined(SYS_arch_prctl)
	struct sigaction action;

	if (sigaction(SIGSEGV, NULL, &action) == 0 && action.sa_flags & SA_SIGINFO)
		witness_catch(SIGSEGV, on_shadow_stack, 0);
	/* The new shadow stack is empty, so that already the return from here is wrong. */
	if (syscall(SYS_arch_prctl, SHADOW_STACK_ENABLE, SHADOW_STACK) < 0)
		witness_skip(w, "no shadow stacks for programs on this CPU and kernel (arch_prctl: %s)",
			     strerror(errno));
	witness_skip(w, "this program has a shadow stack already");
#else
	witness_skip(w, "not known for this architecture");
#endif
}

void body_memory_tag(struct witness *w)
{
#if defined(__aarch64__)
	/* As linux/prctl.h and asm/mman.h have them. */
	const unsigned long set_tagged_address = 55, enable = 1, synchronous = 1UL << 1, all_tags = 0xfffeUL << 3;
	const int tagged = 0x20;
	char *p;

	if (prctl((int)set_tagged_address, enable | synchronous | all_tags, 0UL, 0UL, 0UL) < 0)
		witness_skip(w, "no memory tagging on this CPU and kernel (prctl: %s)", strerror(errno));
	p = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE | tagged, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		witness_skip(w, "no memory tagging on this CPU and kernel (mmap: %s)", strerror(errno));
	touch_write(p);
	witness_expect(w, p);
	touch_read((const void *)((uintptr_t)p | 1UL << 56));
#else
	witness_skip(w, "memory tagging is of arm64");
#endif
}

/* ---- instructions that are faults themselves ---- */

void body_illegal(struct witness *w)
{
#if X86
	__asm__ volatile("ud2");
#elif defined(__aarch64__)
	__asm__ volatile(".inst 0");
#elif defined(__riscv) || defined(__s390__)
	__asm__ volatile(".short 0");
#elif defined(__powerpc__)
	__asm__ volatile(".long 0");
#else
	witness_skip(w, "no illegal instruction of this architecture is known here");
#endif
}

void body_divide(struct witness *w)
{
#if X86
	__asm__ volatile("xorl %%edx, %%edx\n\tmovl $1, %%eax\n\txorl %%ecx, %%ecx\n\tdivl %%ecx"
			 :
			 :
			 : "eax", "ecx", "edx", "cc");
#else
	witness_skip(w, "a division by zero is no fault on this architecture, or not known here");
#endif
}

void body_float_divide(struct witness *w)
{
#if defined(__x86_64__)
	/* MXCSR with all exceptions masked but that one. */
	const uint32_t unmasked = 0x1f80 & ~0x200u;

	__asm__ volatile("ldmxcsr %0\n\txorps %%xmm0, %%xmm0\n\tmovss %1, %%xmm1\n\tdivss %%xmm0, %%xmm1"
			 :
			 : "m"(unmasked), "m"((const float){1.0f})
			 : "xmm0", "xmm1");
#else
	witness_skip(w, "not known for this architecture");
#endif
}

void body_breakpoint(struct witness *w)
{
#if X86
	__asm__ volatile("int3");
#elif defined(__aarch64__)
	__asm__ volatile("brk #0");
#elif defined(__riscv)
	__asm__ volatile("ebreak");
#else
	witness_skip(w, "no breakpoint instruction of this architecture is known here");
#endif
}
