// SPDX-License-Identifier: Apache-2.0
#include "verify_pattern.h"

#include <string.h>

#include "replay_form.h"

enum { WORD = sizeof(uint64_t) };
typedef uint64_t __attribute__((may_alias, aligned(1))) loose_word;

static uint64_t word_at(uint64_t seed, uint64_t index) {
    uint64_t mixed = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 29;
}

static void fill_span(uint64_t seed, char *block, uint64_t from, uint64_t to) {
    uint64_t at = from;
    for (; at % WORD == 0 && to - at >= WORD; at += WORD) {
        *(loose_word *)(block + at) = word_at(seed, at / WORD);
    }
    while (at < to) {
        uint64_t word = word_at(seed, at / WORD), in_word = at % WORD, bytes = WORD - in_word;
        if (bytes > to - at) bytes = to - at;
        memcpy(block + at, (const char *)&word + in_word, bytes);
        at += bytes;
    }
}

static bool span_holds(uint64_t seed, const char *block, uint64_t from, uint64_t to, uint64_t *offset,
                       uint8_t *expected, uint8_t *found) {
    uint64_t at = from;
    while (at % WORD == 0 && to - at >= WORD &&
           *(const loose_word *)(block + at) == word_at(seed, at / WORD)) {
        at += WORD;
    }
    while (at < to) {
        uint64_t word = word_at(seed, at / WORD), in_word = at % WORD, bytes = WORD - in_word;
        if (bytes > to - at) bytes = to - at;
        const char *wanted = (const char *)&word + in_word;
        if (memcmp(block + at, wanted, bytes)) {
            while (block[at] == *wanted) at++, wanted++;
            *offset = at;
            *expected = (uint8_t)*wanted;
            *found = (uint8_t)block[at];
            return false;
        }
        at += bytes;
    }
    return true;
}

// The i-th span of a block, cut at `limit`. False: there are no more.
static bool span(const struct ht_pattern *pattern, uint64_t i, uint64_t limit, uint64_t *from, uint64_t *to) {
    bool sparse = pattern->sparse && pattern->bytes >= HT_TOUCH_PAGE_BYTES;
    bool whole = pattern->bytes < HT_PATTERN_WHOLE_BYTES && !sparse;
    uint64_t pages = (pattern->bytes + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES;
    if (pages > pattern->pages) pages = pattern->pages;
    uint64_t last = whole ? 0 : pages;
    if (i > last + 1) return false;
    if (i > last) {
        uint64_t beyond = pattern->usable > pattern->bytes ? pattern->usable - pattern->bytes : 0;
        *from = pattern->usable - (beyond < HT_PATTERN_SPAN_BYTES ? beyond : HT_PATTERN_SPAN_BYTES);
        *to = pattern->usable;
    } else if (whole) {
        *from = 0;
        *to = pattern->bytes;
    } else {
        *from = i < last ? i * HT_TOUCH_PAGE_BYTES : pattern->bytes - HT_PATTERN_SPAN_BYTES;
        *to = *from + HT_PATTERN_SPAN_BYTES;
        if (*to > pattern->bytes) *to = pattern->bytes;
    }
    if (*to > limit) *to = limit;
    if (*from > *to) *from = *to;
    return true;
}

void ht_pattern_fill(const struct ht_pattern *pattern, char *block) {
    uint64_t from, to;
    for (uint64_t i = 0; span(pattern, i, UINT64_MAX, &from, &to); i++) {
        fill_span(pattern->seed, block, from, to);
    }
}

void ht_pattern_extend(struct ht_pattern *pattern, char *block, uint64_t pages) {
    uint64_t from, to, i = pattern->pages;
    if (pages <= i) return;
    pattern->pages = pages;
    for (; span(pattern, i, UINT64_MAX, &from, &to); i++) fill_span(pattern->seed, block, from, to);
}

bool ht_pattern_holds(const struct ht_pattern *pattern, const char *block, uint64_t bytes, uint64_t *offset,
                      uint8_t *expected, uint8_t *found) {
    uint64_t from, to;
    for (uint64_t i = 0; span(pattern, i, bytes, &from, &to); i++) {
        if (!span_holds(pattern->seed, block, from, to, offset, expected, found)) return false;
    }
    return true;
}

static bool zeros(const char *block, uint64_t from, uint64_t to, uint64_t *offset, uint8_t *found) {
    static const char page[HT_TOUCH_PAGE_BYTES];
    for (uint64_t at = from; at < to; at += sizeof page) {
        uint64_t bytes = to - at < sizeof page ? to - at : sizeof page;
        if (!memcmp(block + at, page, bytes)) continue;
        while (!block[at]) at++;
        *offset = at;
        *found = (uint8_t)block[at];
        return false;
    }
    return true;
}

bool ht_all_zeros(const char *block, uint64_t bytes, uint64_t *offset, uint8_t *found) {
    const uint64_t page = HT_TOUCH_PAGE_BYTES;
    if (bytes <= HT_ZEROS_WHOLE_BYTES) return zeros(block, 0, bytes, offset, found);
    uint64_t pages = bytes / page, step = pages / (HT_ZEROS_WHOLE_BYTES / page) + 1;
    for (uint64_t at = 0; at < pages; at += step) {
        if (!zeros(block, at * page, (at + 1) * page, offset, found)) return false;
    }
    return zeros(block, bytes - page, bytes, offset, found);
}
