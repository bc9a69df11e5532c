// SPDX-License-Identifier: Apache-2.0
// Memory that is freed is used again, or given back.
#include "torture_part.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

// Some blocks of a size of which one after another is ended and made again. Once all were, there is room for what follows.
static void use_again(struct ht_torturer *t, enum ht_verified_function function, uint64_t bytes,
                      uint64_t first_bytes) {
    const uint64_t count = 256 * KIB / bytes + 8,
                   times = (bytes > 64 * KIB ? 24 : 6) * MIB / bytes + 4 * count;
    const uint64_t alignment =
        (bytes > 4 * KIB ? 64 : 4) * KIB;  // what lies before the block is given back with it
    uint64_t before = 0;
    if (function >= HT_VERIFIED_TRACE && !t->of->make[function]) return;
    for (uint64_t i = 0; i < 2 * times && ht_torture_goes_on(t); i++) {
        if (i == times) before = ht_torture_resident(t->of);
        struct ht_block *block = ht_slots_put(t, ht_slots_some((uint32_t)count), function,
                                              first_bytes ? first_bytes : bytes, alignment);
        if (first_bytes && block->at) ht_block_resize(t, block, bytes);
    }
    ht_torture_tell_growth(t, function, bytes, before, times * bytes);
    ht_slots_end(t, ht_slots_some((uint32_t)count));
}

// The same of so many small blocks that a few that are lost show.
static void use_small_again(struct ht_torturer *t, uint64_t bytes, uint64_t freed) {
    const unsigned times = (unsigned)(freed / bytes / HT_DEPTH_MAX);
    ht_torture_contend(t, bytes, HT_DEPTH_MAX, 8);
    uint64_t before = ht_torture_resident(t->of);
    ht_torture_contend(t, bytes, HT_DEPTH_MAX, times);
    ht_torture_tell_growth(t, HT_VERIFIED_MALLOC, bytes, before, freed);
}

// A heap of many blocks, more than 16 bits can number, of which every other block is ended first. Returns how much it takes.
static uint64_t fill_heap(struct ht_torturer *t, uint64_t *resident) {
    const uint64_t most = t->of->most_bytes / 8;
    uint64_t filled = 0;
    for (uint32_t i = 0; i < ht_work.count && ht_torture_goes_on(t); i++) {
        uint64_t bytes = i % 100 || filled > most ? 16 + i % 33 : ht_any_size(t, 17);
        ht_block_make(t, t->of->blocks + ht_work.first + i, HT_VERIFIED_MALLOC, bytes, 0);
        filled += bytes;
    }
    *resident = ht_torture_resident(t->of);
    for (uint32_t i = 0; i < ht_work.count; i += 2) ht_block_end(t, t->of->blocks + ht_work.first + i);
    ht_slots_end(t, ht_work);
    return filled;
}

bool ht_torture_reuse(struct ht_torturer *t) {
    static const uint64_t sizes[] = {700, 20000, 300000};
    t->all_pages = true;
    for (enum ht_verified_function function = 0; function < HT_VERIFIED_FUNCTIONS; function++)
        for (size_t i = 0; i < 3; i++)
            if (i < 2 || function <= HT_VERIFIED_ALIGNED) use_again(t, function, sizes[i], 0);
    use_small_again(t, 24, 16 * MIB);
    use_small_again(t, 64, 32 * MIB);
    use_small_again(t, 500, 96 * MIB);
    use_small_again(t, 4000, 256 * MIB);
    use_again(t, HT_VERIFIED_REALLOC, 1200, 100);
    use_again(t, HT_VERIFIED_REALLOC, 150000, 9000);
    use_again(t, HT_VERIFIED_REALLOC, 600000, 200000);
    use_again(t, HT_VERIFIED_REALLOC, 100, 5000);
    struct ht_torture_record *record = &t->of->findings->torture;
    uint64_t first, second, after;
    record->freed_bytes = fill_heap(t, &first);
    after = ht_torture_resident(t->of);
    record->returned_bytes = first > after ? first - after : 0;
    fill_heap(t, &second);
    const struct ht_block heap = {.function = HT_VERIFIED_MALLOC};
    if (second > first + 4 * MIB + record->freed_bytes / 4)
        ht_torture_tell(t, HT_VIOLATION_NOT_USED, &heap, record->freed_bytes, second - first);
    t->all_pages = false;
    return true;
}
