// SPDX-License-Identifier: Apache-2.0
// Filters of system calls, as sandboxed programs install them. Nothing here allocates.
#ifndef HEAPTAPE_SECCOMP_FILTERS_H
#define HEAPTAPE_SECCOMP_FILTERS_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "target_support.h"

enum { FILTER_NUMBERS_MAX = 60 };

// One list of numbers; they get the first answer, all others the second.
struct call_filter {
    struct sock_filter code[2 * FILTER_NUMBERS_MAX + 4];
    unsigned short length;
};

static inline void filter_build(struct call_filter *filter, const int *numbers, unsigned count,
                                uint32_t listed, uint32_t others) {
    struct sock_filter *at = filter->code;
    *at++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], 0, 1);
        *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    filter->length = (unsigned short)(at - filter->code);
}

// Kills a thread that opens a file.
static inline void filter_opening(struct call_filter *filter) {
    static const int forbidden[] = {
#ifdef SYS_open
        SYS_open, SYS_creat,
#endif
        SYS_openat, 437 /* openat2 */};
    filter_build(filter, forbidden, sizeof forbidden / sizeof *forbidden, SECCOMP_RET_KILL_PROCESS,
                 SECCOMP_RET_ALLOW);
}

// Kills for what a recorder may do at each chunk of its log, and allows everything else.
static inline void filter_upkeep(struct call_filter *filter) {
    static const int forbidden[] = {SYS_rt_sigprocmask, SYS_madvise, SYS_openat, SYS_fallocate};
    filter_build(filter, forbidden, sizeof forbidden / sizeof *forbidden, SECCOMP_RET_KILL_PROCESS,
                 SECCOMP_RET_ALLOW);
}

// Kills for all that a recorder may do, except where it asks whether there is a filter.
static inline void filter_but_questions(struct call_filter *filter) {
    static const int forbidden[] = {SYS_rt_sigprocmask, SYS_madvise,       SYS_openat,   SYS_fallocate,
                                    SYS_mincore,        SYS_getrusage,     SYS_clone,    SYS_getpid,
                                    SYS_gettid,         SYS_clock_gettime, SYS_mprotect, SYS_sigaltstack};
    filter_build(filter, forbidden, sizeof forbidden / sizeof *forbidden, SECCOMP_RET_KILL_PROCESS,
                 SECCOMP_RET_ALLOW);
}

// Allows everything.
static inline void filter_nothing(struct call_filter *filter) {
    filter_build(filter, NULL, 0, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW);
}

// Allows what an allocator and an orderly end need, and kills for everything else.
static inline void filter_strict(struct call_filter *filter) {
    static const int allowed[] = {SYS_read, SYS_write,     SYS_mmap,     SYS_munmap,       SYS_mremap,
                                  SYS_brk,  SYS_futex,     SYS_mprotect, SYS_rt_sigreturn, SYS_rt_sigprocmask,
                                  SYS_exit, SYS_exit_group};
    filter_build(filter, allowed, sizeof allowed / sizeof *allowed, SECCOMP_RET_ALLOW,
                 SECCOMP_RET_KILL_PROCESS);
}

static inline void filter_install_by_prctl(struct call_filter *filter) {
    struct sock_fprog program = {filter->length, filter->code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        target_fail("cannot install the filter");
}

static inline void filter_install_by_syscall(struct call_filter *filter, unsigned flags) {
    struct sock_fprog program = {filter->length, filter->code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
        target_fail("cannot install the filter");
}

// By the instruction itself, as code without a C library does it: nobody sees it.
static inline long bare_call(long number, long a, long b, long c) {
#ifdef __x86_64__
    long result;
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b, third __asm__("x2") = c, fourth __asm__("x3") = 0;
    register long fifth __asm__("x4") = 0, which __asm__("x8") = number;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(which)
                     : "memory");
    return result;
#endif
}

static inline void filter_install_bare(struct call_filter *filter) {
    struct sock_fprog program = {filter->length, filter->code};
    if (bare_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program))
        target_fail("cannot install the filter");
}

#endif
