// SPDX-License-Identifier: Apache-2.0
#include "apart.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "older_libc.h"
#include "sys.h"

#ifndef FUTEX_WAIT
#define FUTEX_WAIT 0  // of linux/futex.h, which a C library apart from the system's may lack
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum {
    // Multiples of every page's size. A program's handler of a fault may run there as well.
    GUARD_BYTES = 64 << 10,
    STACK_BYTES = 192 << 10,
    UNSHARE_TABLE = 2,  // CLOSE_RANGE_UNSHARE, of Linux 5.9
    POLL_NS = 20000000,
    GONE_YIELDS_MAX = 64,
    GONE_NAP_NS = 20000,
    GONE_NAPS_MAX = 1 << 10
};

// Those of libc's threads, because filters of system calls and emulators know these and may refuse others.
// Nobody else learns that such a thread was there: no parent that waits for children, and no signal is sent.
static const long THREAD_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
// Without these it is a process instead, on the same memory, for whose end only who asks for it waits.
static const long PROCESS_WITHOUT = CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

// At the top of the thread's stack.
struct apart {
    _Alignas(16) int running;  // the kernel clears it when the thread ends, and wakes who waits for it
    int tid;
    long failed;  // an errno negated where the table could not be had
    bool own_table;
    stack_t alternate;
    void (*function)(void *);
    char argument[APART_ARGUMENT_BYTES_MAX];
};

// The stack that is kept. A thread that finds it taken, by another thread or for ever by one that was killed
// within vfork, maps another.
static struct {
    atomic_flag taken;
    char *at;
} kept = {.taken = ATOMIC_FLAG_INIT};

// Set on kernels that cannot empty a thread's table: there it begins as a copy of the program's.
static _Atomic bool copies_table;

static const char several;
static const char *_Atomic process_is_alone = &several;

static _Atomic bool shares_descriptors;

static _Atomic uint32_t under_way;
static _Atomic bool in_processes;  // see apart_in_processes

static char *map_stack(void) {
    char *at = sys_mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (at && sys_mprotect(at + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE)) {
        sys_munmap(at, GUARD_BYTES + STACK_BYTES);
        return NULL;
    }
    return at;
}

static char *take_stack(void) {
    if (atomic_flag_test_and_set(&kept.taken)) return map_stack();
    if (!kept.at) kept.at = map_stack();
    if (!kept.at) atomic_flag_clear(&kept.taken);
    return kept.at;
}

static void give_stack(char *stack) {
    if (stack == kept.at) atomic_flag_clear(&kept.taken);
    else sys_munmap(stack, GUARD_BYTES + STACK_BYTES);
}

void apart_while_alone(const char *alone) { atomic_store(&process_is_alone, alone ? alone : &several); }
bool apart_is_alone(void) { return *(const volatile char *)process_is_alone; }

bool apart_must_not_wait(void) {
    if (apart_is_alone()) return false;
    long policy = raw_syscall(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);
    return policy > 0 && (policy & SCHED_RESET_ON_FORK);
}

void apart_shares_descriptors(void) { atomic_store(&shares_descriptors, true); }

void apart_after_fork(void) {
    atomic_flag_clear(&kept.taken);
    atomic_store(&under_way, 0);
}

void apart_in_processes(void) {
    atomic_store(&in_processes, true);
    for (unsigned step = 0; step < SYS_WAIT_STEPS && under_way; step++) sys_wait_step(step);
}

// All that the thread does. A program that watches its own writes forbids itself our stack, too: its handler
// of faults needs the caller's alternate stack then, which nobody uses but who is on it already.
static void work(struct apart *apart) {
    if (!(apart->alternate.ss_flags & (SS_ONSTACK | SS_DISABLE)))
        raw_syscall(SYS_sigaltstack, (long)&apart->alternate, 0, 0, 0, 0, 0);
    if (!apart->own_table) apart->failed = raw_syscall(SYS_close_range, 0, ~0U, UNSHARE_TABLE, 0, 0, 0);
    if (!apart->failed) apart->function(apart->argument);
}

