// What a whole replay leaves alive: told from the form's words, so that a replay can be followed by another
// one in the same process.
#ifndef HEAPTAPE_LEFT_BLOCKS_H
#define HEAPTAPE_LEFT_BLOCKS_H

#include <stdint.h>

#include "replay_form.h"

// Sets left[slot] to 1 for each slot that holds a block once all streams of a held form have been replayed,
// what is inherited included, and to 0 for the others.
void ht_left_blocks_find(const struct ht_form *form, uint8_t *left);

// Frees them, in the order of their slots.
void ht_left_blocks_free(const uint8_t *left, uint32_t slots, void **table);

#endif
