// One number per slot, for exporters: sparse, so that it takes memory by the slots in use and not by their
// largest number, which a file could claim to be anything.
#ifndef HEAPTAPE_SLOT_TABLE_H
#define HEAPTAPE_SLOT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot_table {
    uint64_t *value;  // 0 where nothing was put
    size_t room;
};

// Makes room for a slot. False for want of address space.
bool slot_table_grow(struct slot_table *table, uint32_t slot);
void slot_table_free(struct slot_table *table);

// Where the slot's number is; NULL for want of address space.
static inline uint64_t *slot_table_at(struct slot_table *table, uint32_t slot) {
    if (slot >= table->room && !slot_table_grow(table, slot)) return NULL;
    return &table->value[slot];
}

#endif
