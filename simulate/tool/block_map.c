// SPDX-License-Identifier: GPL-3.0-or-later
// The live blocks by address: a slot for each 16 bytes, in leaves of 64 KiB of addresses; a leaf that one block
// covers wholly is a number.
#include "tool.h"
#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

enum {
    LEAF_SHIFT = 16,
    MIDDLE_SHIFT = 32,
    LEAF_GRANULES = 1 << (LEAF_SHIFT - HT_GRANULE_SHIFT),
    TABLE = 1 << 16
};

// A leaf's entry: 0; (slot + 1) * 2 + 1; or a pointer to LEAF_GRANULES of slot + 1.
static UWord *middle[TABLE];

static UWord *leaf_entry(Addr address) {
    UWord **table = &middle[address >> MIDDLE_SHIFT & (TABLE - 1)];
    if (!*table) *table = VG_(calloc)("heaptape.map", TABLE, sizeof **table);
    return &(*table)[address >> LEAF_SHIFT & (TABLE - 1)];
}

static UInt *granules_of(UWord *entry) {
    if (*entry && !(*entry & 1)) return (UInt *)*entry;
    UInt *granules = VG_(calloc)("heaptape.map", LEAF_GRANULES, sizeof *granules);
    for (UInt i = 0; *entry && i < LEAF_GRANULES; i++) granules[i] = (UInt)(*entry >> 1);
    *entry = (UWord)granules;
    return granules;
}

static void set_range(Addr address, ULong bytes, UInt value) {
    Addr at = address >> HT_GRANULE_SHIFT << HT_GRANULE_SHIFT, end = address + (bytes ? bytes : 1);
    const ULong leaf_bytes = 1ull << LEAF_SHIFT;
    while (at < end) {
        Addr next = (at | (leaf_bytes - 1)) + 1;
        UWord *entry = leaf_entry(at);
        if (!(at & (leaf_bytes - 1)) && end >= next) {
            if (*entry && !(*entry & 1)) VG_(free)((void *)*entry);
            *entry = value ? (UWord)value << 1 | 1 : 0;
        } else {
            UInt *granules = granules_of(entry);
            for (Addr stop = end < next ? end : next; at < stop; at += 1 << HT_GRANULE_SHIFT)
                granules[at >> HT_GRANULE_SHIFT & (LEAF_GRANULES - 1)] = value;
        }
        at = next;
    }
}

void block_add(Addr address, ULong bytes, UInt slot) { set_range(address, bytes, slot + 1); }
void block_remove(Addr address, ULong bytes) { set_range(address, bytes, 0); }

static UWord entry_at(Addr address) {
    UWord *table = middle[address >> MIDDLE_SHIFT & (TABLE - 1)];
    return table ? table[address >> LEAF_SHIFT & (TABLE - 1)] : 0;
}

UInt block_at(Addr address) {
    UWord entry = entry_at(address);
    if (!entry) return 0;
    if (entry & 1) return (UInt)(entry >> 1);
    return ((UInt *)entry)[address >> HT_GRANULE_SHIFT & (LEAF_GRANULES - 1)];
}

Bool no_block_within(Addr first, Addr last) {
    return first >> LEAF_SHIFT == last >> LEAF_SHIFT && !entry_at(first);
}