// An unwinder of the thread's stack must not continue into the caller's.
#ifdef __GCC_HAVE_DWARF2_CFI_ASM
#ifdef __x86_64__
#define STACK_ENDS ".cfi_remember_state\n\t.cfi_undefined rip\n\t"
#else
#define STACK_ENDS ".cfi_remember_state\n\t.cfi_undefined x30\n\t"
#endif
#define STACK_GOES_ON ".cfi_restore_state\n\t"
#else
#define STACK_ENDS
#define STACK_GOES_ON
#endif

// The thread's id, or an errno negated. It comes out of the call with our registers and its own stack.
static __attribute__((noinline)) long begin_thread(long flags, struct apart *apart) {
#if defined(__x86_64__)
    long result;
    register int *clear __asm__("r10") = &apart->running;
    register void *tls __asm__("r8") = __builtin_thread_pointer();
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t" STACK_ENDS "xorl %%ebp, %%ebp\n\t"
                     "movq %%rsp, %%rdi\n\t"
                     "call *%%rbx\n\t"
                     "movl %[exit], %%eax\n\t"
                     "xorl %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "hlt\n\t" STACK_GOES_ON "1:"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"(flags), "S"(apart), "d"(&apart->tid), "r"(clear), "r"(tls),
                       "b"(work), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long result __asm__("x0") = flags;
    register void *stack __asm__("x1") = apart;
    register int *tid __asm__("x2") = &apart->tid;
    register void *tls __asm__("x3") = __builtin_thread_pointer();
    register int *clear __asm__("x4") = &apart->running;
    register long which __asm__("x8") = SYS_clone;
    register void (*body)(struct apart *) __asm__("x19") = work;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t" STACK_ENDS "mov x29, xzr\n\t"
                     "mov x30, xzr\n\t"
                     "mov x0, sp\n\t"
                     "blr x19\n\t"
                     "mov x8, %[exit]\n\t"
                     "mov x0, xzr\n\t"
                     "svc 0\n\t"
                     "brk 1\n\t" STACK_GOES_ON "1:"
                     : "+r"(result)
                     : "r"(stack), "r"(tid), "r"(tls), "r"(clear), "r"(which), "r"(body), [exit] "i"(SYS_exit)
                     : "x30", "memory");
    return result;
#endif
}

// -ESRCH: the thread is gone. Any other refusal, as a filter's of system calls, means nothing for it.
static long ask_after(long tid) { return raw_syscall(SYS_tgkill, sys_getpid(), tid, 0, 0, 0, 0); }

// Until it has left the process as well, which is a little later than it wakes us: a program of one thread
// may do what those of several may not (unshare, setns). Where its priority is below ours, it may need us to
// sleep.
static void await_gone(long tid) {
    for (unsigned tries = 0; tries < GONE_YIELDS_MAX + GONE_NAPS_MAX; tries++) {
        long answer = ask_after(tid);
        bool yields = tries < GONE_YIELDS_MAX;
        // Where the kernel does not wake us, a sleep at each sample would be too much.
        if (answer == -ESRCH || (answer && !yields)) return;
        if (yields) sys_yield();
        else sys_nap(GONE_NAP_NS);
    }
}

static void await_end(struct apart *apart, long tid, bool process) {
    struct timespec poll = {.tv_nsec = POLL_NS};
    while (!process && __atomic_load_n(&apart->running, __ATOMIC_ACQUIRE)) {
        raw_syscall(SYS_futex, (long)&apart->running, FUTEX_WAIT, 1, (long)&poll, 0, 0);
        // The kernel wakes nobody where the program has just forbidden writing to that memory.
        if (__atomic_load_n(&apart->running, __ATOMIC_ACQUIRE) && ask_after(tid) == -ESRCH) return;
    }
    if (!process) await_gone(tid);
    else
        while (raw_syscall(SYS_wait4, tid, 0, __WALL, 0, 0, 0) == -EINTR) continue;
}

static bool run_once(struct apart *apart, bool copies) {
    bool process = in_processes;
    long flags = THREAD_FLAGS & ~((copies ? CLONE_FILES : 0) | (process ? PROCESS_WITHOUT : 0));
    apart->running = 1;
    apart->failed = 0;
    apart->own_table = copies;
    long tid = begin_thread(flags, apart);
    if (tid < 0) return false;
    await_end(apart, tid, process);
    return !apart->failed;
}

