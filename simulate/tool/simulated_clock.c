// SPDX-License-Identifier: GPL-3.0-or-later
// What makes a program's run differ from its last one: clocks and random numbers. With options.virtual_clock time
// begins at a fixed date and passes with the instructions and with what the program sleeps; random bytes are
// always the same.
#include <asm/unistd_64.h>
#include <elf.h>

#include "tool.h"
#include <libvex_guest_amd64.h>
#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_machine.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_vki.h>

enum { START_S = 1700000000, SECOND_NS = 1000000000, MILLISECOND_NS = 1000000, REAL_TIME_COARSE = 5 };
// 0.3 ns an instruction, as on a processor of 3 GHz and 1.1 instructions per cycle.
enum { INSTRUCTIONS_PER_STEP = 10, STEP_NS = 3, CYCLES_PER_INSTRUCTION = 1 };
enum { MADV_GIVEN_BACK = 4 };  // MADV_DONTNEED
enum { TICK_NS = 10 * MILLISECOND_NS, TIMES_BYTES = 32, USED_TIME_BYTES = 16, USAGE_BYTES = 144 };
enum { RANDOM_FILES = 1024, AUXILIARY_RANDOM_BYTES = 16 };

static ULong slept_ns, random_state = 0x9e3779b97f4a7c15ull;
static UChar is_random_file[RANDOM_FILES];

static ULong virtual_ns(void) { return instructions_so_far() / INSTRUCTIONS_PER_STEP * STEP_NS + slept_ns; }
ULong virtual_cycles(void) { return instructions_so_far() * CYCLES_PER_INSTRUCTION + slept_ns * STEP_NS; }

// Before the instructions are counted anew: time goes on from where it is.
void keep_virtual_time(void) { slept_ns = virtual_ns(); }

static void fill_random(UChar *bytes, ULong count) {
    for (ULong i = 0; i < count; i++) {
        random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
        bytes[i] = (UChar)(random_state >> 56);
    }
}

// The bytes that the kernel put above the first thread's stack, for canaries and hashes.
void fix_random_bytes(UInt tid) {
    UWord *word = (UWord *)VG_(get_SP)(tid);
    word += word[0] + 2;       // argc, argv, NULL
    while (*word++) continue;  // environment, NULL
    for (; word[0] != AT_NULL; word += 2) {
        if (word[0] == AT_RANDOM) fill_random((UChar *)word[1], AUXILIARY_RANDOM_BYTES);
    }
}

static void set_time(UWord room, ULong fraction_ns, ULong from_s) {
    Long *time = (Long *)room;  // seconds, then parts of one
    if (!time) return;
    time[0] = (Long)(virtual_ns() / SECOND_NS + from_s);
    time[1] = (Long)(virtual_ns() % SECOND_NS / fraction_ns);
}

static ULong virtual_clock_begin_s(UWord clock) {
    return clock == VKI_CLOCK_REALTIME || clock == REAL_TIME_COARSE ? START_S : SECOND_NS / 1000;
}

static void set_clock(UWord clock, UWord room) { set_time(room, 1, virtual_clock_begin_s(clock)); }

// Passes the time that is still to come.
static void pass_virtual_time_until(ULong ns) {
    if (ns > virtual_ns()) slept_ns += ns - virtual_ns();
}

static void set_result(UInt tid, ULong result) {
    VG_(set_shadow_regs_area)(tid, 0, offsetof(VexGuestAMD64State, guest_RAX), sizeof result,
                              (const UChar *)&result);
}

// CPU time and other figures of the process: what it used is time that has passed, the rest is 0.
static void set_usage(UWord room) {
    set_time(room, 1000, 0);
    VG_(memset)((UChar *)room + USED_TIME_BYTES, 0, USAGE_BYTES - USED_TIME_BYTES);
}

static void set_times(UInt tid, UWord room) {
    ULong ticks = virtual_ns() / TICK_NS;
    if (room) VG_(memset)((void *)room, 0, TIMES_BYTES), *(ULong *)room = ticks;
    set_result(tid, ticks);
}

static void after_clock_syscall(UInt tid, UInt number, UWord *arguments) {
    switch (number) {
    case __NR_time:
        if (arguments[0]) *(ULong *)arguments[0] = virtual_ns() / SECOND_NS + START_S;
        set_result(tid, virtual_ns() / SECOND_NS + START_S);
        break;
    case __NR_times: set_times(tid, arguments[0]); break;
    case __NR_getrusage: set_usage(arguments[1]); break;
    case __NR_clock_gettime: set_clock(arguments[0], arguments[1]); break;
    case __NR_gettimeofday: set_time(arguments[0], 1000, START_S); break;
    }
}

static Bool is_random_path(const HChar *path) {
    return !VG_(strcmp)(path, "/dev/urandom") || !VG_(strcmp)(path, "/dev/random");
}

static void set_random_file(UWord fd, Bool random) {
    if (fd < RANDOM_FILES) is_random_file[fd] = random;
}

static void after_random_syscall(UInt number, UWord *arguments, SysRes result) {
    switch (number) {
    case __NR_getrandom: fill_random((UChar *)arguments[0], sr_Res(result)); break;
    case __NR_open: set_random_file(sr_Res(result), is_random_path((const HChar *)arguments[0])); break;
    case __NR_openat: set_random_file(sr_Res(result), is_random_path((const HChar *)arguments[1])); break;
    case __NR_close: set_random_file(arguments[0], False); break;
    case __NR_read:
        if (arguments[0] < RANDOM_FILES && is_random_file[arguments[0]])
            fill_random((UChar *)arguments[1], sr_Res(result));
        break;
    }
}

// System calls that wait for a time. Under the virtual clock a wait that was not cut short ends at the virtual time that it
// waited for; and the kernel, whose clocks show another time, is given absolute times as its own.
// Of Valgrind's core, in no header for tools.
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);

enum { MICROSECOND_NS = 1000, ABSOLUTE = 1, TIMED_OUT = 110, TRY_AGAIN = 11 };
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

static void before_wait(UInt tid, UInt number, const UWord *arguments) {
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

static void after_wait(UInt tid, UInt number, SysRes result) {
    struct wait *wait = wait_of(tid);
    if (wait->changed) *wait->changed = wait->saved;
    if (wait->until_ns && waited(number, result)) pass_virtual_time_until(wait->until_ns);
    *wait = (struct wait){0};
}

// The program's own calls are the same under every allocator.
static void count_mapping_call(UInt number) {
    if (!running.counts || !running.in_allocator) return;
    switch (number) {
    case __NR_brk:
    case __NR_mmap:
    case __NR_munmap:
    case __NR_mremap:
    case __NR_mprotect:
    case __NR_madvise: counts.mapping_calls++;
    }
}

void before_syscall(UInt tid, UInt number, UWord *arguments, UInt count) {
    (void)count;
    count_mapping_call(number);
    if (options.virtual_clock) before_wait(tid, number, arguments);
}

void after_syscall(UInt tid, UInt number, UWord *arguments, UInt count, SysRes result) {
    (void)count;
    if (options.virtual_clock) after_wait(tid, number, result);
    if (sr_isError(result)) return;
    if (number == __NR_madvise && arguments[2] == MADV_GIVEN_BACK)
        give_back_pages(arguments[0], arguments[1]);
    if (!options.virtual_clock) return;
    after_clock_syscall(tid, number, arguments);
    after_random_syscall(number, arguments, result);
}
