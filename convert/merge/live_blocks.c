// SPDX-License-Identifier: Apache-2.0
#include "live_blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "all_bytes.h"
#include "checksum.h"
#include "heap_model.h"
#include "map64.h"
#include "site_collector.h"

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
    for (size_t i = 0; made && i < addresses->room; i++) {
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

// ---- in a file ----

enum { LEVEL = 1 };

static uint64_t checksum_of(const struct block_entry *entry, const void *stored) {
    return XXH64(stored, (size_t)entry->stored_bytes,
                 XXH64(entry, offsetof(struct block_entry, checksum), 0));
}

// Of what is stored, before it is compressed. site_bytes: of all call sites.
static size_t plain_bytes(size_t blocks, size_t site_bytes) {
    return blocks * sizeof(struct live_block) + site_bytes;
}

// False for want of memory. *site_bytes: of them those of call sites.
static bool flatten(const struct live_blocks *blocks, uint8_t **plain, size_t *site_bytes) {
    struct site_store sites;
    if (!site_store_make(&sites, &blocks->sites)) return false;
    size_t of_blocks = plain_bytes(blocks->count, 0),
           numbers = sites.count ? blocks->count * sizeof *blocks->site : 0;
    *site_bytes = numbers + sites.count;
    *plain = malloc(of_blocks + *site_bytes + 1);
    if (*plain) {
        memcpy(*plain, blocks->block, of_blocks);
        if (sites.count) {
            memcpy(*plain + of_blocks, blocks->site, numbers);
            memcpy(*plain + of_blocks + numbers, sites.bytes, sites.count);
        }
    }
    site_store_free(&sites);
    return *plain != NULL;
}

bool block_store_put(int fd, uint64_t stamp, const struct live_blocks *blocks, uint64_t *end) {
    uint8_t *plain = NULL, *stored = NULL;
    size_t site_bytes = 0, bytes = 0;
    if (flatten(blocks, &plain, &site_bytes)) {
        size_t whole = plain_bytes(blocks->count, site_bytes), room = ZSTD_compressBound(whole);
        stored = malloc(room + 1);
        if (stored) bytes = ZSTD_compress(stored, room, plain, whole, LEVEL);
    }
    free(plain);
    if (!stored || ZSTD_isError(bytes)) {
        free(stored);
        errno = ENOMEM;
        return false;
    }
    struct block_entry entry = {.stamp = stamp,
                                .blocks = blocks->count,
                                .site_bytes = site_bytes,
                                .stored_bytes = bytes,
                                .settings = blocks->settings};
    entry.checksum = checksum_of(&entry, stored);
    bool put =
        ht_write_at(fd, stored, bytes, *end + sizeof entry) && ht_write_at(fd, &entry, sizeof entry, *end);
    free(stored);
    if (put) *end += sizeof entry + bytes;
    return put;
}

// False for want of memory, or if the bytes are none that were made here.
static bool take_sites(const uint8_t *bytes, size_t count, struct live_blocks *blocks) {
    size_t numbers = blocks->count * sizeof *blocks->site;
    if (!count) return true;
    blocks->site = malloc(numbers + 1);
    if (!blocks->site || count < numbers) return false;
    memcpy(blocks->site, bytes, numbers);
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->site[i] > HT_SITES_MAX) return false;
    return site_store_restore(bytes + numbers, count - numbers, &blocks->sites);
}

// Are they blocks as a heap can have them, each at an address of its own and none at 0? False for want of memory, too.
static bool are_of_a_heap(const struct live_block *block, size_t count) {
    struct map64 seen;
    bool are = map64_init(&seen);
    for (size_t i = 0; i < count && are; i++)
        are = block[i].address && !map64_has(&seen, map64_find(&seen, block[i].address)) &&
              map64_put(&seen, block[i].address, 1);
    map64_free(&seen);
    return are;
}

// False for want of memory, or if the entry is damaged.
bool block_store_read(int fd, const struct block_entry *entry, uint64_t offset, struct live_blocks *blocks) {
    size_t of_blocks = plain_bytes((size_t)entry->blocks, 0), site_bytes = (size_t)entry->site_bytes;
    uint8_t *stored = malloc((size_t)entry->stored_bytes + 1), *plain = malloc(of_blocks + site_bytes + 1);
    *blocks = (struct live_blocks){
        .block = malloc(of_blocks + 1), .count = (size_t)entry->blocks, .settings = entry->settings};
    bool read = stored && plain && blocks->block && entry->settings.count <= HT_CONTROL_SETTINGS &&
                ht_read_at(fd, stored, (size_t)entry->stored_bytes, offset) &&
                checksum_of(entry, stored) == entry->checksum &&
                ZSTD_decompress(plain, of_blocks + site_bytes, stored, (size_t)entry->stored_bytes) ==
                    of_blocks + site_bytes &&
                take_sites(plain + of_blocks, site_bytes, blocks);
    if (read) memcpy(blocks->block, plain, of_blocks);
    read = read && are_of_a_heap(blocks->block, blocks->count);
    free(stored);
    free(plain);
    if (!read) live_blocks_free(blocks);
    return read;
}
