// SPDX-License-Identifier: Apache-2.0
// The call sites of a log: gathers what its records say of modules and stacks, numbers the sites in the order in which the
// trace needs them, and makes the trace's table of them.
#ifndef HEAPTAPE_SITE_COLLECTOR_H
#define HEAPTAPE_SITE_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raw_reader.h"
#include "site_table.h"

struct site_module {
    char *path;
    size_t path_bytes;  // any bytes
    uint8_t build_id[64];
    size_t build_id_bytes;
};

struct site_stack {
    uint64_t *location;  // innermost first; NULL: not known
    uint32_t frames, flags;
};

struct site_collector {
    struct site_module *modules;  // by number less one
    size_t modules_count, modules_room;
    struct site_stack *stacks;  // by the log's number
    size_t stacks_room;
    uint32_t *number_of;  // the log's number -> the trace's
    size_t numbers_room;
    uint32_t *used;  // the trace's number less one -> the log's
    size_t used_count, used_room;
    bool no_memory;
};

void site_collector_free(struct site_collector *collector);

// Takes a record of a module or a site. False where it is none that the recorder could have written.
bool site_collector_take(struct site_collector *collector, const struct ht_raw_record *record);

// Takes the modules and stacks of another one that this one does not have. False for want of memory.
bool site_collector_copy(struct site_collector *to, const struct site_collector *from);
// The same, but only the stacks of those sites.
bool site_collector_copy_some(struct site_collector *to, const struct site_collector *from,
                              const uint32_t *sites, size_t count);

uint32_t site_collector_add_number(struct site_collector *collector, uint32_t site);

// The trace's number of a site of the log.
static inline uint32_t site_collector_number(struct site_collector *collector, uint32_t site) {
    bool known = site < collector->numbers_room && collector->number_of[site];
    return __builtin_expect(known, 1) ? collector->number_of[site]
                                      : site_collector_add_number(collector, site);
}

// The table, to be freed by the caller; empty if no site was used. False for want of memory.
bool site_collector_table(const struct site_collector *collector, struct ht_site_table *table);

// ---- as bytes, for a file in which one process leaves them to another: a follower's state, and what a child inherits ----

struct site_store {
    uint8_t *bytes;
    size_t count, room;
};

// To be freed by the caller; no bytes where nothing was gathered. False for want of memory.
bool site_store_make(struct site_store *store, const struct site_collector *collector);
void site_store_free(struct site_store *store);

// Fills an empty collector. False where the bytes are none that were made here, or for want of memory.
bool site_store_restore(const uint8_t *bytes, size_t count, struct site_collector *collector);

#endif
