// SPDX-License-Identifier: Apache-2.0
// Looking something up among items that are in the order of a 64-bit word of theirs.
#ifndef HEAPTAPE_SORTED_H
#define HEAPTAPE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The number of the first item whose word, so many bytes into it, is `least` or more; `count`: there is none.
static inline size_t ht_first_from(const void *items, size_t count, size_t item_bytes, size_t word_offset,
                                   uint64_t least) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t word;
        memcpy(&word, (const char *)items + middle * item_bytes + word_offset, sizeof word);
        if (word < least) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The same by a member's name, and of the first whose member is above a value.
#define HT_FIRST_FROM(items, count, member, least)                                                           \
    ht_first_from((items), (count), sizeof *(items), offsetof(__typeof__(*(items)), member), (least))
#define HT_FIRST_ABOVE(items, count, member, value)                                                          \
    ((value) == UINT64_MAX ? (count) : HT_FIRST_FROM(items, count, member, (value) + 1))

// For qsort: items that begin with a word, which may be all of them; the lowest first.
static inline int ht_by_word(const void *a, const void *b) {
    uint64_t one, other;
    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return (one > other) - (one < other);
}

#endif
