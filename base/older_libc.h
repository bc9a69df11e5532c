// SPDX-License-Identifier: Apache-2.0
// What glibc 2.31 and gcc 10 lack of what is used here, so that a build by them runs on older systems, too. From glibc 2.28 on
// such a build runs: functions of later versions are not called.
#ifndef HEAPTAPE_OLDER_LIBC_H
#define HEAPTAPE_OLDER_LIBC_H

#include <features.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

// Functions of glibc 2.30.
static inline pid_t ht_gettid(void) { return (pid_t)syscall(SYS_gettid); }
static inline int ht_tgkill(pid_t process, pid_t thread, int number) {
    return (int)syscall(SYS_tgkill, process, thread, number);
}

#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ < 11
#define __builtin_thread_pointer()                                                                           \
    ({                                                                                                       \
        void *pointer;                                                                                       \
        __asm__("movq %%fs:0, %[at]" : [at] "=r"(pointer));                                                  \
        pointer;                                                                                             \
    })
#endif

#ifdef __GLIBC__
#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

#if !__GLIBC_PREREQ(2, 32)
#ifdef __x86_64__
// Their versions of 2.29 differ only in how they report errors.
__asm__(".symver exp, exp@GLIBC_2.2.5\n.symver log, log@GLIBC_2.2.5\n.symver pow, pow@GLIBC_2.2.5\n"
        ".symver log2, log2@GLIBC_2.2.5");
#endif

#ifndef __cplusplus  // for which allocators need no more
// As those functions: NULL for numbers that there are not.
static inline const char *strerrordesc_np(int number) {
    static const char unknown[] = "Unknown error ";
    const char *text = strerror(number);
    return strncmp(text, unknown, sizeof unknown - 1) ? text : NULL;
}

static inline const char *sigabbrev_np(int number) {
    static const char *const names[] = {
        [SIGHUP] = "HUP",       [SIGINT] = "INT",   [SIGQUIT] = "QUIT",  [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP",     [SIGABRT] = "ABRT", [SIGBUS] = "BUS",    [SIGFPE] = "FPE",
        [SIGKILL] = "KILL",     [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",  [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE",     [SIGALRM] = "ALRM", [SIGTERM] = "TERM",  [SIGCHLD] = "CHLD",
        [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",  [SIGTTIN] = "TTIN",
        [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",  [SIGXFSZ] = "XFSZ",
        [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGPOLL] = "POLL",  [SIGPWR] = "PWR",
        [SIGSTKFLT] = "STKFLT", [SIGSYS] = "SYS",   [SIGWINCH] = "WINCH"};
    return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}
#endif
#endif
#endif

#endif
