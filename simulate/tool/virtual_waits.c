// SPDX-License-Identifier: GPL-3.0-or-later
// System calls that wait for a time. Under the virtual clock a wait that was not cut short ends at the virtual time that it
// waited for; and the kernel, whose clocks show another time, is given absolute times as its own.
#include <asm/unistd_64.h>

#include "tool.h"
#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_vki.h>

// Of Valgrind's core, in no header for tools.
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);

enum { MILLISECOND_NS = 1000000, MICROSECOND_NS = 1000, ABSOLUTE = 1, TIMED_OUT = 110, TRY_AGAIN = 11 };
enum { FUTEX_COMMAND = 127, FUTEX_REAL_TIME = 256, FUTEX_LOCK_BY_CLOCK = 13, FUTEX_REQUEUED = 11 };
enum { EPOLL_WAIT_NS = 441 };

// Of a thread, while it waits.
struct wait {
    ULong until_ns;                // virtual; 0: for no time
    struct vki_timespec *changed;  // what the kernel was given in the place of saved; NULL: nothing
    struct vki_timespec saved;
};
static struct wait *waits;  // by ThreadId

static struct wait *wait_of(UInt tid) {
    if (!waits) waits = VG_(calloc)("heaptape.waits", VG_N_THREADS + 1, sizeof *waits);
    return &waits[tid];
}

static ULong ns_of(const struct vki_timespec *time, ULong fraction_ns) {
    return (ULong)time->tv_sec * SECOND_NS + (ULong)time->tv_nsec * fraction_ns;
}

static void for_time(struct wait *wait, UWord time, ULong fraction_ns) {
    if (time) wait->until_ns = virtual_ns() + ns_of((const struct vki_timespec *)time, fraction_ns);
}

static void for_ms(struct wait *wait, Int timeout_ms) {
    if (timeout_ms > 0) wait->until_ns = virtual_ns() + (ULong)timeout_ms * MILLISECOND_NS;
}

// The time is in memory that is constant for the kernel, not always for us.
static void until_time(struct wait *wait, UWord clock, UWord place) {
    struct vki_timespec *time = (struct vki_timespec *)place, now;
    if (!time || !VG_(am_is_valid_for_client)(place, sizeof *time, VKI_PROT_READ | VKI_PROT_WRITE)) return;
    if (sr_isError(VG_(do_syscall)(__NR_clock_gettime, clock, (UWord)&now, 0, 0, 0, 0, 0, 0))) return;
    ULong begin_ns = virtual_clock_begin_s(clock) * SECOND_NS, wanted_ns = ns_of(time, 1);
    ULong until_ns = wanted_ns > begin_ns ? wanted_ns - begin_ns : 0;
    ULong left_ns = until_ns > virtual_ns() ? until_ns - virtual_ns() : 0, end_ns = ns_of(&now, 1) + left_ns;
    *wait = (struct wait){.until_ns = until_ns, .changed = time, .saved = *time};
    *time =
        (struct vki_timespec){.tv_sec = (long)(end_ns / SECOND_NS), .tv_nsec = (long)(end_ns % SECOND_NS)};
}

static void futex(struct wait *wait, const UWord *arguments) {
    UWord real_clock = arguments[1] & FUTEX_REAL_TIME ? VKI_CLOCK_REALTIME : VKI_CLOCK_MONOTONIC;
    switch (arguments[1] & FUTEX_COMMAND) {
    case VKI_FUTEX_WAIT: for_time(wait, arguments[3], 1); break;
    case VKI_FUTEX_LOCK_PI: until_time(wait, VKI_CLOCK_REALTIME, arguments[3]); break;
    case VKI_FUTEX_WAIT_BITSET:
    case FUTEX_REQUEUED:
    case FUTEX_LOCK_BY_CLOCK: until_time(wait, real_clock, arguments[3]); break;
    default: break;
    }
}

void before_wait(UInt tid, UInt number, const UWord *arguments) {
    struct wait *wait = wait_of(tid);
    *wait = (struct wait){0};
    switch (number) {
    case __NR_nanosleep: for_time(wait, arguments[0], 1); break;
    case __NR_clock_nanosleep:
        if (arguments[1] & ABSOLUTE) until_time(wait, arguments[0], arguments[2]);
        else for_time(wait, arguments[2], 1);
        break;
    case __NR_futex: futex(wait, arguments); break;
    case __NR_poll: for_ms(wait, (Int)arguments[2]); break;
    case __NR_epoll_wait:
    case __NR_epoll_pwait: for_ms(wait, (Int)arguments[3]); break;
    case __NR_ppoll:
    case __NR_rt_sigtimedwait: for_time(wait, arguments[2], 1); break;
    case __NR_select: for_time(wait, arguments[4], MICROSECOND_NS); break;
    case __NR_pselect6: for_time(wait, arguments[4], 1); break;
    case EPOLL_WAIT_NS: for_time(wait, arguments[3], 1); break;
    default: break;
    }
}

// Whether it waited to the end of its time, by what the call returned.
static Bool waited(UInt number, SysRes result) {
    if (!sr_isError(result)) return number != __NR_futex && number != __NR_rt_sigtimedwait && !sr_Res(result);
    return number == __NR_futex ? sr_Err(result) == TIMED_OUT
                                : number == __NR_rt_sigtimedwait && sr_Err(result) == TRY_AGAIN;
}

void after_wait(UInt tid, UInt number, SysRes result) {
    struct wait *wait = wait_of(tid);
    if (wait->changed) *wait->changed = wait->saved;
    if (wait->until_ns && waited(number, result)) pass_virtual_time_until(wait->until_ns);
    *wait = (struct wait){0};
}
