// SPDX-License-Identifier: Apache-2.0
#include "lane_turns.h"

#include <stddef.h>

#include "dependency_word.h"
#include "futex_word.h"
#include "lane_threads.h"

void ht_turn_enter(struct ht_lane *lane) {
    atomic_store(&lane->wake, 0);
    lane->awaited = NULL;
    lane->next_in_turn = lane->window->in_turn;
    lane->window->in_turn = lane;
}

static void remove_lane(struct ht_lane *lane) {
    struct ht_lane **at = &lane->window->in_turn;
    while (*at != lane) at = &(*at)->next_in_turn;
    *at = lane->next_in_turn;
}

static bool can_run(const struct ht_lane *lane) {
    return !lane->awaited || ht_dependency_is(atomic_load(lane->awaited), lane->awaited_dependency);
}

static bool is_earlier(const struct ht_lane *a, const struct ht_lane *b) {
    uint64_t a_ns = atomic_load(&a->place_ns), b_ns = atomic_load(&b->place_ns);
    return a_ns != b_ns ? a_ns < b_ns : a->number < b->number;
}

static struct ht_lane *earliest(const struct ht_window *window) {
    struct ht_lane *found = NULL;
    for (struct ht_lane *lane = window->in_turn; lane; lane = lane->next_in_turn) {
        if (can_run(lane) && (!found || is_earlier(lane, found))) found = lane;
    }
    return found;
}

static void hand_to(struct ht_lane *lane) {
    if (!lane) return;
    atomic_store(&lane->wake, 1);
    ht_futex_wake(&lane->wake);
}

// Who ended before this turn is gone when it begins.
void ht_turn_await(struct ht_lane *lane) {
    while (!atomic_load(&lane->wake)) ht_futex_wait(&lane->wake, 0);
    atomic_store(&lane->wake, 0);
    if (lane->window->leavers) ht_lane_threads_join(lane->window);
}

void ht_turn_begin(struct ht_window *window) { hand_to(earliest(window)); }

void ht_turn_pass(struct ht_lane *lane) {
    struct ht_lane *next = earliest(lane->window);
    if (next == lane) return;
    hand_to(next);
    ht_turn_await(lane);
}

void ht_turn_pass_until(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency) {
    lane->awaited = word;
    lane->awaited_dependency = dependency;
    ht_turn_pass(lane);
    lane->awaited = NULL;
}

void ht_turn_leave(struct ht_lane *lane) {
    remove_lane(lane);
    hand_to(earliest(lane->window));
}
