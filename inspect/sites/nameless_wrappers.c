// SPDX-License-Identifier: Apache-2.0
#include "nameless_wrappers.h"

#include <stdlib.h>
#include <string.h>

enum { CALLERS_MANY = 8, CALLERS_FEW = 2 };

struct search {
    const struct ht_site_table *table;
    const bool *skipped;
    bool *named;         // by location
    bool *passed;        // by location: taken for a wrapper, perhaps not for good
    uint32_t *head;      // by site: its first frame outside wrappers; 0: none
    uint32_t *stacks;    // by location: how many have it as their head
    uint32_t *seen_for;  // by location: of which head, plus one, it was seen to be a caller
};

static uint32_t location_of(const struct search *search, uint32_t caller) {
    return search->table->callers[caller - 1].location;
}

static uint32_t module_of(const struct search *search, uint32_t caller) {
    return search->table->locations[location_of(search, caller)].module;
}

static uint32_t outside(const struct search *search, uint32_t caller) {
    while (caller &&
           (search->skipped[location_of(search, caller)] || search->passed[location_of(search, caller)]))
        caller = search->table->callers[caller - 1].parent;
    return caller;
}

// The location that heads more than half of a module's stacks, if it has no name; UINT32_MAX: there is none.
static uint32_t find_head(const struct search *search, uint32_t module) {
    const struct ht_site_table *table = search->table;
    uint32_t all = 0, found = UINT32_MAX;
    memset(search->stacks, 0, table->locations_count * sizeof *search->stacks);
    for (size_t i = 0; i < table->sites_count; i++) {
        search->head[i] = outside(search, search->head[i]);
        if (!search->head[i] || module_of(search, search->head[i]) != module) continue;
        all++;
        search->stacks[location_of(search, search->head[i])]++;
    }
    for (uint32_t i = 0; i < table->locations_count; i++)
        if (search->stacks[i] > all / 2) found = i;
    return found == UINT32_MAX || search->named[found] ? UINT32_MAX : found;
}

static uint32_t count_callers(const struct search *search, uint32_t head) {
    const struct ht_site_table *table = search->table;
    uint32_t count = 0;
    for (size_t i = 0; i < table->sites_count; i++) {
        if (!search->head[i] || location_of(search, search->head[i]) != head) continue;
        uint32_t parent = table->callers[search->head[i] - 1].parent;
        if (!parent || search->seen_for[location_of(search, parent)] == head + 1) continue;
        search->seen_for[location_of(search, parent)] = head + 1;
        count++;
    }
    return count;
}

static void search_module(const struct search *search, uint32_t module, bool *skipped) {
    size_t locations = search->table->locations_count;
    memset(search->passed, 0, locations * sizeof *search->passed);
    memset(search->seen_for, 0, locations * sizeof *search->seen_for);
    for (size_t i = 0; i < search->table->sites_count; i++) search->head[i] = search->table->sites[i].caller;
    for (;;) {
        uint32_t head = find_head(search, module);
        if (head == UINT32_MAX) return;
        uint32_t callers = count_callers(search, head);
        search->passed[head] = true;
        if (callers >= CALLERS_MANY)
            for (size_t i = 0; i < locations; i++) skipped[i] |= search->passed[i];
        else if (callers > CALLERS_FEW) return;
    }
}

// By module, how many stacks it heads. NULL for want of memory.
static uint32_t *count_stacks(const struct search *search, uint32_t *modules) {
    const struct ht_site_table *table = search->table;
    *modules = 0;
    for (size_t i = 0; i < table->locations_count; i++)
        if (table->locations[i].module > *modules) *modules = table->locations[i].module;
    uint32_t *stacks = calloc((size_t)*modules + 1, sizeof *stacks);
    for (size_t i = 0; stacks && i < table->sites_count; i++) {
        uint32_t head = outside(search, table->sites[i].caller);
        if (head) stacks[module_of(search, head)]++;
    }
    return stacks;
}

bool nameless_wrappers_add(const struct ht_site_table *table, bool *skipped) {
    size_t locations = table->locations_count + 1;
    uint32_t modules = 0, *stacks = NULL;
    struct search search = {.table = table,
                            .skipped = skipped,
                            .named = calloc(locations, sizeof(bool)),
                            .passed = calloc(locations, sizeof(bool)),
                            .head = calloc(table->sites_count + 1, sizeof(uint32_t)),
                            .stacks = calloc(locations, sizeof(uint32_t)),
                            .seen_for = calloc(locations, sizeof(uint32_t))};
    bool memory = search.named && search.passed && search.head && search.stacks && search.seen_for &&
                  (stacks = count_stacks(&search, &modules));
    for (size_t i = 0; memory && i < table->names_count; i++)
        search.named[table->names[i].location] |= table->names[i].function != 0;
    // From 1: code of no module has no other in common.
    for (uint32_t module = 1; memory && module <= modules; module++)
        if (stacks[module] >= CALLERS_MANY) search_module(&search, module, skipped);
    free(stacks);
    free(search.named);
    free(search.passed);
    free(search.head);
    free(search.stacks);
    free(search.seen_for);
    return memory;
}
