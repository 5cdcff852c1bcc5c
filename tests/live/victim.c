/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad accesses by plan: victim CASE [N [M]]. What each case ends in is told by its name and by the table of test_bad_access.py.
 * Cases that survive print "handled N", what their handlers counted. "skip REASON": the machine cannot do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long page, n, m;
static volatile long handled;
static sigjmp_buf back;
/* What the compiler must not see through. */
static char *volatile near_null = (char *)8;
static volatile int endless = 1;
static pthread_barrier_t both;

static void skip(const char *reason)
{
	printf("skip %s\n", reason);
	exit(0);
}

static char *map(int protection)
{
	char *p = mmap(NULL, page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(3);
	return p;
}

static void write_to(volatile char *p)
{
	*p = 1;
}

/* ---- handlers ---- */

static void handle(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	if (sigaction(signo, &action, NULL))
		exit(3);
}

static void jump_back(int signo, siginfo_t *info, void *context)
{
	handled++;
	siglongjmp(back, 1);
}

static void put_default_back(int signo, siginfo_t *info, void *context)
{
	signal(signo, SIG_DFL);
}

static void do_nothing(int signo, siginfo_t *info, void *context)
{
}

/* As crash reporters do: the signal again, as it was, for the default action. */
static void raise_again(int signo, siginfo_t *info, void *context)
{
	signal(signo, SIG_DFL);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signo, info);
}

static void raise_plainly(int signo, siginfo_t *info, void *context)
{
	sigset_t set;

	signal(signo, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signo);
}

static void use_alternate_stack(void)
{
	stack_t stack = {.ss_sp = map(PROT_READ | PROT_WRITE), .ss_size = page};

	if (page < MINSIGSTKSZ || sigaltstack(&stack, NULL)) {
		stack.ss_size = 1 << 16;
		stack.ss_sp = malloc(stack.ss_size);
		if (sigaltstack(&stack, NULL))
			exit(3);
	}
}

/* ---- accesses ---- */

static void null_read(void)
{
	(void)*(volatile char *)near_null;
}
static void null_write(void)
{
	write_to(near_null);
}
static void read_only(void)
{
	write_to(map(PROT_READ));
}
static void no_access(void)
{
	write_to(map(PROT_NONE));
}
static void no_exec(void)
{
	((void (*)(void))map(PROT_READ | PROT_WRITE))();
}

static void past_eof(void)
{
	char name[] = "/tmp/faultd-victim-XXXXXX";
	int fd = mkstemp(name);
	char *p;

	unlink(name);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		exit(3);
	write_to(p);
}

static void no_address(void)
{
#if defined(__x86_64__)
	write_to((char *)0x1234567890abcdef);
#else
	skip("every address is one on this CPU");
#endif
}

static void kernel_address(void)
{
#if defined(__x86_64__)
	write_to((char *)0xffffffff81000000);
#else
	write_to((char *)0xffff800008000000);
#endif
}

static void protection_key(void)
{
	int key = (int)syscall(SYS_pkey_alloc, 0, 1 /* PKEY_DISABLE_ACCESS */);
	char *p = map(PROT_READ | PROT_WRITE);

	if (key < 0)
		skip("no protection keys on this CPU");
	if (syscall(SYS_pkey_mprotect, p, page, PROT_READ | PROT_WRITE, key))
		exit(3);
	write_to(p);
}

static void misaligned(void)
{
#if defined(__x86_64__)
	char *p = map(PROT_READ | PROT_WRITE);

	__asm__ volatile("pushf\n\torl $0x40000, (%%rsp)\n\tpopf\n\tmovl $1, 1(%0)" : : "r"(p) : "memory", "cc");
	skip("this CPU does not check the alignment of accesses");
#elif defined(__aarch64__)
	char *p = map(PROT_READ | PROT_WRITE);
	unsigned long value;

	/* Exclusive accesses must be aligned, of late only those that cross 16 bytes. */
	*p = 1;
	__asm__ volatile("ldxr %0, [%1]\n\tclrex" : "=r"(value) : "r"(p + 15) : "memory");
	(void)value;
	skip("this CPU does not check the alignment of exclusive accesses");
#else
	skip("not tried on this architecture");
#endif
}

static void divide_by_zero(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%ecx, %%ecx\n\txor %%edx, %%edx\n\tmov $1, %%eax\n\tdiv %%ecx"
			 :
			 :
			 : "eax", "ecx", "edx");
#else
	skip("division by zero does not trap on this architecture");
#endif
}

static void illegal_instruction(void)
{
#if defined(__aarch64__)
	__asm__ volatile("udf #0"); /* what the compiler calls a trap is a breakpoint */
#else
	__builtin_trap();
#endif
}

