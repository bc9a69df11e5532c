// The same loop at several places: where code lies moves times, so each run draws one of them.
#include "new_guard.h"
#include "replay_engine.h"

ht_lane_run ht_engine_layout_1, ht_engine_layout_2, ht_engine_layout_3, ht_engine_layout_4,
    ht_engine_layout_5, ht_engine_layout_6, ht_engine_layout_7;
static ht_lane_run *const layouts[HT_LAYOUTS] = {
    ht_engine_layout_0, ht_engine_layout_1, ht_engine_layout_2, ht_engine_layout_3,
    ht_engine_layout_4, ht_engine_layout_5, ht_engine_layout_6, ht_engine_layout_7,
};

// Whole, under its name, in every build: callgrind counts what is done in it (instruction_count.c).
#if __has_attribute(noipa)
__attribute__((noipa))
#else
__attribute__((noinline))
#endif
void ht_engine_run(struct ht_lane *lane) {
    ht_new_guard(lane);
    layouts[lane->layout](lane);
    ht_new_guard(NULL);
    __asm__ volatile("");  // a jump instead of the call would leave this function
}
