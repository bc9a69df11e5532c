#include "form_similar.h"

#include <assert.h>

static uint32_t pages_of(uint64_t bytes) {
    return (uint32_t)((bytes + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES);
}

// What a realloc leaves as it is was filled before.
static bool is_one(const struct ht_operation *op) {
    return !op->frees && op->call != HT_WIDE_REALLOC && op->bytes >= HT_SIMILAR_LEAST_BYTES &&
           op->bytes < HT_SIMILAR_END_BYTES;
}

// Two octaves, of 64 classes each.
static unsigned class_of(const struct ht_operation *op) {
    unsigned octave = op->bytes >= 2 * HT_SIMILAR_LEAST_BYTES;
    uint64_t least = (uint64_t)HT_SIMILAR_LEAST_BYTES << octave;
    unsigned class = octave * 64 + (unsigned)((op->bytes - least) * 64 / least);
    assert(class < HT_SIMILAR_CLASSES);
    return class;
}

void ht_similar_learn(struct ht_similar *similar, const struct ht_operation *op, uint64_t pages) {
    if (!is_one(op)) return;
    struct ht_similar_block *known = &similar->known[op->call == HT_WIDE_CALLOC][class_of(op)];
    known->pages = pages_of(op->bytes);
    known->resident = pages < known->pages ? (uint32_t)pages : known->pages;
}

uint64_t ht_similar_pages(const struct ht_similar *similar, const struct ht_operation *op) {
    if (!is_one(op)) return HT_PAGES_BY_RULE;
    const struct ht_similar_block *known = &similar->known[op->call == HT_WIDE_CALLOC][class_of(op)];
    if (known->resident >= known->pages) return HT_PAGES_BY_RULE;  // all of it, or none is known
    return ((uint64_t)pages_of(op->bytes) * known->resident + known->pages - 1) / known->pages;
}
