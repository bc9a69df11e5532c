// SPDX-License-Identifier: Apache-2.0
// How `record` tells the preloaded library which functions of a linked-in allocator to hook, and how: the text of one
// environment variable. `record` disassembles the program's file and prepares all code; the library only checks that the
// program is that file, and writes.
//
// VERSION:NAME:PLACE:CODE BYTES:BYTES:RETURNS:CODE:FIELDS:FUNCTIONS, numbers in hexadecimal. Addresses are those of the
// program's file.
//   NAME       of the allocator, with @ and its version where that is known
//   PLACE      where a region of BYTES is assumed; it may be mapped elsewhere. Its first CODE BYTES (whole pages) become
//              executable, the rest holds a slot for each function.
//   RETURNS    1: some code puts return addresses on the stack that no call has put there.
//   CODE       what is written at the region's beginning
//   FIELDS     offsets in it, each ended by a comma: four bytes that refer to the program, relative to where they are
//   FUNCTIONS  each ended by a semicolon, its numbers by commas, in the order of HT_HOOK_NUMBERS:
//              its address and size in bytes and the ht_hook_hash of its code; where its first five bytes become a jump;
//              the offsets of what that jumps to and of the code that does what the five bytes did and goes on behind them;
//              the members of ht_hook_shape
#ifndef HEAPTAPE_HOOK_PLAN_H
#define HEAPTAPE_HOOK_PLAN_H

#include <stddef.h>
#include <stdint.h>

#define HT_HOOK_VARIABLE "MALLOC_WRAP_HOOKS"

enum {
    HT_HOOK_VERSION = 1,
    HT_HOOK_PATCH_BYTES = 5,  // a jump
    HT_HOOK_FUNCTIONS_MAX = 128,
    HT_HOOK_PAGE_BYTES = 4096,
    HT_HOOK_REGION_BYTES_MAX = 16 * HT_HOOK_PAGE_BYTES,
    HT_HOOK_ARGUMENTS = 5,  // that a hooked function has at most; the sixth is the slot's address
    HT_HOOK_NO_ARGUMENT = 7,
    HT_HOOK_NUMBERS = 13
};

// What a function does, as far as its record needs it.
enum ht_hook_kind {
    HT_HOOK_ALLOCATES,
    HT_HOOK_FILLS,      // stores the block's address where `block` points, returns 0: posix_memalign
    HT_HOOK_RESIZES,    // returns the block, NULL if it failed
    HT_HOOK_STRETCHES,  // never moves the block, and returns the size that it has: xallocx
    HT_HOOK_RELEASES,
    HT_HOOK_ASKS,      // the size of a block: no call that a recording must have
    HT_HOOK_CONTROLS,  // the allocator; the same. function: as control_calls.h numbers it; size: its operand
    HT_HOOK_KINDS
};

// How the arguments are to be read.
enum ht_hook_rule {
    HT_HOOK_PLAIN,
    HT_HOOK_FLAGS,   // jemalloc's: `alignment` has the alignment's logarithm, and whether the block is zeroed
    HT_HOOK_LAYOUT,  // Rust's: an alignment up to 16 that is not above the size is malloc's own
    HT_HOOK_RULES
};

// Which argument is what; HT_HOOK_NO_ARGUMENT where there is none.
struct ht_hook_shape {
    uint8_t kind, rule, function;  // function: as ops.h numbers it
    uint8_t block, count, size, alignment;
};

// In the region, where the prepared code finds it.
struct ht_hook_slot {
    uintptr_t hook;  // what takes the calls
    uintptr_t real;  // the function as it was
    struct ht_hook_shape shape;
    uint8_t unused;
};
_Static_assert(sizeof(struct ht_hook_slot) == 24 || sizeof(void *) != 8,
               "the prepared code names its members");

// FNV-1a.
static inline uint64_t ht_hook_hash(const uint8_t *code, size_t bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ code[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
