// SPDX-License-Identifier: Apache-2.0
#include "dependency_word.h"

#include "raw_clock.h"

uint32_t ht_dependency_spin(_Atomic uint32_t *word, uint32_t dependency, uint32_t turns_max) {
    uint32_t turns = 0;
    while (turns < turns_max &&
           !ht_dependency_is(atomic_load_explicit(word, memory_order_acquire), dependency)) {
        ht_cpu_relax();
        turns++;
    }
    return turns;
}
