// SPDX-License-Identifier: Apache-2.0
// The allocator's own threads under trace time. One that sleeps until a moment sleeps until the trace has
// come there: before the clock is set past a sleeper's deadline, it is set to the deadline, the sleeper is
// woken, and who advances the clock waits until it sleeps again. So what it does in a pause of the program,
// it does in the trace's pause, at the moments it would, although the pause takes no time (a discrete-event
// simulation; what a background thread does takes no trace time).
#ifndef HEAPTAPE_BACKGROUND_THREADS_H
#define HEAPTAPE_BACKGROUND_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

bool ht_another_thread_is_ready(void);

#define HT_NO_DEADLINE_NS UINT64_MAX

// Which threads of this process could go on: they run, or wait for nothing but a processor. On a machine that
// does other things besides, the real clock does not separate these from those that wait for something.

// A thread is the allocator's unless it is the initial one or has said that it is a replay thread.
void ht_background_not_this_thread(void);

// Once the virtual clock runs: those who sleep already shall sleep by it. clock_ns is what the clock shows;
// real_ns_per_trace_ns how slowly the trace is replayed (0: as fast as it goes).
void ht_background_start(_Atomic uint64_t *clock_ns, double real_ns_per_trace_ns);

// In a forked process: none of its parent's threads is here, nor who may have held the lock.
void ht_background_forked(void);

// From which trace time on the clock cannot just be set: somebody's deadline, or 0 while somebody is awake.
extern _Atomic uint64_t ht_background_due_ns;

// Sets the clock, with what is due until then done at its time. Only one thread at a time may.
void ht_background_advance_slowly(_Atomic uint64_t *clock_ns, uint64_t to_ns);
static inline void ht_background_advance(_Atomic uint64_t *clock_ns, uint64_t to_ns) {
    if (__builtin_expect(to_ns < atomic_load_explicit(&ht_background_due_ns, memory_order_acquire), 1)) {
        atomic_store(clock_ns, to_ns);
    } else {
        ht_background_advance_slowly(clock_ns, to_ns);
    }
}

// How many have slept and still exist; and what those that ended had used of the CPU when they slept last.
uint32_t ht_background_sleepers(void);
uint64_t ht_background_ended(uint32_t *count);

// For the functions that wait: between begin and end this thread sleeps, on cond or, if
// that is NULL, in naps. begin returns NULL without room for one more, which then sleeps by real time. end
// reports whether the deadline has come.
struct ht_background;

#endif
