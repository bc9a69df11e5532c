// SPDX-License-Identifier: Apache-2.0
#include "slot_coder.h"

#include <string.h>

void slot_coder_begin(struct slot_coder *coder) {
    coder->births = coder->nodes = coder->threads = 0;
    if (++coder->mark == 0) {
        // After 65,536 sections old marks would come alive again.
        memset(coder->thread_entry, 0, sizeof coder->thread_entry);
        memset(coder->slot_entry, 0, sizeof coder->slot_entry);
        coder->mark = 1;
    }
}

uint32_t slot_coder_thread(struct slot_coder *coder, uint32_t thread) {
    uint64_t *entry = slot_coder_find(coder, coder->thread_entry, thread);
    if (!slot_coder_live(coder, *entry)) {
        coder->born[coder->threads] = coder->first[coder->threads] = 0;
        coder->top[coder->threads++] = 0;
        *entry = slot_coder_entry(coder, thread, coder->threads);
    }
    return (uint16_t)*entry;
}
