// SPDX-License-Identifier: Apache-2.0
// Small traces of random shape, made to find waits that never end: few or many threads, some of them idle,
// born late or ended early; blocks that are kept to a thread or handed about; bursts and pauses; sections of
// few events.
#ifndef HEAPTAPE_RANDOM_TRACE_H
#define HEAPTAPE_RANDOM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { STRESS_THREADS_MAX = 64 };

// What a seed makes of a trace.
struct trace_shape {
    uint64_t seed;
    uint32_t threads, events, live;
    uint32_t sharing_percent;  // of the blocks that are freed or changed: anybody's
    uint32_t stay_percent;     // how often the next event is the same thread's
    uint32_t section_events;
    uint64_t step_ns, pause_ns;  // about, between events; between some of them
    uint32_t pause_one_in;
    bool filled;  // large blocks are filled bit by bit
    uint32_t inherited;
    uint64_t end_ns;  // of the whole, once it has been written
};

struct trace_shape trace_shape_of(uint64_t seed);
void trace_shape_text(const struct trace_shape *shape, char *text, size_t room);

// Returns 0, or -1 with error.
int trace_of_shape(const char *path, struct trace_shape *shape, struct ht_error *error);

// splitmix64: the same numbers on every machine.
static inline uint64_t stress_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static inline uint32_t stress_below(uint64_t *state, uint32_t limit) {
    return (uint32_t)((stress_random(state) >> 32) * limit >> 32);
}
static inline bool stress_chance(uint64_t *state, uint32_t percent) {
    return stress_below(state, 100) < percent;
}

#endif
