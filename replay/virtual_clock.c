// The executable exports these names, so that every library in the process that reads the clock reads this
// one. Interposition has no argument to carry state in: hence the one global here.
#include "virtual_clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CLOCKS = 16 };

static struct {
    const _Atomic uint64_t *trace_ns;  // NULL: real time
    struct timespec base[CLOCKS];
    bool running[CLOCKS];  // clocks that pass with time, unlike those that count CPU
} virtual_clock;

static int real_clock_gettime(clockid_t id, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, id, now);
}

void ht_virtual_clock_start(const _Atomic uint64_t *trace_ns) {
    static const clockid_t running[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                        CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME,  CLOCK_TAI,
                                        CLOCK_MONOTONIC_COARSE};
    for (size_t i = 0; i < sizeof running / sizeof *running; i++) {
        clockid_t id = running[i];
        virtual_clock.running[id] = real_clock_gettime(id, &virtual_clock.base[id]) == 0;
    }
    virtual_clock.trace_ns = trace_ns;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now) {
    if (!virtual_clock.trace_ns || id < 0 || id >= CLOCKS || !virtual_clock.running[id]) {
        return real_clock_gettime(id, now);
    }
    uint64_t trace_ns = atomic_load_explicit(virtual_clock.trace_ns, memory_order_relaxed);
    uint64_t ns = (uint64_t)virtual_clock.base[id].tv_nsec + trace_ns % 1000000000u;
    now->tv_sec = virtual_clock.base[id].tv_sec + (time_t)(trace_ns / 1000000000u + ns / 1000000000u);
    now->tv_nsec = (long)(ns % 1000000000u);
    return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}
