// SPDX-License-Identifier: Apache-2.0
// prctl and syscall, watched for the moment at which the program forbids itself system calls (seccomp), or has them handed to
// a handler of its own (user dispatch, as Wine does). From then on any call of ours may be its end, or be taken for one of the
// program's, so the recorder makes none: it goes on in room prepared just before, without samples, and stops when that is
// used up (seal.c). Where the cycle counter is forbidden it stops at once. By syscall() a program may also fork and limit itself past
// the functions that are watched for that.
#include <errno.h>
#include <sched.h>

#include "apart.h"
#include "loader.h"
#include "log_end.h"
#include "log_file.h"
#include "seal.h"
#include "sys.h"
#include "wrap.h"

// Of prctl, whose header would declare the function with other parameters, and of seccomp, whose header is
// the kernel's and not everywhere.
enum {
    SET_SECCOMP = 22,
    SECCOMP_STRICT = 1,
    NO_NEW_PRIVILEGES = 38,
    SET_TSC = 26,
    TSC_SIGSEGV = 2,
    SET_DISPATCH = 59,
    DISPATCH_OFF = 0,
    DISPATCH_ROOM_BYTES = 16 << 20  // begins early in a program that uses it, and lasts
};
enum { SET_MODE_STRICT = 0, SET_MODE_FILTER = 1 };

static __thread bool dispatched __attribute__((tls_model("initial-exec")));

// Not for a child of vfork, which forbids them to itself.
static bool hold(uint64_t bytes_min) {
    int saved = errno;
    bool holds = !recorder_is_borrowed();
    if (holds) {
        wrap_begin_while_allowed();
        recorder_seal(bytes_min);
    }
    errno = saved;
    return holds;
}

static void let_go(void) {
    int saved = errno;
    recorder_unseal();
    errno = saved;
}

// Before the call that forbids. True if let_go() is to follow should the kernel refuse it.
static bool prepare(bool forbids_counter) {
    if (!forbids_counter) return hold(0);
    int saved = errno;
    recorder_give_up(HT_STOP_SANDBOX);
    errno = saved;
    return false;
}

// In the kernel it is one thread's; to us it is as a filter that falls on all of them.
static long set_dispatch(long a, long b, long c, long d) {
    bool begins = a != DISPATCH_OFF && !dispatched && hold(DISPATCH_ROOM_BYTES);
    long result = call_by_number(SYS_prctl, SET_DISPATCH, a, b, c, d, 0);
    bool ends = dispatched && a == DISPATCH_OFF && result >= 0;
    if (begins) dispatched = result >= 0;
    if (ends) dispatched = false;
    if (ends || (begins && result < 0)) let_go();
    return result;
}

// Is this one of the options that forbid, or a sign that one is to come?
static bool is_forbidding(long option) {
    return option == SET_SECCOMP || option == SET_TSC || option == SET_DISPATCH ||
           option == NO_NEW_PRIVILEGES;
}

static void foresee(void) {
    int saved = errno;
    wrap_begin_while_allowed();
    recorder_foresees_filter();
    errno = saved;
}

// Variadic both of them; in the calling conventions of x86_64 and aarch64 that makes no difference.
EXPORT int wrap_prctl(int option, long a, long b, long c, long d) __asm__("prctl");
int wrap_prctl(int option, long a, long b, long c, long d) {
    if (option == SET_DISPATCH) return (int)set_dispatch(a, b, c, d);
    if (option == NO_NEW_PRIVILEGES && a == 1) foresee();
    bool forbids_counter =
        (option == SET_SECCOMP && a == SECCOMP_STRICT) || (option == SET_TSC && a == TSC_SIGSEGV);
    bool held = (option == SET_SECCOMP || forbids_counter) && prepare(forbids_counter);
    int result =
        real.prctl ? real.prctl(option, a, b, c, d) : (int)call_by_number(SYS_prctl, option, a, b, c, d, 0);
    if (result < 0 && held) let_go();
    return result;
}

// The flags of a clone by number; those of a thread where it is none, or one that the kernel will refuse.
static uint64_t clone_flags(long number, long flags, long bytes) {
    enum { CLONE3_BYTES_MIN = 64 };
    uint64_t first = CLONE_VM;
#ifdef SYS_fork
    if (number == SYS_fork) return 0;
#endif
    if (number == SYS_clone) return (uint64_t)flags;
    // It takes a struct that begins with its flags. What the kernel would refuse is the kernel's to refuse.
    if (number != SYS_clone3 || bytes < CLONE3_BYTES_MIN || !recorder_may_call()) return CLONE_VM;
    if (!sys_read_own((const void *)flags, &first, sizeof first)) first = CLONE_VM;
    recorder_has_called();
    return first;
}

// A child with a stack of its own goes where that says: not back through frames of ours.
static void find_libcs_for_clone(long number) {
    bool clones = number == SYS_clone || number == SYS_clone3;
    if (unlikely(clones && !real.syscall)) real.syscall = symbol_behind_us("syscall");
}

static long fork_noticed(long number, long a, long b, long c, long d, long e) {
    recorder_before_fork();
    long result = call_by_number(number, a, b, c, d, e, 0);
    if (result == 0) recorder_in_forked_child();
    else recorder_after_fork();
    return result;
}

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

// Files are out of reach from then on, for children too. libc has no function for it.
static long restrict_files(long ruleset, long flags) {
    long result = call_by_number(SYS_landlock_restrict_self, ruleset, flags, 0, 0, 0, 0);
    int saved = errno;
    struct recording *recording = recorder_current();
    if (!result && recording && !recorder_is_borrowed() && epoch_now() == recording->epoch &&
        (recorder_may_call() || (recorder_rules_filter_out_at_once() && recorder_may_call()))) {
        log_note_if_out_of_reach(recording, "landlock");
        recorder_has_called();
    }
    errno = saved;
    return result;
}

EXPORT long wrap_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    // Libraries ask what the kernel can do by calls that must fail: those forbid nothing.
    bool strict = number == SYS_seccomp && a == SET_MODE_STRICT && !b && !c;
    bool filter = number == SYS_seccomp && a == SET_MODE_FILTER && c;
    find_libcs_for_clone(number);
    uint64_t clone_by = clone_flags(number, a, b);
    if (unlikely(clone_by & CLONE_FILES)) apart_shares_descriptors();
    if (unlikely(number == SYS_clone && wrap_clone_shares_storage(clone_by))) recorder_shares_storage();
    // A fork without libc's: its handlers do not run.
    if (unlikely(!(clone_by & CLONE_VM))) return fork_noticed(number, a, b, c, d, e);
    if (unlikely(wrap_is_limit(number))) return wrap_limit_by_number(number, a, b, c, d);
    if (unlikely(number == SYS_mq_notify && b)) wrap_before_notification();
    if (unlikely(wrap_is_watch(number))) wrap_before_watch(number == SYS_fanotify_init);
    if (unlikely(number == SYS_prctl && is_forbidding((int)a))) return wrap_prctl((int)a, b, c, d, e);
    if (unlikely(number == SYS_landlock_restrict_self)) return restrict_files(a, b);
    if (likely(!strict && !filter)) return call_by_number(number, a, b, c, d, e, f);
    bool held = prepare(strict);
    long result = call_by_number(number, a, b, c, d, e, f);
    if (result < 0 && held) let_go();
    return result;
}
