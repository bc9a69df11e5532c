// SPDX-License-Identifier: Apache-2.0
// One allocator replays the trace in one way.
#ifndef HEAPTAPE_TURN_H
#define HEAPTAPE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "replay_job.h"

// Who takes a turn: the null replayer is 0, the allocators 1 to choices, the baseline's second run choices
// + 1.
enum { HT_WHO_NULL = 0 };

struct ht_turn {
    uint32_t round;  // 0 in the warm-up, too
    bool warm_up;
    uint32_t who;
    enum ht_pass pass;   // flat, timed or memory
    bool timed_follows;  // of a flat turn: the time pass is not complete without the timed one
    int cpu;             // -1: any
    uint32_t layout;     // of the replay's code in a time pass
};

#endif
