// SPDX-License-Identifier: Apache-2.0
#include "site_collector.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "map64.h"

enum { OFFSET_BITS = 48, MODULES_MAX = 1 << 16, PATH_BYTES_MAX = 2048 };

void site_collector_free(struct site_collector *collector) {
    for (size_t i = 0; i < collector->modules_count; i++) free(collector->modules[i].path);
    for (size_t i = 0; i < collector->stacks_room; i++) free(collector->stacks[i].location);
    free(collector->modules);
    free(collector->stacks);
    free(collector->number_of);
    free(collector->used);
    *collector = (struct site_collector){0};
}

static uint64_t word_of(const struct ht_raw_record *record, size_t i) {
    uint64_t word;
    memcpy(&word, record->words + 8 * i, sizeof word);
    return word;
}

static bool take_module(struct site_collector *collector, const struct ht_raw_record *record) {
    if (record->long_words < 2) return false;
    uint64_t number = word_of(record, 0), id_bytes = word_of(record, 1) & UINT32_MAX,
             path_bytes = word_of(record, 1) >> 32;
    struct site_module module = {.path_bytes = path_bytes, .build_id_bytes = id_bytes};
    if (number < 1 || number > MODULES_MAX || id_bytes > sizeof module.build_id ||
        path_bytes > PATH_BYTES_MAX || id_bytes + path_bytes > 8 * (record->long_words - 2u))
        return false;
    if (!ht_grow(&collector->modules, &collector->modules_room, number, sizeof *collector->modules) ||
        !(module.path = malloc(path_bytes + 1))) {
        collector->no_memory = true;
        return true;
    }
    memcpy(module.build_id, record->words + 16, id_bytes);
    memcpy(module.path, record->words + 16 + id_bytes, path_bytes);
    if (number > collector->modules_count) collector->modules_count = number;
    free(collector->modules[number - 1].path);
    collector->modules[number - 1] = module;
    return true;
}

// Room for the stack with that number, which has none of its own yet. NULL: it is none, or there is no memory.
static struct site_stack *make_stack(struct site_collector *collector, uint64_t first_word, uint32_t frames) {
    uint64_t number = first_word & UINT32_MAX;
    if (number < 1 || number > HT_SITES_MAX || frames > HT_SITE_FRAMES_MAX) return NULL;
    uint64_t *location = malloc((frames + 1) * sizeof *location);
    if (!location ||
        !ht_grow(&collector->stacks, &collector->stacks_room, number + 1, sizeof *collector->stacks)) {
        free(location);
        collector->no_memory = true;
        return NULL;
    }
    free(collector->stacks[number].location);
    collector->stacks[number] = (struct site_stack){location, frames, (uint32_t)(first_word >> 32)};
    return &collector->stacks[number];
}

static bool take_site(struct site_collector *collector, const struct ht_raw_record *record) {
    if (record->long_words < 1) return false;
    struct site_stack *stack = make_stack(collector, word_of(record, 0), record->long_words - 1u);
    for (uint32_t i = 0; stack && i < stack->frames; i++) stack->location[i] = word_of(record, 1 + i);
    return stack || collector->no_memory;
}

// Its base is another site, which the stream has told before.
static bool take_site_like(struct site_collector *collector, const struct ht_raw_record *record) {
    struct ht_site_like like;
    if (record->long_words < 2) return false;
    memcpy(&like, record->words + 8, sizeof like);
    uint32_t own = record->long_words - 2u;
    const struct site_stack *base = like.base < collector->stacks_room ? &collector->stacks[like.base] : NULL;
    if (!base || !base->location || like.base == (uint32_t)word_of(record, 0) || like.zero || like.at > own ||
        like.from + like.count > base->frames)
        return collector->no_memory;
    struct site_stack *stack = make_stack(collector, word_of(record, 0), own + like.count);
    if (!stack) return collector->no_memory;
    base = &collector->stacks[like.base];  // it may lie elsewhere now
    for (uint32_t i = 0; i < stack->frames; i++) {
        uint32_t after = i - like.at;
        stack->location[i] = i < like.at          ? word_of(record, 2 + i)
                             : after < like.count ? base->location[like.from + after]
                                                  : word_of(record, 2 + i - like.count);
    }
    return true;
}

bool site_collector_take(struct site_collector *collector, const struct ht_raw_record *record) {
    switch (record->long_kind) {
    case HT_LONG_MODULE: return take_module(collector, record);
    case HT_LONG_SITE: return take_site(collector, record);
    case HT_LONG_SITE_LIKE: return take_site_like(collector, record);
    default: return false;
    }
}

// A copy with a byte more, so that none is of no bytes; *memory: false where there was not enough.
static void *copied(const void *bytes, size_t count, bool *memory) {
    void *made = malloc(count + 1);
    if (made) memcpy(made, bytes, count);
    else *memory = false;
    return made;
}

static bool copy_modules(struct site_collector *to, const struct site_collector *from) {
    bool memory = !from->no_memory &&
                  ht_grow(&to->modules, &to->modules_room, from->modules_count, sizeof *to->modules);
    for (size_t i = 0; memory && i < from->modules_count; i++) {
        const struct site_module *module = &from->modules[i];
        if (!module->path || to->modules[i].path) continue;
        to->modules[i] = *module;
        to->modules[i].path = copied(module->path, module->path_bytes, &memory);
    }
    if (to->modules_count < from->modules_count && memory) to->modules_count = from->modules_count;
    return memory;
}

