// SPDX-License-Identifier: Apache-2.0
// What is asked of the allocator besides memory, along the trace and at its end.
#ifndef HEAPTAPE_ALLOCATOR_CONTROL_H
#define HEAPTAPE_ALLOCATOR_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "allocator.h"
#include "child_figures.h"
#include "replay_form.h"

// What is asked of the allocator besides memory: the calls by which the recorded program controlled its own, as far as this one
// has them; and free memory given back along the trace, as a program does that calls malloc_trim now and then.
struct ht_purging {
    const struct ht_server *server;  // whose kind can purge
    uint64_t every_ns;               // of trace time
    const _Atomic uint64_t *now_ns;
    _Atomic uint64_t next_ns;
};

// Before a sample of RSS, by whichever thread comes to it first.
void ht_purge_if_due(struct ht_purging *purging);

// The allocator's functions; NULL where it has none.
struct ht_obeyed {
    void *function[HT_STEERS];
};

// Before the replay, because a search may allocate.
void ht_obeyed_find(struct ht_obeyed *obeyed, const struct ht_server *server);
// The call that the words of an HT_WIDE_STEER say.
void ht_obey(const struct ht_obeyed *obeyed, const uint64_t *word);

// What is left when everything has been replayed, and when all of that has been freed.

// The kernel's view of the end, before anything is freed.
void ht_after_replay(int smaps_fd, int statm_fd, struct ht_child_figures *figures);

// Everything has been freed: what remains, and what remains once the allocator has been asked to give back
// what it can.
void ht_after_freeing(const struct ht_server *server, int statm_fd, struct ht_child_figures *figures);

// Frees the blocks of one copy of the trace, in the order of their slots. live: a bit for each slot that
// holds one once all has been replayed, as the launcher asks (replay_job.h).
void ht_left_blocks_free(const uint64_t *live, uint32_t slots, void **table);

#endif
