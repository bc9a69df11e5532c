// SPDX-License-Identifier: Apache-2.0
// What a walk reads is the process's own making, and we may be root: before the first byte of it is looked at, all rights
// go but those to what is open.
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "process.h"

#define HEAP_BYTES_MAX (UINT64_C(1) << 40)
enum { NOBODY = 65534 };
// TCGETS2, by which glibc asks since 2.42, and which termios.h has not: _IOR('T', 0x2a, struct termios2).
#define TERMINAL_CALL 0x802c542a

// In a user namespace that has no such user, or without CAP_SETUID, the user stays, and has no capability.
static void change_user(void) {
    if (geteuid()) return;
    (void)!setgroups(0, NULL);
    (void)!setresgid(NOBODY, NOBODY, NOBODY);
    (void)!setresuid(NOBODY, NOBODY, NOBODY);
}

static bool drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    return syscall(SYS_capset, &header, none) == 0;
}

static bool limit(__rlimit_resource_t what, uint64_t most) {
    struct rlimit now;
    if (getrlimit(what, &now)) return false;
    if (most > now.rlim_max) most = now.rlim_max;
    return setrlimit(what, &(struct rlimit){most, most}) == 0;
}

// Sanitizers reserve address space in terabytes, and open files of their own.
#ifdef __SANITIZE_ADDRESS__
static bool limit_memory(uint64_t bytes) { return bytes != 0; }
static bool filter_calls(void) { return true; }
#else
static bool limit_memory(uint64_t bytes) { return limit(RLIMIT_AS, bytes); }

#define WORD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
// On to the next but one where the word is not that.
#define UNLESS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), 0, 1)
#define ALLOW         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

// Calls that act on what is open and on our own memory; ioctl, ptrace and tgkill (of abort) for one purpose each.
static bool filter_calls(void) {
    static const int allowed[] = {
        SYS_read,         SYS_pread64,        SYS_write,         SYS_lseek,     SYS_close,    SYS_fstat,
        SYS_newfstatat,   SYS_mmap,           SYS_munmap,        SYS_mremap,    SYS_mprotect, SYS_madvise,
        SYS_brk,          SYS_futex,          SYS_clock_gettime, SYS_getrandom, SYS_exit,     SYS_exit_group,
        SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_getpid,        SYS_gettid,
    };
    enum { COUNT = sizeof allowed / sizeof *allowed, AROUND = 24 };
    struct sock_filter program[COUNT * 2 + AROUND] = {
        WORD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        REFUSE,
        WORD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 8),
        WORD(args[1]),
        UNLESS(SPACE_SCAN_CALL),
        ALLOW,
        UNLESS(TCGETS),  // is it a terminal?
        ALLOW,
        UNLESS(TERMINAL_CALL),
        ALLOW,
        REFUSE,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 4),
        WORD(args[0]),
        UNLESS(PTRACE_DETACH),
        ALLOW,
        REFUSE,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4),
        WORD(args[0]),
        UNLESS(getpid()),
        ALLOW,
        REFUSE,
    };
    unsigned short count = 23;
    for (int i = 0; i < COUNT; i++) {
        program[count++] = (struct sock_filter)UNLESS(allowed[i]);
        program[count++] = (struct sock_filter)ALLOW;
    }
    program[count++] = (struct sock_filter)REFUSE;
    struct sock_fprog filter = {.len = count, .filter = program};
    // A kernel without seccomp: the user and the capabilities are gone all the same.
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 || errno == EINVAL;
}
#endif

static int not_dropped(struct ht_error *error) {
    return ht_error_system(error, "walk", "the rights that it does not need could not be dropped");
}

// Kernels before 5.9 cannot: what was left open stays so.
void rights_close_all_but(int kept_fd) {
    enum { FIRST = 3, CLOSE_RANGE = 436 };
    if (kept_fd < FIRST) (void)syscall(CLOSE_RANGE, FIRST, ~0U, 0);
    else {
        if (kept_fd > FIRST) (void)syscall(CLOSE_RANGE, FIRST, kept_fd - 1, 0);
        (void)syscall(CLOSE_RANGE, kept_fd + 1, ~0U, 0);
    }
}

int rights_drop_user(struct ht_error *error) {
    change_user();
    // The signal at our parent's end is forgotten by a change of the user.
    bool dropped = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && drop_capabilities() &&
                   !prctl(PR_SET_DUMPABLE, 0) && !prctl(PR_SET_PDEATHSIG, SIGKILL);
    return dropped ? 0 : not_dropped(error);
}

int rights_limit(uint64_t walked_bytes, uint64_t heap_bytes, struct ht_error *error) {
    // A map of chunks takes 2 bits for 16 bytes.
    uint64_t map_bytes = (heap_bytes < HEAP_BYTES_MAX ? heap_bytes : HEAP_BYTES_MAX) / 64;
    uint64_t memory = (UINT64_C(1) << 30) + walked_bytes / 8 + map_bytes,
             seconds = 60 + (walked_bytes >> 30) * 10;
    alarm((unsigned)seconds * 2);
    return limit(RLIMIT_CPU, seconds) && limit(RLIMIT_CORE, 0) && limit_memory(memory) ? 0
                                                                                       : not_dropped(error);
}

int rights_drop_rest(struct ht_error *error) { return filter_calls() ? 0 : not_dropped(error); }
