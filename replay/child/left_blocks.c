// SPDX-License-Identifier: Apache-2.0
#include "left_blocks.h"

#include "allocator_calls.h"

void ht_left_blocks_free(const uint64_t *live, uint32_t slots, void **table) {
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (live[slot / 64] >> slot % 64 & 1) HT_CALL_FREE(table[slot]);
    }
}
