// SPDX-License-Identifier: Apache-2.0
#include "slot_table.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LEAST_BYTES = 1 << 20 };

void slot_table_free(struct slot_table *table) {
    if (table->items) munmap(table->items, table->mapped_bytes);
    free(table->used);
    *table = (struct slot_table){.item_bytes = table->item_bytes};
}

static bool grow(struct slot_table *table, uint64_t slots) {
    size_t bytes = table->mapped_bytes ? table->mapped_bytes : LEAST_BYTES;
    while (bytes / table->item_bytes < slots) bytes *= 2;
    void *items = table->items ? mremap(table->items, table->mapped_bytes, bytes, MREMAP_MAYMOVE)
                               : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (items == MAP_FAILED) return false;
    table->items = items;
    table->mapped_bytes = bytes;
    table->room = bytes / table->item_bytes;
    if (table->room > (UINT64_C(1) << 32)) table->room = UINT64_C(1) << 32;
    return true;
}

bool slot_table_reach(struct slot_table *table, const uint32_t *slot, uint32_t rows) {
    uint32_t last = 0;
    if (!table->used && !(table->used = calloc(SLOT_GROUPS, sizeof *table->used))) return false;
    for (uint32_t row = 0; row < rows; row++) {
        last = slot[row] > last ? slot[row] : last;
        table->used[slot[row] >> SLOT_GROUP_BITS] = true;
    }
    return last < table->room || grow(table, (uint64_t)last + 1);
}
