// The word of a slot by which threads hand it over (slot_handover.h).
#ifndef HEAPTAPE_HANDOVER_WORD_H
#define HEAPTAPE_HANDOVER_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "futex_word.h"

// The word holds the number's lower 31 bits, and in bit 0 whether somebody sleeps.
static inline bool ht_handover_is(uint32_t word, uint32_t handover) { return (word ^ handover << 1) <= 1; }

// Spins until the number is there, but not longer than turns_max turns, and returns how many.
uint32_t ht_handover_spin(_Atomic uint32_t *word, uint32_t handover, uint32_t turns_max);

#endif
