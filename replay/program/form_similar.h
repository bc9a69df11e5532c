// How far are blocks filled of which the trace does not know it? The recorder looks at blocks below 64 KiB only now and then
// (at most every 20 us). Such a block is filled as the last one was that is known, of nearly its size.
#ifndef HEAPTAPE_FORM_SIMILAR_H
#define HEAPTAPE_FORM_SIMILAR_H

#include <stdint.h>

#include "form_operation.h"

enum { HT_SIMILAR_LEAST_BYTES = 16 << 10, HT_SIMILAR_END_BYTES = 64 << 10, HT_SIMILAR_CLASSES = 128 };

struct ht_similar_block {
    uint32_t pages, resident;  // its pages, and how many were resident in the end; 0, 0: none is known
};

struct ht_similar {
    struct ht_similar_block
        known[2][HT_SIMILAR_CLASSES];  // malloc's kind and calloc; by size, in steps of 1.6 %
};

// So many pages of the block that the operation made were resident in the end.
void ht_similar_learn(struct ht_similar *similar, const struct ht_operation *op, uint64_t pages);
// How many that will be of a block of which it is not known; HT_PAGES_BY_RULE: no similar one is.
uint64_t ht_similar_pages(const struct ht_similar *similar, const struct ht_operation *op);

#endif
