// SPDX-License-Identifier: Apache-2.0
// What a program asks of the kernel by which it forbids itself system calls, limits itself, or is told of what we do: by libc's
// functions, and by syscall().
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "apart.h"
#include "loader.h"
#include "log_file.h"
#include "seal.h"
#include "sites.h"
#include "sys.h"
#include "wrap.h"

// Before what a start needs, in a forked child too, is forbidden: the first log begins while it may.
static void begin_while_allowed(void) {
    if (epoch_now() == EPOCH_NONE) free(malloc(1));
}

// ---- limits ----
//
// Calls that make the kernel hold our reserved address space against the program: mlockall where little may
// be locked, and a limit on address space that the program sets itself. Most of the reservation is given up
// then, also while nothing is recorded, so that things go as they would have gone without us. What a child of
// vfork locks is its parent's memory, too; its limits are its own.

static void give_up_space(uint64_t room) {
    struct recording *recording = recorder_current();
    int saved = errno;
    if (!recording || !epoch_page.maps_log || !recorder_may_call()) return;
    log_shrink_mapping(recording, room);
    sites_give_up_space();
    recorder_has_called();
    errno = saved;
}

static int lock_all(int flags) {
    return real.mlockall ? real.mlockall(flags)
                         : (int)with_errno(raw_syscall(SYS_mlockall, flags, 0, 0, 0, 0, 0));
}

EXPORT int mlockall(int flags) {
    enum { ROOM_BYTES_MIN = 256 << 10, PART = 2, PAUSED_PART = 16 };
    int result = lock_all(flags);
    if (!result || errno != ENOMEM || recorder_sealed) return result;
    // What is locked for a recording that may never begin cannot be the program's.
    uint64_t room = sys_limit(RLIMIT_MEMLOCK) / (epoch_now() == EPOCH_PAUSED ? PAUSED_PART : PART);
    for (; result && room >= ROOM_BYTES_MIN; room /= 2) {
        give_up_space(room);
        result = lock_all(flags);
    }
    return result;
}

// The reservation gets, as at the start, a small part of what the program may have. The kernel has accepted the limit, and is
// asked for it: the program's own pointer need not be good any more.
static void heed_limit(pid_t pid) {
    enum { PART = 16 };
    if (recorder_sealed || (pid && (uint32_t)pid != sys_getpid()) || recorder_is_borrowed()) return;
    uint64_t limit = sys_limit(RLIMIT_AS);
    if (limit != RLIM_INFINITY) give_up_space(limit / PART);
}

static int set_limit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old) {
    int result = (int)call_by_number(SYS_prlimit64, pid, resource, (long)limit, (long)old, 0, 0);
    if (!result && resource == RLIMIT_AS && limit) heed_limit(pid);
    return result;
}

static long limit_by_number(long number, long a, long b, long c, long d) {
    if (number == SYS_mlockall) return mlockall((int)a);
    bool of_process = number == SYS_prlimit64;
    long result = call_by_number(number, a, b, c, d, 0, 0);
    if (!result && (int)(of_process ? b : a) == RLIMIT_AS && (of_process ? c : b))
        heed_limit(of_process ? (pid_t)a : 0);
    return result;
}

// They are declared by their symbols' names: the headers of C libraries differ in the types, and make macros of the words. On
// 64-bit machines all limits have the same shape.
HOOK("setrlimit", int, wrap_setrlimit, (int resource, const struct rlimit *limit)) {
    return set_limit(0, resource, limit, NULL);
}

HOOK("setrlimit64", int, wrap_setrlimit64, (int resource, const struct rlimit *limit)) {
    return set_limit(0, resource, limit, NULL);
}

HOOK("prlimit", int, wrap_prlimit,
     (pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old)) {
    return set_limit(pid, resource, limit, old);
}

HOOK("prlimit64", int, wrap_prlimit64,
     (pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old)) {
    return set_limit(pid, resource, limit, old);
}

// Is this syscall() one that the hooks of limits handle?
static bool is_limit(long number) {
#ifdef SYS_setrlimit
    if (number == SYS_setrlimit) return true;
#endif
    return number == SYS_prlimit64 || number == SYS_mlockall;
}

// ---- notices ----
//
// Notices that the program asks the kernel for, and that what we do could cause or prevent.
//
// After mq_notify no thread of the process may close a message queue unless the program wants it to: not even one with
// descriptors of its own, which begin as copies of the program's. A program that is told of files (inotify) would take our
// opening the log for a change; one that decides who may open them (fanotify) would be waited for, by itself.

// Before the process asks for a notice of messages in a queue.
static void before_notification(void) {
    if (!recorder_may_call()) return;
    apart_in_processes();
    recorder_has_called();
}

