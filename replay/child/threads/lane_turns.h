// SPDX-License-Identifier: Apache-2.0
// Threads by turns, under simulation: one at a time executes its ops, from one TIME word to the next, and hands on to
// the one that is earliest in trace time (of equal ones the lower number). So the order does not depend on the kernel,
// and counts repeat. With accesses, TIME words also lie wherever the trace goes on with another thread, and no two are of
// one time: then the order is that of the trace. A thread that waits for a slot hands on too, and is passed over until what it waits for has been
// done; one that ends is joined by the next before that goes on, because its end costs the allocator calls.
//
// Why this cannot deadlock: as in replay_window.c, the thread of the first op in trace order that has not been executed
// exists and waits for no slot. Whoever has the turn executes a word, or hands on to one that waits for no slot.
#ifndef HEAPTAPE_LANE_TURNS_H
#define HEAPTAPE_LANE_TURNS_H

#include "replay_lane.h"

// The lane takes part from now on; its thread waits by ht_turn_await before its first op.
void ht_turn_enter(struct ht_lane *lane);
void ht_turn_await(struct ht_lane *lane);

// By nobody's turn yet: to the first.
void ht_turn_begin(struct ht_window *window);
// The lane has the turn, and has moved on; returns when it has it again.
void ht_turn_pass(struct ht_lane *lane);
// Likewise, once that dependency is there.
void ht_turn_pass_until(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency);
// The lane has executed its last op, and has told the window so.
void ht_turn_leave(struct ht_lane *lane);

#endif