static int recurse(int depth)
{
	volatile char frame[1024];

	frame[depth & 1023] = (char)depth;
	return endless ? recurse(depth + 1) + frame[1] : 0;
}

static void overflow(void)
{
	struct rlimit limit = {1 << 20, 1 << 20};

	setrlimit(RLIMIT_STACK, &limit);
	_exit(recurse(0) == 1);
}

/* ---- cases ---- */

static void survive(void (*access)(void))
{
	handle(SIGSEGV, jump_back, SA_NODEFER);
	handle(SIGBUS, jump_back, SA_NODEFER);
	for (volatile long i = 0; i < n; i++)
		if (!sigsetjmp(back, 0))
			access();
	printf("handled %ld\n", handled);
}

/* n a second for m seconds, each through a barrier page as a garbage collector has it. */
static void barrier(void)
{
	char *p = map(PROT_NONE);
	struct timespec next;

	handle(SIGSEGV, jump_back, SA_NODEFER);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (volatile long tick = 0; tick < 100 * m; tick++) {
		for (volatile long i = 0; i < n / 100; i++)
			if (!sigsetjmp(back, 0))
				write_to(p);
		next.tv_nsec += 10000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	printf("handled %ld\n", handled);
}

static void survive_ro(void)
{
	static char *p;

	if (!p)
		p = map(PROT_READ);
	write_to(p);
}

static void overflow_handled(void)
{
	use_alternate_stack();
	handle(SIGSEGV, jump_back, SA_ONSTACK);
	if (!sigsetjmp(back, 1))
		overflow();
	printf("handled %ld\n", handled);
}

static void *fault_together(void *unused)
{
	pthread_barrier_wait(&both);
	null_write();
	return NULL;
}

static void two_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, fault_together, NULL);
	fault_together(NULL);
}

static void bad_pointer(void)
{
	int fd = open("/dev/null", O_WRONLY);
	char *p = map(PROT_NONE);
	int pipes[2];

	for (long i = 0; i < n; i++) {
		if (pipe(pipes) || write(pipes[1], p, 1) != -1 || errno != EFAULT)
			exit(3);
		close(pipes[0]);
		close(pipes[1]);
	}
	close(fd);
	printf("handled 0\n");
}

static void forge(int code)
{
	siginfo_t info = {.si_signo = SIGSEGV, .si_code = code};

	info.si_addr = (void *)0x1234;
	syscall(SYS_rt_sigqueueinfo, getpid(), SIGSEGV, &info);
	pause();
}

/* A forged one waits for the group while the thread makes a true one. */
static void forge_and_fault(void)
{
	siginfo_t info = {.si_signo = SIGBUS, .si_code = BUS_ADRERR};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	syscall(SYS_rt_sigqueueinfo, getpid(), SIGBUS, &info);
	past_eof();
}

/* The handler of a bus error finds no stack: the kernel ends the process by a SIGSEGV of its own. */
static void bus_without_stack(void)
{
#if defined(__x86_64__)
	char name[] = "/tmp/faultd-victim-XXXXXX";
	int fd = mkstemp(name);
	char *p;

	unlink(name);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	handle(SIGBUS, jump_back, 0);
	__asm__ volatile("mov $4096, %%rsp\n\tmovb $1, (%0)" : : "r"(p) : "memory");
#else
	skip("not tried on this architecture");
#endif
}

/* A signal that nothing comes of leaves no trace in how the next one is told. */
static void sent_in_vain(void)
{
	signal(SIGSEGV, SIG_IGN);
	raise(SIGSEGV);
	signal(SIGSEGV, SIG_DFL);
	null_write();
}

/* A debugger gets to see signals that are ignored, and lets them pass. */
static void traced_and_ignored(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		signal(SIGSEGV, SIG_IGN);
		raise(SIGSEGV);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSEGV)
		exit(3);
	ptrace(PTRACE_CONT, child, NULL, SIGSEGV);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		exit(3);
	printf("handled 0\n");
}

/* As the init of a pid namespace: a signal that was blocked when it came is delivered, and still cannot end it. */
static void blocked_init(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGSEGV);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	exit(7);
}

/* The handler's stack lies above the one that it interrupts. */
static void raise_above(void)
{
	char stack[1 << 16];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};

	if (sigaltstack(&alternate, NULL))
		exit(3);
	handle(SIGSEGV, raise_plainly, SA_ONSTACK);
	null_write();
}

/* ---- what looks like something else ---- */

/* The new program has nothing to do with what the old one survived. */
static void exec_then_raise(void)
{
	n = 1;
	survive(null_write);
	execl("/proc/self/exe", "victim", "raise", (char *)NULL);
	exit(3);
}

