// SPDX-License-Identifier: Apache-2.0
// The executable exports these names, so that every library in the process that reads a clock reads this
// one. Interposition has no argument to carry state in: hence the globals here.
#include "virtual_clock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

#include "next_functions.h"
#include "raw_clock.h"
#include "replay_job.h"

enum { CLOCKS = 16 };

static struct {
    const _Atomic uint64_t *_Atomic trace_ns;  // NULL: real time
    _Atomic uint64_t shown_ns;                 // what the last reading was
    uint64_t base_ns[CLOCKS];
    _Atomic bool renounced;
    _Atomic uint32_t held_readings;  // so many readings more show the moment at which the process started
    bool running[CLOCKS];            // clocks that pass with time, unlike those that count CPU
} virtual_clock;

static void set_bases(void) {
    static const clockid_t running[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                        CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME,  CLOCK_TAI,
                                        CLOCK_MONOTONIC_COARSE};
    for (size_t i = 0; i < sizeof running / sizeof *running; i++) {
        clockid_t id = running[i];
        virtual_clock.base_ns[id] = ht_raw_clock_ns(id);
        virtual_clock.running[id] = true;
    }
}

// What an allocator notes down when it starts, such as when to purge next, must not depend on how long the
// process takes from there to the trace's first call, or peaks differ from run to run. So its first readings
// all show the same moment, which becomes trace time 0. A thread that reads more often than that, or sleeps,
// is after the time that passes, and gets it.
enum { HELD_READINGS = 64 };

static void hold(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    for (char **at = environment; *at; at++) {
        if (strcmp(*at, HT_CLOCK_HELD)) continue;
        set_bases();
        virtual_clock.held_readings = HELD_READINGS;
    }
}
// An executable's alone can be so early.
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **,
                                                                                 char **) = hold;

void ht_virtual_clock_release(void) { atomic_store(&virtual_clock.held_readings, 0); }

static bool is_held(clockid_t id) {
    uint32_t left = atomic_load_explicit(&virtual_clock.held_readings, memory_order_relaxed);
    if (!left || ht_virtual_clock_runs() || id < 0 || id >= CLOCKS || !virtual_clock.running[id])
        return false;
    return atomic_compare_exchange_strong(&virtual_clock.held_readings, &left, left - 1);
}

void ht_virtual_clock_start(const _Atomic uint64_t *trace_ns) {
    if (!atomic_load(&virtual_clock.held_readings)) set_bases();
    atomic_store(&virtual_clock.trace_ns, trace_ns);  // background threads may read clocks at this moment
}

bool ht_virtual_clock_runs(void) { return atomic_load(&virtual_clock.trace_ns) != NULL; }

void ht_virtual_clock_renounce(void) { atomic_store(&virtual_clock.renounced, true); }

bool ht_virtual_clock_may_run(void) { return !atomic_load(&virtual_clock.renounced); }

bool ht_virtual_clock_shows(clockid_t id) {
    return ht_virtual_clock_runs() && id >= 0 && id < CLOCKS && virtual_clock.running[id];
}

uint64_t ht_virtual_clock_place_ns(void) {
    const _Atomic uint64_t *trace_ns = atomic_load_explicit(&virtual_clock.trace_ns, memory_order_relaxed);
    return atomic_load_explicit(trace_ns, memory_order_relaxed);
}

uint64_t ht_virtual_clock_read_ns(void) {
    uint64_t trace_ns = ht_virtual_clock_place_ns(), now_ns;
    uint64_t shown_ns = atomic_load_explicit(&virtual_clock.shown_ns, memory_order_relaxed);
    do now_ns = trace_ns > shown_ns ? trace_ns : shown_ns + 1;
    while (!atomic_compare_exchange_weak(&virtual_clock.shown_ns, &shown_ns, now_ns));
    return now_ns;
}

void ht_virtual_clock_skip(uint64_t ns) {
    if (!ht_virtual_clock_runs()) return;
    ht_virtual_clock_read_ns();
    atomic_fetch_add(&virtual_clock.shown_ns, ns);
}

uint64_t ht_virtual_clock_trace_ns(clockid_t id, const struct timespec *moment) {
    uint64_t ns = ht_timespec_ns(moment), base_ns = virtual_clock.base_ns[id];
    return ns > base_ns ? ns - base_ns : 0;
}

// Real time is the C library's, which needs no system call for it: what an allocator pays for its clock
// belongs to it.
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now) {
    if (ht_virtual_clock_shows(id)) {
        *now = ht_timespec(virtual_clock.base_ns[id] + ht_virtual_clock_read_ns());
        return 0;
    }
    if (__builtin_expect(is_held(id), 0)) {
        *now = ht_timespec(virtual_clock.base_ns[id]);
        return 0;
    }
    return ht_next.clock_gettime(id, now);
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / HT_NS_PER_US;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *also) {
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return (time_t)-1;
    if (also) *also = fine.tv_sec;
    return fine.tv_sec;
}

__attribute__((visibility("default"))) int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}
