// SPDX-License-Identifier: Apache-2.0
#include "peak_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "call_filter.h"
#include "memory_probes.h"

// A signal handler has no argument to carry state in.
static struct {
    int statm_fd;
    _Atomic uint64_t highest_bytes;
    _Atomic uintptr_t heap_end;  // of brk, as it was set last
} watch = {.statm_fd = -1};

void ht_peak_watch_read(void) {
    if (watch.statm_fd < 0) return;
    uint64_t bytes = ht_rss_anon_bytes(watch.statm_fd), highest = atomic_load(&watch.highest_bytes);
    while (bytes > highest && !atomic_compare_exchange_weak(&watch.highest_bytes, &highest, bytes)) {
    }
}

uint64_t ht_peak_watch_take(uint64_t bytes) {
    uint64_t highest = atomic_load(&watch.highest_bytes) ? atomic_exchange(&watch.highest_bytes, 0) : 0;
    return highest > bytes ? highest : bytes;
}

#if HT_FILTER_ARCHITECTURE

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_SECCOMP  // si_code of a call that a filter stopped
#define SYS_SECCOMP 1
#endif

// Makes a system call without errno. What lies at ht_peak_watch_made is behind the one instruction from which the filter lets
// the calls pass.
long ht_peak_watch_call(long number, const unsigned long arguments[6]);
extern const char ht_peak_watch_made[];

#if defined __x86_64__
__asm__(".text\n"
        ".type ht_peak_watch_call, @function\n"
        ".globl ht_peak_watch_call\n"
        ".hidden ht_peak_watch_call\n"
        ".hidden ht_peak_watch_made\n"
        "ht_peak_watch_call:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %r11\n"
        "    mov 0(%r11), %rdi\n"
        "    mov 8(%r11), %rsi\n"
        "    mov 16(%r11), %rdx\n"
        "    mov 24(%r11), %r10\n"
        "    mov 32(%r11), %r8\n"
        "    mov 40(%r11), %r9\n"
        "    syscall\n"
        ".globl ht_peak_watch_made\n"
        "ht_peak_watch_made:\n"
        "    ret\n"
        ".size ht_peak_watch_call, . - ht_peak_watch_call\n");
#else
__asm__(".text\n"
        ".type ht_peak_watch_call, %function\n"
        ".globl ht_peak_watch_call\n"
        ".hidden ht_peak_watch_call\n"
        ".hidden ht_peak_watch_made\n"
        "ht_peak_watch_call:\n"
        "    mov x8, x0\n"
        "    mov x9, x1\n"
        "    ldp x0, x1, [x9]\n"
        "    ldp x2, x3, [x9, #16]\n"
        "    ldp x4, x5, [x9, #32]\n"
        "    svc #0\n"
        ".globl ht_peak_watch_made\n"
        "ht_peak_watch_made:\n"
        "    ret\n"
        ".size ht_peak_watch_call, . - ht_peak_watch_call\n");
#endif

// The registers in which the kernel takes arguments and gives back the result.
static void take_arguments(const ucontext_t *context, unsigned long arguments[6]) {
    const mcontext_t *registers = &context->uc_mcontext;
#if defined __x86_64__
    static const int places[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    for (int i = 0; i < 6; i++) arguments[i] = (unsigned long)registers->gregs[places[i]];
#else
    for (int i = 0; i < 6; i++) arguments[i] = registers->regs[i];
#endif
}

static void put_result(ucontext_t *context, long result) {
#if defined __x86_64__
    context->uc_mcontext.gregs[REG_RAX] = result;
#else
    context->uc_mcontext.regs[0] = (unsigned long)result;
#endif
}

// Tells whether this call, which may give back memory, does. A heap that grows, and a mapping that moves, do not.
static bool gives_back(long number, const unsigned long arguments[6]) {
    if (number == SYS_brk) return arguments[0] && arguments[0] < atomic_load(&watch.heap_end);
    if (number == SYS_mremap) return arguments[2] < arguments[1] || arguments[3] & MREMAP_FIXED;
    return true;
}

// A signal that somebody sent ends the process, as it would have.
static void on_stopped_call(int signal_number, siginfo_t *info, void *context) {
    int former_errno = errno;
    if (info->si_code != SYS_SECCOMP) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    unsigned long arguments[6];
    long number = info->si_syscall;
    take_arguments(context, arguments);
    if (gives_back(number, arguments)) ht_peak_watch_read();
    long result = ht_peak_watch_call(number, arguments);
    if (number == SYS_brk) atomic_store(&watch.heap_end, (uintptr_t)result);
    put_result(context, result);
    errno = former_errno;
}

// MADV_FREE is not among them: its pages stay in RSS until the kernel is short of memory.
static int install(void) {
    const uint64_t made = (uintptr_t)ht_peak_watch_made;
    struct sock_filter program[] = {
        HT_FILTER_BEGINS,
        HT_FILTER_IF(SYS_munmap, 15),
        HT_FILTER_IF(SYS_mremap, 14),
        HT_FILTER_IF(SYS_brk, 13),
        HT_FILTER_IF(SYS_madvise, 5),
        HT_FILTER_IF(SYS_process_madvise, 8),
        HT_FILTER_IF(SYS_mmap, 1),
        HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),
        // mmap: over what is mapped there already.
        HT_FILTER_LOAD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED, 7, 6),
        // madvise.
        HT_FILTER_LOAD(args[2]),
        HT_FILTER_IF(MADV_DONTNEED, 5),
        HT_FILTER_IF(MADV_REMOVE, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED_LOCKED, 3, 2),
        // process_madvise.
        HT_FILTER_LOAD(args[3]),
        HT_FILTER_IF(MADV_DONTNEED, 1),
        HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),
        // Stopped, unless it is our own.
        HT_FILTER_LOAD(instruction_pointer),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)made, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(made >> 32), 0, 1),
        HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),
        HT_FILTER_ANSWER(SECCOMP_RET_TRAP),
    };
    const struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    // Without the flag some kernels also slow the process down, against speculation.
    if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter)) return 0;
    if (errno != EINVAL) return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) ? errno : 0;
}

// The kernel ends a process whose thread blocks the signal.
static bool is_blocked(void) {
    sigset_t blocked;
    return pthread_sigmask(SIG_BLOCK, NULL, &blocked) || sigismember(&blocked, SIGSYS) == 1;
}

// Threads that the allocator has already are not watched: they may block all signals, as those of jemalloc do.
int ht_peak_watch_start(int statm_fd, void *stack) {
    struct sigaction former, action = {.sa_sigaction = on_stopped_call, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    const stack_t own = {.ss_sp = stack, .ss_size = HT_PEAK_WATCH_STACK_BYTES};
    if (sigaction(SIGSYS, NULL, &former)) return errno;
    if (former.sa_handler != SIG_DFL || is_blocked()) return EBUSY;
    if (sigaltstack(&own, NULL) || sigaction(SIGSYS, &action, NULL)) return errno;
    watch.statm_fd = statm_fd;
    atomic_store(&watch.heap_end, (uintptr_t)syscall(SYS_brk, 0));
    int refusal = install();
    if (!refusal) return 0;
    const stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    sigaction(SIGSYS, &former, NULL);
    watch.statm_fd = -1;
    return refusal;
}

#else

int ht_peak_watch_start(int statm_fd, void *stack) {
    (void)statm_fd, (void)stack;
    return ENOSYS;
}

#endif