static char *lazy_pages;

static void provide_page(int signo, siginfo_t *info, void *context)
{
	char *at = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(page - 1));

	handled++;
	mprotect(at, page, PROT_READ | PROT_WRITE);
}

/* Page after page is provided when it is touched, all by one instruction; then nobody provides the next. */
static void lazy(void)
{
	lazy_pages = mmap(NULL, 20 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGSEGV, provide_page, 0);
	for (volatile int i = 0; i < 20; i++) {
		if (i == 10)
			signal(SIGSEGV, SIG_DFL);
		write_to(lazy_pages + i * page);
	}
}

static void kill_process_again(int signo, siginfo_t *info, void *context)
{
	signal(signo, SIG_DFL);
	kill(getpid(), signo);
}

static void *null_write_in_thread(void *unused)
{
	null_write();
	return NULL;
}

/* A crash reporter that sends the signal to the process, while the fault is a thread's. */
static void reported_thread(void)
{
	pthread_t thread;

	handle(SIGSEGV, kill_process_again, 0);
	pthread_create(&thread, NULL, null_write_in_thread, NULL);
	pthread_join(thread, NULL);
}

static sigset_t only_segv(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(how, &set, NULL);
	return set;
}

/* It was sent and never delivered: what comes next is a fault. */
static void taken_by_wait(void)
{
	sigset_t set = only_segv(SIG_BLOCK);

	raise(SIGSEGV);
	if (sigwaitinfo(&set, NULL) != SIGSEGV)
		exit(3);
	only_segv(SIG_UNBLOCK);
	null_write();
}

static void flushed(void)
{
	only_segv(SIG_BLOCK);
	raise(SIGSEGV);
	signal(SIGSEGV, SIG_IGN);
	only_segv(SIG_UNBLOCK);
	signal(SIGSEGV, SIG_DFL);
	null_write();
}

/* A child whose end is told by SIGSEGV: with a code of SIGCHLD, which is SEGV_MAPERR's number. */
static void exit_signal(void)
{
	if (syscall(SYS_clone, SIGSEGV, NULL, NULL, NULL, NULL) == 0)
		_exit(0);
	pause();
}

/* From a 64-bit program through the gate of 32-bit ones, where calls have other numbers. */
static void forge_by_gate(void)
{
#if defined(__x86_64__)
	int *info =
	    mmap((void *)0x10000000, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	long result;

	info[0] = SIGSEGV;
	info[2] = SEGV_MAPERR;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(178l), "b"((long)getpid()), "c"((long)SIGSEGV), "d"(info)
			 : "memory");
	skip("this kernel has no calls of 32-bit programs");
#else
	skip("not of this architecture");
#endif
}

/* In a call that lets a process choose si_code, but for another signal, whose handler finds no stack. */
static void no_stack_in_call(void)
{
#if defined(__x86_64__)
	static siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
	long self = getpid();

	n = 1;
	survive(null_write); /* leaves its error code behind */
	fflush(stdout);
	signal(SIGSEGV, SIG_DFL);
	handle(SIGUSR1, do_nothing, 0);
	__asm__ volatile("mov $4096, %%rsp\n\tsyscall"
			 :
			 : "a"(SYS_rt_sigqueueinfo), "D"(self), "S"(SIGUSR1), "d"(&info)
			 : "memory");
#else
	skip("not tried on this architecture");
#endif
}

/* Sent in an interrupt, while anybody may be running. */
static void by_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSEGV};
	struct itimerspec soon = {.it_value.tv_nsec = 50000000};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
		exit(3);
	pause();
}

static void *null_write_when_told(void *delay)
{
	pthread_barrier_wait(&both);
	for (volatile long i = 0; i < *(long *)delay; i++)
		;
	null_write();
	return NULL;
}

/* n children, of each a thread crashes while the other becomes another program, which divides by zero. Prints how many ended by
 * each. */
static void crash_against_exec(void)
{
	long crashed = 0, divided = 0;

	for (long i = 0; i < n; i++) {
		long delays[] = {i * 37 % 4000, i * 53 % 2000};
		pthread_t thread;
		int status;

		if (fork() == 0) {
			pthread_barrier_init(&both, NULL, 2);
			pthread_create(&thread, NULL, null_write_when_told, &delays[0]);
			pthread_barrier_wait(&both);
			for (volatile long j = 0; j < delays[1]; j++)
				;
			execl("/proc/self/exe", "victim", "divide_by_zero", (char *)NULL);
		}
		wait(&status);
		crashed += WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
		divided += WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE;
	}
	printf("handled %ld\n%ld\n", crashed, divided);
}

