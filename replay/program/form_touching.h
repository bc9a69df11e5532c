// SPDX-License-Identifier: Apache-2.0
// Large blocks that the program filled bit by bit: the trace knows how many of their pages were resident by
// when, and the replay touches them along its way, a portion at a time, in the stream of the thread that has
// them.
#ifndef HEAPTAPE_FORM_TOUCHING_H
#define HEAPTAPE_FORM_TOUCHING_H

#include "form_births.h"

struct ht_filling;

struct ht_touching {
    struct ht_form_state *form;
    // Called for each portion that is written.
    void (*touched)(void *context, uint32_t slot, uint64_t pages);
    void *context;
    // Blocks that are being filled: a binary heap, by when the next portion is due.
    struct ht_filling *filling;
    size_t count, room;
    uint32_t *place_of_slot;  // in the heap, plus one; 0: nowhere
    size_t slots_room;
    uint64_t due_ns;  // when the first portion is due; UINT64_MAX: none is
};

void ht_touching_init(struct ht_touching *touching, struct ht_form_state *form);
void ht_touching_free(struct ht_touching *touching);

// How many pages of the block are touched at once, by its allocation at that time.
uint64_t ht_touching_at_once(const struct ht_touching *touching, const struct ht_birth *birth,
                             uint64_t time_ns, bool inherited);

// The block in that slot has been allocated in that stream, and lives there until it ends: the rest of it
// comes bit by bit. Until then the stream has one more event to come. Returns 0, or -1 with error, as do the
// following.
int ht_touching_begin(struct ht_touching *touching, const struct ht_birth *birth, uint32_t slot,
                      uint32_t stream, uint64_t bytes, uint64_t time_ns, uint64_t pages_touched);

// Writes all portions that are due by then.
int ht_touching_until(struct ht_touching *touching, uint64_t time_ns);

// The block in that slot ends: what is left of its portions comes first.
int ht_touching_end(struct ht_touching *touching, uint32_t slot);

// The same for all blocks of the stream, whose thread ends.
int ht_touching_end_stream(struct ht_touching *touching, uint32_t stream);

// The trace ends, at that time or, if it is 0, at one that is not known: what would be due later is left out.
int ht_touching_end_all(struct ht_touching *touching, uint64_t end_ns);

#endif