enum { OPEN_AT_ONCE = 3 };

// The highest numbers that the program may have are hardly ever in use. Asking costs a third of opening; poll, which could ask
// for all at once, would call what has been opened meanwhile (a file of FUSE: its server).
static bool highest_are_free(void) {
    uint64_t limit = sys_limit(RLIMIT_NOFILE);
    unsigned count = 0;
    if (limit < OPEN_AT_ONCE || limit > INT_MAX) return false;
    while (count < OPEN_AT_ONCE && sys_descriptor_is_free((int)limit - 1 - (int)count)) count++;
    return count == OPEN_AT_ONCE;
}

// Could the function open what it opens at once, and some more? Then nothing in it fails that would not in a table of its
// own.
static bool table_has_room(void) {
    int fd[OPEN_AT_ONCE];
    unsigned count = 0;
    if (highest_are_free()) return true;
    while (count < OPEN_AT_ONCE && (fd[count] = sys_open("/", O_PATH | O_CLOEXEC, 0)) >= 0) count++;
    for (unsigned i = 0; i < count; i++) sys_close(fd[i]);
    return count == OPEN_AT_ONCE;
}

static void run_function(void *argument) {
    struct apart *apart = argument;
    apart->function(apart->argument);
}

// The thread does it itself if nobody could notice: no other thread is there, and no handler runs meanwhile. To be preferred:
// whoever waits for a thread loses the processor, and finds cold caches when it has it again. A fault's handler would overwrite
// an alternate stack that was left for ours.
static bool run_here(struct apart *apart) {
    if (!CALL_ON_STACK_CHANGES_IT || !apart_is_alone() || shares_descriptors ||
        (apart->alternate.ss_flags & SS_ONSTACK) || !table_has_room())
        return false;
    call_on_stack(run_function, apart, apart);
    return true;
}

static bool run_in_thread(struct apart *apart) {
    atomic_fetch_add(&under_way, 1);
    bool copies = copies_table, done = run_once(apart, copies);
    // The kernel refuses, or a filter of system calls, which may answer what it likes.
    if (!done && !copies && apart->failed && apart->failed != -ENOMEM) {
        copies_table = true;
        done = run_once(apart, true);
    }
    atomic_fetch_sub(&under_way, 1);
    return done;
}

bool run_apart(void (*function)(void *), void *argument, size_t bytes) {
    // The thread begins with these signals blocked, so that no handler of the program's runs in it.
    uint64_t signals = sys_block_signals();
    char *stack = take_stack();
    bool done = false;
    if (stack) {
        struct apart *apart = (struct apart *)(stack + GUARD_BYTES + STACK_BYTES) - 1;
        apart->function = function;
        apart->alternate.ss_flags = SS_DISABLE;
        raw_syscall(SYS_sigaltstack, 0, (long)&apart->alternate, 0, 0, 0, 0);
        memcpy(apart->argument, argument, bytes);
        done = run_here(apart) || run_in_thread(apart);
        memcpy(argument, apart->argument, bytes);
        give_stack(stack);
    }
    sys_restore_signals(signals);
    return done;
}

#ifdef __x86_64__
// rbx, which the function preserves, is where the unwinder finds the caller's stack.
__asm__(".text\n"
        ".globl call_on_stack\n"
        ".hidden call_on_stack\n"
        ".type call_on_stack, @function\n"
        "call_on_stack:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbx, -16\n"
        "mov %rsp, %rbx\n"
        ".cfi_def_cfa_register %rbx\n"
        "mov %rdx, %rsp\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        "mov %rbx, %rsp\n"
        ".cfi_def_cfa_register %rsp\n"
        "pop %rbx\n"
        ".cfi_restore %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_on_stack, . - call_on_stack\n");
#else
// Call sites, for which this is, are recorded on x86-64 only.
void call_on_stack(void (*function)(void *), void *argument, void *top) {
    (void)top;
    function(argument);
}
#endif
