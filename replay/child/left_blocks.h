// SPDX-License-Identifier: Apache-2.0
// What a whole replay leaves alive.
#ifndef HEAPTAPE_LEFT_BLOCKS_H
#define HEAPTAPE_LEFT_BLOCKS_H

#include <stdint.h>

// Frees the blocks of one copy of the trace, in the order of their slots. live: a bit for each slot that
// holds one once all has been replayed, as the launcher asks (replay_job.h).
void ht_left_blocks_free(const uint64_t *live, uint32_t slots, void **table);

#endif