// It is declared by its symbol's name: the header may not be there. If libc has it in a library of its own, that may be loaded
// late.
HOOK("mq_notify", int, wrap_mq_notify, (int queue, const struct sigevent *event)) {
    if (!real.mq_notify) real.mq_notify = symbol_behind_us("mq_notify");
    if (!real.mq_notify) {
        errno = ENOSYS;
        return -1;
    }
    if (event) before_notification();
    return real.mq_notify(queue, event);
}

// Does this system call make a descriptor by which the process watches files? Then the log is to stay closed.
static bool is_watch(long number) {
#ifdef SYS_inotify_init
    if (number == SYS_inotify_init) return true;
#endif
    return number == SYS_inotify_init1 || number == SYS_fanotify_init;
}

static void before_watch(bool is_asked) {
    begin_while_allowed();
    log_stays_closed(is_asked);
}

// The first call of the process resolves these.
HOOK("inotify_init", int, wrap_inotify_init, (void)) {
    before_watch(false);
    return real.inotify_init ? real.inotify_init()
                             : (int)with_errno(raw_syscall(SYS_inotify_init1, 0, 0, 0, 0, 0, 0));
}

HOOK("inotify_init1", int, wrap_inotify_init1, (int flags)) {
    before_watch(false);
    return real.inotify_init1 ? real.inotify_init1(flags)
                              : (int)with_errno(raw_syscall(SYS_inotify_init1, flags, 0, 0, 0, 0, 0));
}

HOOK("fanotify_init", int, wrap_fanotify_init, (unsigned flags, unsigned events)) {
    before_watch(true);
    return real.fanotify_init ? real.fanotify_init(flags, events)
                              : (int)with_errno(raw_syscall(SYS_fanotify_init, flags, events, 0, 0, 0, 0));
}

// ---- sandboxes ----
//
// prctl and seccomp are watched for the moment at which the program forbids itself system calls (seccomp), or has them handed to
// a handler of its own (user dispatch, as Wine does). From then on any call of ours may be its end, or be taken for one of the
// program's, so the recorder makes none: it goes on in room prepared just before, without samples, and stops when that is
// used up (seal.c). Where the cycle counter is forbidden it stops at once. By syscall() a program may also fork and limit itself past
// the functions that are watched for that.

// These are prctl's, whose header would declare the function with other parameters, and seccomp's, whose header is the kernel's
// and not everywhere.
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
        begin_while_allowed();
        seal_hold(bytes_min);
    }
    errno = saved;
    return holds;
}

static void let_go(void) {
    int saved = errno;
    seal_release();
    errno = saved;
}

// Before the call that forbids. True if let_go() is to follow should the kernel refuse it.
static bool prepare(bool forbids_counter) {
    if (!forbids_counter) return hold(0);
    int saved = errno;
    log_give_up(HT_STOP_SANDBOX);
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
    begin_while_allowed();
    seal_foresees_filter();
    errno = saved;
}

// Variadic both of them; in the calling conventions of x86_64 and aarch64 that makes no difference.
HOOK("prctl", int, wrap_prctl, (int option, long a, long b, long c, long d)) {
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
        (recorder_may_call() || (seal_rules_filter_out_at_once() && recorder_may_call()))) {
        log_note_if_out_of_reach(recording, "landlock");
        recorder_has_called();
    }
    errno = saved;
    return result;
}

// ---- syscall() ----

HOOK("syscall", long, wrap_syscall, (long number, long a, long b, long c, long d, long e, long f)) {
    // Libraries ask what the kernel can do by calls that must fail: those forbid nothing.
    bool strict = number == SYS_seccomp && a == SET_MODE_STRICT && !b && !c;
    bool filter = number == SYS_seccomp && a == SET_MODE_FILTER && c;
    find_libcs_for_clone(number);
    uint64_t clone_by = clone_flags(number, a, b);
    if (unlikely(clone_by & CLONE_FILES)) apart_shares_descriptors();
    if (unlikely(number == SYS_clone && wrap_clone_shares_storage(clone_by))) recorder_shares_storage();
    // A fork without libc's: its handlers do not run.
    if (unlikely(!(clone_by & CLONE_VM))) return fork_noticed(number, a, b, c, d, e);
    if (unlikely(is_limit(number))) return limit_by_number(number, a, b, c, d);
    if (unlikely(number == SYS_mq_notify && b)) before_notification();
    if (unlikely(is_watch(number))) before_watch(number == SYS_fanotify_init);
    if (unlikely(number == SYS_prctl && is_forbidding((int)a))) return wrap_prctl((int)a, b, c, d, e);
    if (unlikely(number == SYS_landlock_restrict_self)) return restrict_files(a, b);
    if (likely(!strict && !filter)) return call_by_number(number, a, b, c, d, e, f);
    bool held = prepare(strict);
    long result = call_by_number(number, a, b, c, d, e, f);
    if (result < 0 && held) let_go();
    return result;
}