/* n children that crash, at most m at a time. */
static void crowd(void)
{
	for (long i = 0; i < n; i++) {
		if (i >= m)
			wait(NULL);
		if (fork() == 0)
			null_write();
	}
	while (wait(NULL) > 0)
		;
	printf("handled 0\n");
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*access)(void);
	} accesses[] = {
	    {"null_read", null_read},
	    {"null_write", null_write},
	    {"read_only", read_only},
	    {"no_access", no_access},
	    {"no_exec", no_exec},
	    {"past_eof", past_eof},
	    {"no_address", no_address},
	    {"kernel_address", kernel_address},
	    {"protection_key", protection_key},
	    {"misaligned", misaligned},
	    {"divide_by_zero", divide_by_zero},
	    {"illegal_instruction", illegal_instruction},
	    {"overflow", overflow},
	    {"overflow_handled", overflow_handled},
	    {"two_threads", two_threads},
	    {"bad_pointer", bad_pointer},
	    {"forge_and_fault", forge_and_fault},
	    {"crowd", crowd},
	    {"barrier", barrier},
	    {"bus_without_stack", bus_without_stack},
	    {"sent_in_vain", sent_in_vain},
	    {"traced_and_ignored", traced_and_ignored},
	    {"blocked_init", blocked_init},
	    {"raise_above", raise_above},
	    {"exec_then_raise", exec_then_raise},
	    {"lazy", lazy},
	    {"reported_thread", reported_thread},
	    {"taken_by_wait", taken_by_wait},
	    {"flushed", flushed},
	    {"exit_signal", exit_signal},
	    {"forge_by_gate", forge_by_gate},
	    {"no_stack_in_call", no_stack_in_call},
	    {"by_timer", by_timer},
	    {"crash_against_exec", crash_against_exec},
	    {"abort", abort},
	};
	const char *name = argc > 1 ? argv[1] : "";

	page = sysconf(_SC_PAGESIZE);
	n = argc > 2 ? atol(argv[2]) : 1;
	m = argc > 3 ? atol(argv[3]) : 1;
	prctl(PR_SET_DUMPABLE, getenv("VICTIM_CORE") != NULL);
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
		if (strcmp(name, accesses[i].name) == 0) {
			accesses[i].access();
			return 0;
		}
	if (strcmp(name, "survive_null") == 0)
		survive(null_write);
	else if (strcmp(name, "survive_ro") == 0)
		survive(survive_ro);
	else if (strcmp(name, "survive_no_address") == 0)
		survive(no_address);
	else if (strcmp(name, "survive_kernel") == 0)
		survive(kernel_address);
	else if (strcmp(name, "survive_bus") == 0)
		survive(past_eof);
	else if (strcmp(name, "overflow_no_stack") == 0)
		handle(SIGSEGV, jump_back, 0), overflow();
	else if (strcmp(name, "default_again") == 0)
		handle(SIGSEGV, put_default_back, 0), null_write();
	else if (strcmp(name, "reset_hand") == 0)
		handle(SIGSEGV, do_nothing, SA_RESETHAND), null_write();
	else if (strcmp(name, "raise_again") == 0)
		handle(SIGSEGV, raise_again, 0), null_write();
	else if (strcmp(name, "raise_again_on_stack") == 0)
		use_alternate_stack(), handle(SIGSEGV, raise_again, SA_ONSTACK), null_write();
	else if (strcmp(name, "raise_plainly") == 0)
		handle(SIGSEGV, raise_plainly, 0), null_write();
	else if (strcmp(name, "ignored") == 0)
		signal(SIGSEGV, SIG_IGN), null_write();
	else if (strcmp(name, "blocked") == 0) {
		sigset_t set;

		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
		null_write();
	} else if (strcmp(name, "raise") == 0)
		raise(SIGSEGV);
	else if (strcmp(name, "forge") == 0)
		forge(SEGV_MAPERR);
	else if (strcmp(name, "forge_kernel") == 0)
		forge(SI_KERNEL);
	else if (strcmp(name, "survive_and_raise") == 0) {
		/* What it survived has nothing to do with what ends it. */
		n = 3;
		survive(null_write);
		fflush(stdout);
		signal(SIGSEGV, SIG_DFL);
		kill(getpid(), SIGSEGV);
		pause();
	} else if (strcmp(name, "survive_and_die") == 0) {
		n = 3;
		survive(null_write);
		fflush(stdout);
		signal(SIGSEGV, SIG_DFL);
		read_only();
	} else if (strcmp(name, "wait") == 0) {
		printf("handled 0\n");
		fflush(stdout);
		pause();
	} else {
		fprintf(stderr, "victim: no case '%s'\n", name);
		return 2;
	}
	return 0;
}
