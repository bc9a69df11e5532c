// SPDX-License-Identifier: GPL-3.0-or-later
// The size class of each call of the malloc family: of what it asks for, or of the block that it frees.
#include "tool.h"
#include <pub_tool_hashtable.h>
#include <pub_tool_mallocfree.h>

struct sized_block {
    struct sized_block *next;  // the first two as in VgHashNode
    UWord address;
    ULong bytes;
};

static VgHashTable *sized_blocks;

static ULong freed_bytes(Addr address) {
    struct sized_block *block = sized_blocks && address ? VG_(HT_lookup)(sized_blocks, address) : NULL;
    return block ? block->bytes : 0;
}

static ULong bytes_of_call(void) {
    const ULong *argument = running.argument;
    switch (running.kind) {
    case CALL_MALLOC:
    case CALL_ALIGNED_NEW:
    case CALL_PAGE_ALIGNED: return argument[0];
    case CALL_CALLOC: return argument[0] * argument[1];
    case CALL_REALLOC:
    case CALL_ALIGNED: return argument[1];
    case CALL_REALLOC_ARRAY: return argument[1] * argument[2];
    case CALL_POSIX_MEMALIGN: return argument[2];
    case CALL_FREE: return freed_bytes(argument[0]);
    default: return 0;
    }
}

UInt size_class_of_call(void) { return size_class_of(bytes_of_call()); }

static void forget_block(Addr address) {
    struct sized_block *block = address ? VG_(HT_remove)(sized_blocks, address) : NULL;
    if (block) VG_(free)(block);
}

static void know_block(Addr address, ULong bytes) {
    if (!address) return;
    forget_block(address);
    struct sized_block *block = VG_(malloc)("heaptape.sized", sizeof *block);
    block->address = address;
    block->bytes = bytes;
    VG_(HT_add_node)(sized_blocks, block);
}

void keep_block_size(ULong result) {
    const ULong *argument = running.argument;
    if (options.record) return;  // its file has the sizes
    if (!sized_blocks) sized_blocks = VG_(HT_construct)("heaptape.sized_blocks");
    switch (running.kind) {
    case CALL_FREE: forget_block(argument[0]); break;
    case CALL_REALLOC:
    case CALL_REALLOC_ARRAY:
        if (result || !bytes_of_call()) forget_block(argument[0]);
        know_block(result, bytes_of_call());
        break;
    case CALL_POSIX_MEMALIGN:
        if (!result) know_block(*(Addr *)argument[0], bytes_of_call());
        break;
    case CALL_NONE:
    case CALL_OTHER: break;
    default: know_block(result, bytes_of_call());
    }
}
