// SPDX-License-Identifier: Apache-2.0
// What the trace knows of the residency of large blocks, taken in the order of their births; and what is taken from them for
// blocks of which it knows nothing.
#ifndef HEAPTAPE_FORM_BIRTHS_H
#define HEAPTAPE_FORM_BIRTHS_H

#include "form_operation.h"
#include "form_state.h"

// What is known of the block that an event made.
struct ht_birth {
    uint64_t pages_before;    // right after the allocation
    uint64_t pages_after;     // at its end; HT_PAGES_BY_RULE: not known
    uint64_t pages_spared;    // of these the program cannot have written so many
    size_t steps, steps_end;  // of the facts' steps
};

struct ht_births {
    const struct ht_form_state *form;
    size_t residency_at, steps_at;  // in the facts: what has not been taken
    uint64_t next_event;            // the first event that they describe; UINT64_MAX: none
};

void ht_births_init(struct ht_births *births, const struct ht_form_state *form);

// What is known of the block born by this event. Events are asked for in their order.
struct ht_birth ht_births_of(struct ht_births *births, uint64_t event);

// The recorder measures large blocks only as far as that costs little. Another is filled as the last one was that is known, of
// nearly its size; so is one that lay in memory that was resident before.
enum {
    HT_SIMILAR_LEAST_BYTES = 16 << 10,
    HT_SIMILAR_OCTAVES = 30,
    HT_SIMILAR_CLASSES = HT_SIMILAR_OCTAVES * 64,
    HT_SIMILAR_NEAR_CLASSES = 16,     // a quarter more or less, where none of nearly its size is known
    HT_SIMILAR_NEAR_BYTES = 64 << 10  // of blocks that are not smaller
};

struct ht_similar_block {
    uint32_t pages, resident;  // its pages, and how many were resident in the end; 0, 0: none is known
};

struct ht_similar {
    // Malloc's kind and calloc; by size, in steps of 1.6 %.
    struct ht_similar_block known[2][HT_SIMILAR_CLASSES];
};

// What the program cannot have written does not count. Not so of what a realloc left, which was written before.
void ht_birth_leave_spared(struct ht_birth *birth, const struct ht_operation *op);
// Is it known how much of the block the program filled? Not where its pages were resident before, in memory that is used
// again, nor, from HT_SIMILAR_NEAR_BYTES on, where half of them were and none came; unless there was no time to write most.
bool ht_similar_is_known(const struct ht_birth *birth, const struct ht_operation *op);
// So many pages of the block that the operation made were resident in the end.
void ht_similar_learn(struct ht_similar *similar, const struct ht_operation *op, uint64_t pages);
// How many that will be of a block of which it is not known; HT_PAGES_BY_RULE: no similar one is.
uint64_t ht_similar_pages(const struct ht_similar *similar, const struct ht_operation *op);

#endif
