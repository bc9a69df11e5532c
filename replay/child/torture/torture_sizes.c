// SPDX-License-Identifier: Apache-2.0
// Every size, alignment and resize: wherever an allocator's classes may end.
#include "allocator_calls.h"
#include "torture_part.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

// Sizes, one by one up to 64 KiB, then next to whole pages and to quarters of powers of two: wherever classes may end.
static void try_sizes(struct ht_torturer *t) {
    static const int beside[] = {-33, -32, -31, -24, -17, -16, -15, -9, -8, -7, -1, 0, 1, 8, 15, 16, 17, 32};
    const uint64_t count = sizeof beside / sizeof *beside, page = 4 * KIB, largest = t->of->most_bytes / 8;
    for (uint64_t bytes = 0; bytes <= 64 * KIB && ht_torture_goes_on(t); bytes++) {
        bool near_edge = (bytes + 1) % 8 < 3;  // larger classes end at a multiple of 8
        if (bytes < 16 * KIB || near_edge) ht_slots_put(t, ht_slots_some(48), HT_VERIFIED_MALLOC, bytes, 0);
    }
    for (uint64_t i = 0; i < 10000 && ht_torture_goes_on(t); i++)
        ht_slots_put(t, ht_slots_some(48), ht_any_function(t, false), i < 3000 ? i : ht_any_size(t, 16), 0);
    for (uint64_t i = 16 * count; i < 512 * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = ht_any_function(t, false);
        if (function == HT_VERIFIED_CALLOC && i % 8) function = HT_VERIFIED_MALLOC;  // all of it is read
        ht_slots_put(t, ht_slots_some(12), function, i / count * page + (uint64_t)beside[i % count], 0);
    }
    ht_slots_end(t, ht_slots_some(48));
    for (uint64_t bytes = 2 * MIB; bytes < largest; bytes += (1ull << (63 - __builtin_clzll(bytes))) / 4) {
        for (uint64_t i = 0; i < count && ht_torture_goes_on(t); i += 2)
            ht_slots_put(t, ht_slots_some(3), i ? HT_VERIFIED_MALLOC : ht_any_function(t, false),
                         bytes + (uint64_t)beside[i], 0);
    }
    ht_slots_end(t, ht_slots_some(3));
}

// Many of one size at once, ended and made again: the second ones lie where the first did.
static void try_bursts(struct ht_torturer *t) {
    for (uint64_t bytes = 16; bytes <= 32 * KIB; bytes += bytes < 128 ? 16 : bytes / 4) {
        uint64_t count = 2 * MIB / bytes < 400 ? 2 * MIB / bytes : 400;
        for (uint64_t i = 0; i < 2 * count && ht_torture_goes_on(t); i++) {
            if (i == count) ht_slots_end(t, ht_slots_some((uint32_t)count));
            ht_block_make(t, t->of->blocks + ht_work.first + i % count, ht_any_function(t, false),
                          bytes - i % 7, 0);
        }
        ht_slots_end(t, ht_slots_some((uint32_t)count));
    }
}

bool ht_torture_sizes(struct ht_torturer *t) {
    try_sizes(t);
    try_bursts(t);
    return true;
}

bool ht_torture_alignments(struct ht_torturer *t) {
    static const enum ht_verified_function functions[] = {HT_VERIFIED_ALIGNED, HT_VERIFIED_ALIGNED_ALLOC,
                                                          HT_VERIFIED_MEMALIGN, HT_VERIFIED_NEW_ALIGNED};
    static const uint64_t small[] = {1, 24, 100, 1000, 5000, 70000};
    for (uint64_t alignment = 8; alignment <= 2 * MIB; alignment *= 2) {
        const uint64_t near[] = {0, alignment / 2, alignment - 1, alignment, alignment + 1, 3 * alignment};
        for (uint64_t i = 0; i < 4 * 12 && ht_torture_goes_on(t); i++) {
            uint64_t bytes = i / 4 < 6 ? near[i / 4] : small[i / 4 - 6];
            struct ht_block *block = ht_slots_put(t, ht_slots_some(24), functions[i % 4], bytes, alignment);
            ht_slots_put(t, ht_slots_some(24), ht_any_function(t, false), ht_any_size(t, 12), 0);
            if (block->at && block->function < HT_VERIFIED_NEW && i % 3 == 0)
                ht_block_resize(t, block, ht_any_size(t, 17));
        }
    }
    for (uint64_t i = 0; i < 400 && ht_torture_goes_on(t); i++)
        ht_slots_put(t, ht_slots_some(24), i % 2 ? HT_VERIFIED_VALLOC : HT_VERIFIED_PVALLOC,
                     1 + (i < 40 ? i : ht_any_size(t, 16)), 0);
    ht_slots_end(t, ht_slots_some(24));
    return true;
}

// A block that grows or shrinks step by step, with others that come to lie behind it meanwhile.
static void creep(struct ht_torturer *t, uint64_t from, uint64_t to, uint64_t step) {
    struct ht_block *block = t->of->blocks + ht_work.first;
    ht_block_end(t, block);
    if (!ht_block_make(t, block, HT_VERIFIED_MALLOC, from, 0)) return;
    for (uint64_t i = 0, bytes = from; bytes != to && ht_torture_goes_on(t); i++) {
        uint64_t left = bytes < to ? to - bytes : bytes - to, by = left < step ? left : step;
        bytes = bytes < to ? bytes + by : bytes - by;
        if (!ht_block_resize(t, block, bytes)) break;
        if (i % 8 == 0)
            ht_slots_put(t, (struct ht_slots){ht_work.first + 1, 40}, HT_VERIFIED_MALLOC, ht_any_size(t, 9),
                         0);
    }
    ht_slots_end(t, ht_slots_some(41));
}

bool ht_torture_realloc(struct ht_torturer *t) {
    static const uint64_t sizes[] = {1,     15,    16,     24,     33,     100,    128,     129,    1000,
                                     1024,  1025,  4000,   4096,   5000,   8192,   16385,   20000,  32768,
                                     40000, 65536, 100000, 131072, 200000, 300000, 1048576, 3000000};
    const uint64_t count = sizeof sizes / sizeof *sizes;
    t->all_pages = true;
    for (uint64_t i = 0; i < count * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = ht_any_function(t, true);
        if (function >= HT_VERIFIED_NEW) function = HT_VERIFIED_CALLOC;
        struct ht_block *block =
            ht_slots_put(t, ht_slots_some(12), function, sizes[i / count], ht_any_alignment(t));
        if (block->at) ht_block_resize(t, block, sizes[i % count]);
        ht_slots_put(t, (struct ht_slots){ht_work.first + 12, 40}, ht_any_function(t, false),
                     ht_any_size(t, 12), 0);
        if (block->at && i % 5 == 0) ht_block_resize(t, block, block->pattern.usable + i % 2);
    }
    ht_slots_end(t, ht_slots_some(52));
    creep(t, 1, 5000, 1);
    creep(t, 5000, 1, 3);
    creep(t, 4096, 600000, 4099);
    creep(t, 600000, 16, 2049);
    t->all_pages = false;
    struct ht_block *block = ht_slots_put(t, ht_slots_some(1), HT_VERIFIED_MALLOC, 100000, 0);
    while (block->at && block->bytes < t->of->most_bytes / 16 &&
           ht_block_resize(t, block, block->bytes * 7 / 4))
        continue;
    while (block->at && block->bytes > 100 && ht_block_resize(t, block, block->bytes * 3 / 7)) continue;
    ht_slots_end(t, ht_slots_some(1));
    return true;
}
