// SPDX-License-Identifier: Apache-2.0
// Trace time for the allocator: allocators that give memory back by the clock need the program's pauses, and
// this lets them pass without waiting. Every way of asking for the time leads here: clock_gettime,
// gettimeofday, time, timespec_get. Clocks that count CPU stay what they are.
#ifndef HEAPTAPE_VIRTUAL_CLOCK_H
#define HEAPTAPE_VIRTUAL_CLOCK_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <time.h>

enum { HT_NS_PER_US = 1000, HT_NS_PER_S = 1000000000 };

// Clocks that stood still while the process started (HT_CLOCK_HELD) go on before the replay does: somebody waits for
// time to pass.
void ht_virtual_clock_release(void);

// From now on all clocks that pass with time show this moment plus *trace_ns.
void ht_virtual_clock_start(const _Atomic uint64_t *trace_ns);
bool ht_virtual_clock_runs(void);
// The other way: this process stays with real time.
void ht_virtual_clock_renounce(void);
bool ht_virtual_clock_may_run(void);

// Trace time as the allocator sees it. Each reading is later than the one before, if only by a nanosecond:
// who turns in a loop until a moment has come must come out of it, although the trace stands still meanwhile.
uint64_t ht_virtual_clock_read_ns(void);
// This is where the trace itself is.
uint64_t ht_virtual_clock_place_ns(void);
// A thread of the replay has waited in real time, which its clock shows until the trace has caught up.
void ht_virtual_clock_skip(uint64_t ns);

// The moment of a clock that the allocator sees, as trace time; 0 for any before the start.
uint64_t ht_virtual_clock_trace_ns(clockid_t id, const struct timespec *moment);
// Whether the clock passes with time and so shows trace time.
bool ht_virtual_clock_shows(clockid_t id);

static inline struct timespec ht_timespec(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / HT_NS_PER_S), .tv_nsec = (long)(ns % HT_NS_PER_S)};
}
static inline uint64_t ht_timespec_ns(const struct timespec *time) {
    return time->tv_sec < 0 ? 0 : (uint64_t)time->tv_sec * HT_NS_PER_S + (uint64_t)time->tv_nsec;
}

// The functions that names of ours hide: the next ones of these names, usually the C library's. They are
// searched before any library's constructor runs, not when they are first called: that may be with an
// allocator's lock held, while another thread holds the loader's and wants memory.
#define HT_NEXT_FUNCTIONS(X)                                                                                 \
    X(clock_gettime)                                                                                         \
    X(nanosleep)                                                                                             \
    X(clock_nanosleep)                                                                                       \
    X(poll)                                                                                                  \
    X(ppoll)                                                                                                 \
    X(select)                                                                                                \
    X(pselect)                                                                                               \
    X(pthread_cond_wait)                                                                                     \
    X(pthread_cond_timedwait)                                                                                \
    X(pthread_cond_clockwait)                                                                                \
    X(pthread_cond_signal)                                                                                   \
    X(pthread_cond_broadcast)                                                                                \
    X(sem_wait)                                                                                              \
    X(sem_clockwait)

#define HT_NEXT_POINTER(NAME) __typeof__(&NAME) NAME;
extern struct ht_next {
    HT_NEXT_FUNCTIONS(HT_NEXT_POINTER)
} ht_next;

// Who reads the cycle counter goes past every clock of the C library's. On x86 the kernel can make the
// reading a fault, which this answers with ticks that pass as trace time does, and so finds out who it is. It
// costs microseconds a reading: for passes that do not take time. Elsewhere there is no such trap.

// Once the virtual clock runs: for this thread, and for those that it starts. False where there is no trap,
// or somebody else handles the signal. Our own code, which reads the real
// counter, had better not until the end.
bool ht_cycle_trap_start(void);
// On the same thread. Names the object that read the counter first; empty if none did.
void ht_cycle_trap_end(char *reader, size_t room);

#endif
