// SPDX-License-Identifier: Apache-2.0
#include "live_blocks.h"

#include <stdlib.h>

#include "heap_model.h"

struct born {
    uint64_t event;
    struct live_block block;
    uint32_t site;
};

static int earlier_first(const void *a, const void *b) {
    const struct born *left = a, *right = b;
    return (left->event > right->event) - (left->event < right->event);
}

bool live_blocks_take(struct live_blocks *blocks, const struct heap_model *heap) {
    const struct map64 *addresses = &heap->addresses;
    struct born *born = malloc((addresses->count + 1) * sizeof *born);
    size_t count = 0;
    *blocks = (struct live_blocks){.block = malloc((addresses->count + 1) * sizeof *blocks->block),
                                   .site = malloc((addresses->count + 1) * sizeof *blocks->site),
                                   .settings = heap->settings};
    bool made = born && blocks->block && blocks->site && !heap->no_memory;
    for (size_t i = 0; made && i < (size_t)1 << addresses->bits; i++) {
        if (!map64_has(addresses, i)) continue;
        uint32_t slot = (uint32_t)addresses->entry[i].value;
        born[count++] = (struct born){heap->last_event[slot],
                                      {addresses->entry[i].key, heap->slots.state[slot].size},
                                      slot < heap->last_site_room ? heap->last_site[slot] : 0};
    }
    if (made) qsort(born, count, sizeof *born, earlier_first);
    for (size_t i = 0; i < count; i++) {
        blocks->block[i] = born[i].block;
        blocks->site[i] = born[i].site;
    }
    blocks->count = count;
    free(born);
    made = made && site_collector_copy_some(&blocks->sites, &heap->sites, blocks->site, count);
    if (!made) live_blocks_free(blocks);
    return made;
}

bool live_blocks_give(const struct live_blocks *blocks, struct heap_model *heap, uint32_t heir) {
    if (!site_collector_copy(&heap->sites, &blocks->sites)) return false;
    for (size_t i = 0; i < blocks->count; i++) {
        const struct live_block *block = &blocks->block[i];
        uint32_t thread = blocks->thread ? blocks->thread[i] : heir;
        uint32_t slot = heap_model_make(heap, block->address, block->bytes, thread);
        if (!slot) return false;
        // How much of a large one was resident when the parent allocated it says nothing about this process.
        if (block->bytes >= HT_LARGE_BLOCK_BYTES && !heap_model_note_birth(heap, slot, block->address, 0, 0))
            return false;
        heap->site = blocks->site ? blocks->site[i] : 0;
        heap_model_event(heap, ht_op(HT_INHERIT, HT_PLAIN), thread, 0, slot, block->bytes, 0);
        heap->totals.inherited_objects++;
        heap->totals.inherited_bytes += block->bytes;
    }
    heap->site = 0;
    heap_model_put_settings(heap, &blocks->settings, heir);
    return true;
}

void live_blocks_free(struct live_blocks *blocks) {
    free(blocks->block);
    free(blocks->site);
    free(blocks->thread);
    site_collector_free(&blocks->sites);
    *blocks = (struct live_blocks){0};
}
