// SPDX-License-Identifier: Apache-2.0
// How launcher and measured child agree on the processors that a child is shown (--cpus).
#ifndef HEAPTAPE_PROCESSOR_NUMBER_H
#define HEAPTAPE_PROCESSOR_NUMBER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// As many as cpu_set_t holds: allocators ask with one.
enum { HT_PROCESSORS_MAX = 1024 };

// In the environment of a child, with the number.
#define HT_PROCESSORS_VARIABLE "HEAPTAPE_PROCESSORS="

// Rooms by which the launcher knows a sched_getaffinity of the harness. Without a buffer, which the kernel refuses: the
// replay begins, and with it the count of system calls. And for the answer that is true (the kernel writes no more than
// its own mask has).
enum { HT_BEGIN_COUNTING = 0x100008, HT_TRUE_AFFINITY = 0x100010 };

// Threads that chose processors for themselves (sched_setaffinity), and on which of the shown ones each is said to run. The
// launcher adds, the child reads: a table by thread, of which half stays empty. Threads beyond that are as if they had not.
enum { HT_CHOSEN_PLACES = 2048 };

struct ht_chosen_processors {
    _Atomic uint32_t count;
    struct {
        _Atomic uint32_t thread, number;  // 0: none
    } places[HT_CHOSEN_PLACES];
};

// The thread's place, or the empty one where it would be, which for a while has the number alone.
static inline uint32_t ht_chosen_place(const struct ht_chosen_processors *chosen, pid_t thread) {
    uint32_t place = (uint32_t)thread % HT_CHOSEN_PLACES;
    for (uint32_t i = 0; i < HT_CHOSEN_PLACES; i++) {
        uint32_t is = chosen->places[place].thread;
        if (!is || is == (uint32_t)thread) break;
        place = (place + 1) % HT_CHOSEN_PLACES;
    }
    return place;
}

// On which processor a thread is said to run: threads that start one after the other are on one after the other. chosen may be
// NULL.
static inline uint32_t ht_processor_number(const struct ht_chosen_processors *chosen, pid_t thread,
                                           uint32_t processors) {
    if (chosen && chosen->count) {
        uint32_t place = ht_chosen_place(chosen, thread);
        if (chosen->places[place].thread == (uint32_t)thread) return chosen->places[place].number;
    }
    return (uint32_t)thread % processors;
}

#endif
