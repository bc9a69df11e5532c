// SPDX-License-Identifier: Apache-2.0
#include "part_classes.h"

#include <stdlib.h>

#include "group_snapshot.h"
#include "group_trace.h"

enum {
    EXACT_SIZE_MAX = 65536,
    EXACT_MIN = 200,  // parts that make a size a class of its own
    HALF_OCTAVES = 128,
    EXACTS_MAX = UINT16_MAX / 2 - HALF_OCTAVES
};

bool ht_page_copied(const struct ht_classed_parts *classed, size_t page) {
    return (classed->pages->state[page] & HT_PAGE_STATE_BITS) == HT_PAGE_EXCLUSIVE;
}

bool ht_page_tells(const struct ht_classed_parts *classed, size_t page) {
    const struct ht_page_parts *parts = &classed->parts;
    return parts->first[page] < parts->first[page + 1] && parts->kind[page] != HT_PAGE_UNKNOWN;
}

bool ht_pages_consecutive(const struct ht_page_parts *parts, size_t one, size_t two) {
    uint32_t middle = parts->block[(parts->first[one] + parts->first[one + 1]) / 2];
    uint32_t next = parts->block[(parts->first[two] + parts->first[two + 1]) / 2];
    return next > middle && next - middle <= 2 * (parts->first[two + 1] - parts->first[one]);
}

bool ht_sizes_count(const struct ht_classed_parts *classed, uint32_t **often) {
    const struct ht_page_parts *parts = &classed->parts;
    if (!*often) *often = calloc(EXACT_SIZE_MAX, sizeof **often);
    if (!*often) return false;
    for (size_t q = 0; q < classed->pages->pages; q++)
        for (uint32_t i = parts->first[q]; parts->kind[q] != HT_PAGE_UNKNOWN && i < parts->first[q + 1];
             i++) {
            uint64_t size = classed->pages->bytes[parts->block[i]];
            if (size < EXACT_SIZE_MAX) (*often)[size]++;
        }
    return true;
}

bool ht_size_classes_choose(struct ht_size_classes *classes, const uint32_t *often) {
    uint32_t count = 0;
    for (uint32_t size = 0; often && size < EXACT_SIZE_MAX; size++) count += often[size] >= EXACT_MIN;
    *classes = (struct ht_size_classes){.exact = malloc((count + 1) * sizeof *classes->exact)};
    if (!classes->exact) return false;
    for (uint32_t size = 0; often && size < EXACT_SIZE_MAX; size++)
        if (often[size] >= EXACT_MIN && classes->exacts < EXACTS_MAX)
            classes->exact[classes->exacts++] = size;
    return true;
}

uint32_t ht_part_classes(const struct ht_size_classes *classes) {
    return 2 * (HALF_OCTAVES + classes->exacts);
}

static uint32_t half_octave(uint64_t size) {
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(size | 1);
    return 2 * octave + (octave ? (uint32_t)(size >> (octave - 1)) & 1 : 0);
}

bool ht_part_classes_give(const struct ht_size_classes *classes, struct ht_classed_parts *classed) {
    const struct ht_page_parts *parts = &classed->parts;
    uint16_t *number = calloc(EXACT_SIZE_MAX, sizeof *number);
    classed->class = malloc((parts->first[classed->pages->pages] + (size_t)1) * sizeof *classed->class);
    bool good = number && classed->class;
    for (uint32_t i = 0; good && i < classes->exacts; i++)
        number[classes->exact[i]] = (uint16_t)(HALF_OCTAVES + i);
    for (size_t q = 0; good && q < classed->pages->pages; q++)
        for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
            uint64_t size = classed->pages->bytes[parts->block[i]];
            uint32_t of_size = size < EXACT_SIZE_MAX && number[size] ? number[size] : half_octave(size);
            classed->class[i] = (uint16_t)(2 * of_size + (classed->pages->page[parts->block[i]] != q));
        }
    free(number);
    return good;
}

void ht_classed_parts_free(struct ht_classed_parts *classed) {
    ht_page_parts_free(&classed->parts);
    free(classed->class);
}
