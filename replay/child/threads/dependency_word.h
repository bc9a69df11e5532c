// SPDX-License-Identifier: Apache-2.0
// The word of a slot by which threads keep its dependencies (slot_dependency.h).
#ifndef HEAPTAPE_DEPENDENCY_WORD_H
#define HEAPTAPE_DEPENDENCY_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "futex_word.h"

// The word holds the number's lower 31 bits, and in bit 0 whether somebody sleeps.
static inline bool ht_dependency_is(uint32_t word, uint32_t dependency) {
    return (word ^ dependency << 1) <= 1;
}

// Spins until the number is there, but not longer than turns_max turns, and returns how many.
uint32_t ht_dependency_spin(_Atomic uint32_t *word, uint32_t dependency, uint32_t turns_max);

#endif
