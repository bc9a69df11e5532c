// SPDX-License-Identifier: Apache-2.0
// Which of the merge's inputs comes next, and which wait for an address.
#ifndef HEAPTAPE_MERGE_ORDER_H
#define HEAPTAPE_MERGE_ORDER_H

#include "merge_inside.h"

void merge_push_input(struct merge *m, uint32_t input);
// The first input leaves the order.
void merge_pop_input(struct merge *m);
// The first input's key has grown.
void merge_sift_first(struct merge *m);
// The key up to which the first input may run before another's turn comes. Of a tie, the lower number goes
// first, however the records came in: a growing log gives the same order as a finished one.
uint64_t merge_second_key(const struct merge *m);

// Is another input about to deliver what the first input's record lacks, at most so long after it: its address made live, or
// else free? AHEAD_UNKNOWN: of a growing log, whose horizon is not that far yet.
enum merge_ahead { AHEAD_NONE, AHEAD_FOUND, AHEAD_UNKNOWN, AHEAD_NO_MEMORY };
enum merge_ahead merge_look_ahead(struct merge *m, const struct ht_raw_record *record, bool live,
                                  uint64_t limit_stamps);

// The input, which is in the order no more, waits for the address to change hands, but
// no longer than until the others are that far beyond it. False for want of memory.
bool merge_block_input(struct merge *m, uint32_t number, uint64_t address, uint64_t limit_stamps);
// The input is no longer among those that wait; its address's list still has it.
void merge_unblock_input(struct merge *m, uint32_t number);
// The address has changed hands: all that waited for it are in the order again.
void merge_wake_inputs(struct merge *m, uint64_t address);

#endif
