// SPDX-License-Identifier: Apache-2.0
// The same loop at several places: where code lies moves times, so each run draws one of them.
#include "replay_engine.h"
#include "server.h"

#ifdef HT_ONE_LAYOUT
static ht_lane_run *const layouts[HT_LAYOUTS] = {[0 ... HT_LAYOUTS - 1] = ht_engine_layout_0};
#else
ht_lane_run ht_engine_layout_1, ht_engine_layout_2, ht_engine_layout_3, ht_engine_layout_4,
    ht_engine_layout_5, ht_engine_layout_6, ht_engine_layout_7;
static ht_lane_run *const layouts[HT_LAYOUTS] = {
    ht_engine_layout_0, ht_engine_layout_1, ht_engine_layout_2, ht_engine_layout_3,
    ht_engine_layout_4, ht_engine_layout_5, ht_engine_layout_6, ht_engine_layout_7,
};
#endif

// Whole, under its name, in every build.
#if __has_attribute(noipa)
#define BY_NAME __attribute__((noipa))
#else
#define BY_NAME __attribute__((noinline))
#endif

static inline void run_in_layout(struct ht_lane *lane) {
    ht_new_guard(lane);
    layouts[lane->layout](lane);
    ht_new_guard(NULL);
    __asm__ volatile("");  // a jump instead of the call would leave the function
}

BY_NAME void ht_engine_run(struct ht_lane *lane) { run_in_layout(lane); }
BY_NAME void ht_engine_run_before(struct ht_lane *lane) { run_in_layout(lane); }
