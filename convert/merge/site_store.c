// SPDX-License-Identifier: Apache-2.0
#include "site_store.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"

// Entries of words: the first has the kind in its low byte, and how many words follow. Modules and call sites are as in the raw
// log, without a stamp; then the log's numbers of the sites in the order of the trace's.
enum { USED = 0, KIND_BITS = 8 };

void site_store_free(struct site_store *store) {
    free(store->bytes);
    *store = (struct site_store){0};
}

// Room for an entry, zeroed. NULL for want of memory.
static uint8_t *add_entry(struct site_store *store, unsigned kind, size_t words) {
    size_t bytes = 8 * (1 + words);
    uint64_t head = kind | (uint64_t)words << KIND_BITS;
    if (!ht_grow(&store->bytes, &store->room, store->count + bytes, 1)) return NULL;
    uint8_t *at = store->bytes + store->count;
    memset(at, 0, bytes);
    memcpy(at, &head, sizeof head);
    store->count += bytes;
    return at + sizeof head;
}

static bool put_module(struct site_store *store, uint64_t number, const struct site_module *module) {
    size_t bytes = module->build_id_bytes + module->path_bytes;
    uint8_t *at = add_entry(store, HT_LONG_MODULE, 2 + (bytes + 7) / 8);
    const uint64_t words[2] = {number, module->build_id_bytes | (uint64_t)module->path_bytes << 32};
    if (!at) return false;
    memcpy(at, words, sizeof words);
    memcpy(at + sizeof words, module->build_id, module->build_id_bytes);
    memcpy(at + sizeof words + module->build_id_bytes, module->path, module->path_bytes);
    return true;
}

static bool put_stack(struct site_store *store, uint64_t number, const struct site_stack *stack) {
    uint8_t *at = add_entry(store, HT_LONG_SITE, 1 + stack->frames);
    const uint64_t first = number | (uint64_t)stack->flags << 32;
    if (!at) return false;
    memcpy(at, &first, sizeof first);
    memcpy(at + sizeof first, stack->location, stack->frames * sizeof *stack->location);
    return true;
}

static bool put_used(struct site_store *store, const struct site_collector *collector) {
    size_t words = (collector->used_count + 1) / 2;
    uint8_t *at = words ? add_entry(store, USED, words) : NULL;
    if (at) memcpy(at, collector->used, collector->used_count * sizeof *collector->used);
    return at || !words;
}

bool site_store_make(struct site_store *store, const struct site_collector *collector) {
    bool made = !collector->no_memory;
    *store = (struct site_store){0};
    for (size_t i = 0; i < collector->modules_count && made; i++)
        if (collector->modules[i].path) made = put_module(store, i + 1, &collector->modules[i]);
    for (size_t i = 0; i < collector->stacks_room && made; i++)
        if (collector->stacks[i].location) made = put_stack(store, i, &collector->stacks[i]);
    made = made && put_used(store, collector);
    if (!made) site_store_free(store);
    return made;
}

// Two numbers in a word; the last one may be 0.
static bool restore_used(const uint8_t *at, size_t words, struct site_collector *collector) {
    for (size_t i = 0; i < 2 * words; i++) {
        uint32_t site;
        memcpy(&site, at + i * sizeof site, sizeof site);
        if (!site && i + 1 == 2 * words) break;
        if (!site || site > HT_SITES_MAX || site_collector_number(collector, site) != i + 1) return false;
    }
    return true;
}

bool site_store_restore(const uint8_t *bytes, size_t count, struct site_collector *collector) {
    for (size_t at = 0; at < count;) {
        uint64_t head;
        if (count - at < sizeof head) return false;
        memcpy(&head, bytes + at, sizeof head);
        at += sizeof head;
        uint64_t words = head >> KIND_BITS;
        unsigned kind = head & ((1u << KIND_BITS) - 1);
        if (words > (count - at) / 8) return false;
        const struct ht_raw_record record = {
            .words = bytes + at, .long_kind = (uint8_t)kind, .long_words = (uint8_t)words};
        bool listed = kind == HT_LONG_MODULE || kind == HT_LONG_SITE;
        if (listed ? words > UINT8_MAX || !site_collector_take(collector, &record)
                   : kind != USED || !restore_used(bytes + at, words, collector))
            return false;
        at += 8 * words;
    }
    return !collector->no_memory;
}