static bool copy_stack(struct site_collector *to, const struct site_collector *from, size_t site) {
    bool memory = true;
    if (site >= from->stacks_room || !from->stacks[site].location) return true;
    if (!ht_grow(&to->stacks, &to->stacks_room, site + 1, sizeof *to->stacks)) return false;
    if (to->stacks[site].location) return true;
    const struct site_stack *stack = &from->stacks[site];
    to->stacks[site] = *stack;
    to->stacks[site].location = copied(stack->location, stack->frames * sizeof *stack->location, &memory);
    return memory;
}

bool site_collector_copy_some(struct site_collector *to, const struct site_collector *from,
                              const uint32_t *sites, size_t count) {
    bool memory = copy_modules(to, from);
    for (size_t i = 0; memory && i < count; i++) memory = copy_stack(to, from, sites[i]);
    return memory;
}

bool site_collector_copy(struct site_collector *to, const struct site_collector *from) {
    bool memory = copy_modules(to, from);
    for (size_t i = 0; memory && i < from->stacks_room; i++) memory = copy_stack(to, from, i);
    return memory;
}

uint32_t site_collector_add_number(struct site_collector *collector, uint32_t site) {
    if (!site) return 0;
    if (!ht_grow(&collector->number_of, &collector->numbers_room, (size_t)site + 1,
                 sizeof *collector->number_of) ||
        !ht_grow(&collector->used, &collector->used_room, collector->used_count + 1,
                 sizeof *collector->used)) {
        collector->no_memory = true;
        return 0;
    }
    collector->used[collector->used_count++] = site;
    return collector->number_of[site] = (uint32_t)collector->used_count;
}

// Makes a string of any bytes; those beyond ASCII become question marks where they are no UTF-8.
static json_t *path_string(const struct site_module *module) {
    if (!module->path) return json_string("");
    json_t *string = json_stringn(module->path, module->path_bytes);
    if (string) return string;
    for (size_t i = 0; i < module->path_bytes; i++)
        if ((unsigned char)module->path[i] >= 0x80) module->path[i] = '?';
    return json_stringn(module->path, module->path_bytes);
}

static char *modules_json(const struct site_collector *collector) {
    json_t *list = json_array();
    for (size_t i = 0; i < collector->modules_count; i++) {
        const struct site_module *module = &collector->modules[i];
        char hex[2 * sizeof module->build_id + 1];
        for (size_t k = 0; k < module->build_id_bytes; k++) {
            hex[2 * k] = "0123456789abcdef"[module->build_id[k] >> 4];
            hex[2 * k + 1] = "0123456789abcdef"[module->build_id[k] & 15];
        }
        hex[2 * module->build_id_bytes] = 0;
        json_t *object = json_object();
        json_object_set_new(object, "path", path_string(module));
        if (*hex) json_object_set_new(object, "build_id", json_string(hex));
        json_array_append_new(list, object);
    }
    json_t *whole = json_object();
    json_object_set_new(whole, "modules", list);
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return text;
}

// What is in the table already, by what it is.
struct table_index {
    struct map64 locations, callers;
};

static bool add_location(struct ht_site_table *table, struct table_index *index,
                         const struct site_collector *collector, uint64_t location, uint32_t *number) {
    size_t at = map64_find(&index->locations, location + 1);
    uint64_t module = location >> OFFSET_BITS;
    *number = (uint32_t)index->locations.entry[at].value;
    if (map64_has(&index->locations, at)) return true;
    *number = (uint32_t)table->locations_count;
    if (!ht_grow(&table->locations, &table->locations_room, table->locations_count + 1,
                 sizeof *table->locations))
        return false;
    table->locations[table->locations_count++] =
        (struct ht_location){location & ((UINT64_C(1) << OFFSET_BITS) - 1),
                             module <= collector->modules_count ? (uint32_t)module : 0};
    return map64_put(&index->locations, location + 1, *number);
}

static bool add_caller(struct ht_site_table *table, struct table_index *index, uint32_t parent,
                       uint32_t location, uint32_t *number) {
    uint64_t key = ((uint64_t)parent << 32 | location) + 1;
    size_t at = map64_find(&index->callers, key);
    *number = (uint32_t)index->callers.entry[at].value;
    if (map64_has(&index->callers, at)) return true;
    if (!ht_grow(&table->callers, &table->callers_room, table->callers_count + 1, sizeof *table->callers))
        return false;
    table->callers[table->callers_count++] = (struct ht_caller){parent, location};
    *number = (uint32_t)table->callers_count;
    return map64_put(&index->callers, key, *number);
}

static bool add_site(struct ht_site_table *table, struct table_index *index,
                     const struct site_collector *collector, uint32_t site) {
    static const struct site_stack unknown;
    const struct site_stack *stack = site < collector->stacks_room ? &collector->stacks[site] : &unknown;
    uint32_t caller = 0, location;
    for (uint32_t i = stack->location ? stack->frames : 0; i-- > 0;)
        if (!add_location(table, index, collector, stack->location[i], &location) ||
            !add_caller(table, index, caller, location, &caller))
            return false;
    if (!ht_grow(&table->sites, &table->sites_room, table->sites_count + 1, sizeof *table->sites))
        return false;
    table->sites[table->sites_count++] = (struct ht_site){caller, stack->flags};
    return true;
}

bool site_collector_table(const struct site_collector *collector, struct ht_site_table *table) {
    struct table_index index = {0};
    *table = (struct ht_site_table){0};
    if (!collector->used_count) return true;
    bool made = !collector->no_memory && map64_init(&index.locations) && map64_init(&index.callers) &&
                (table->modules_json = modules_json(collector)) != NULL;
    for (size_t i = 0; i < collector->used_count && made; i++)
        made = add_site(table, &index, collector, collector->used[i]);
    map64_free(&index.locations);
    map64_free(&index.callers);
    if (!made) ht_site_table_free(table);
    return made;
}

// ---- as bytes ----

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
