#include "slot_table.h"

#include <sys/mman.h>

enum { FIRST_ROOM = 1 << 16 };

bool slot_table_grow(struct slot_table *table, uint32_t slot) {
    size_t room = table->room ? table->room : FIRST_ROOM;
    while (room <= slot) room *= 2;
    void *value = table->value ? mremap(table->value, table->room * sizeof *table->value,
                                        room * sizeof *table->value, MREMAP_MAYMOVE)
                               : mmap(NULL, room * sizeof *table->value, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (value == MAP_FAILED) return false;
    table->value = value;
    table->room = room;
    return true;
}

void slot_table_free(struct slot_table *table) {
    if (table->value) munmap(table->value, table->room * sizeof *table->value);
    *table = (struct slot_table){0};
}
