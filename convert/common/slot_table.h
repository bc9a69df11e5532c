// SPDX-License-Identifier: Apache-2.0
// One item of fixed size for each slot of a trace, all zero until it is written. The items lie in a mapping
// of their own, whose untouched pages cost nothing: a damaged trace that names a far slot does not take
// memory.
#ifndef HEAPTAPE_SLOT_TABLE_H
#define HEAPTAPE_SLOT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOT_GROUP_BITS = 12, SLOT_GROUPS = 1 << (32 - SLOT_GROUP_BITS) };

struct slot_table {
    void *items;
    bool *used;  // by group of slots: whether a slot of it has occurred
    size_t item_bytes, mapped_bytes;
    uint64_t room;  // slots below this have an item
};

// Nothing is mapped yet.
static inline struct slot_table slot_table_of(size_t item_bytes) {
    return (struct slot_table){.item_bytes = item_bytes};
}
void slot_table_free(struct slot_table *table);

// Makes room for the slots of one decoded section. False for want of memory.
bool slot_table_reach(struct slot_table *table, const uint32_t *slot, uint32_t rows);

// The first slot from `slot` on in a group that is used, or table->room: what lies between was never written.
static inline uint64_t slot_table_next(const struct slot_table *table, uint64_t slot) {
    while (slot < table->room && !table->used[slot >> SLOT_GROUP_BITS])
        slot = ((slot >> SLOT_GROUP_BITS) + 1) << SLOT_GROUP_BITS;
    return slot < table->room ? slot : table->room;
}

#endif
