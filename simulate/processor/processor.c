// SPDX-License-Identifier: Apache-2.0
#include "processor.h"

#include <stddef.h>

static bool is_size(struct ht_level_size size) {
    return size.sets && !(size.sets & (size.sets - 1)) && size.ways &&
           size.ways <= HT_LEVEL_ENTRIES_MAX / size.sets;
}

bool ht_processor_takes(const struct ht_processor_size *size) {
    uint64_t used = 0;
    for (int i = 0; i < HT_LEVELS; i++) {
        if (!is_size(size->level[i])) return false;
        used += (uint64_t)size->level[i].sets * size->level[i].ways;
    }
    return used <= 2 * HT_LEVEL_ENTRIES_MAX;
}

static uint64_t *start_level(struct ht_simulated_level *level, uint64_t *tags, struct ht_level_size size) {
    const uint64_t entries = (uint64_t)size.sets * size.ways;
    *level = (struct ht_simulated_level){.tags = tags, .set_mask = size.sets - 1, .ways = size.ways};
    for (uint64_t i = 0; i < entries; i++) tags[i] = 0;
    return tags + entries;
}

bool ht_processor_start(struct ht_processor *processor, const struct ht_processor_size *size) {
    uint64_t *tags = processor->tags, *far_tags = processor->far_tags;
    if (!ht_processor_takes(size)) return false;
    for (int i = 0; i < HT_LEVELS; i++) tags = start_level(&processor->level[i], tags, size->level[i]);
    for (int i = 0; i < HT_FARS; i++) {
        const struct ht_level_size far = {(uint32_t)(HT_FAR_ENTRIES_MIN << i) / HT_FAR_WAYS, HT_FAR_WAYS};
        far_tags = start_level(&processor->far[i], far_tags, far);
    }
    for (int i = 0; i < HT_STREAMS; i++) processor->streams[i] = 0;
    processor->last_line = processor->last_page = processor->last_code_line = 0;
    return true;
}

// Whether the entry was there. Afterwards it is the most recent of its set.
static inline bool look_up(const struct ht_simulated_level *level, uint64_t number) {
    uint64_t *set = level->tags + (number & level->set_mask) * level->ways, tag = number + 1;
    uint64_t before = set[0];
    if (before == tag) return true;
    set[0] = tag;
    for (uint32_t way = 1; way < level->ways; way++) {
        uint64_t found = set[way];
        set[way] = before;
        if (found == tag) return true;
        before = found;
    }
    return false;
}

static bool is_sequential(struct ht_processor *processor, uint64_t line) {
    uint64_t *streams = processor->streams, before = line;
    for (int i = 0; i < HT_STREAMS; i++) {
        uint64_t found = streams[i], distance = line - found + 2;  // 0 to 4: within two lines
        streams[i] = before;
        if (distance <= 4) return distance != 2;
        before = found;
    }
    return false;
}

// A line that the second level missed. Whoever needs it finds it there afterwards.
static void look_up_far(struct ht_processor *processor, uint64_t line, uint64_t *counts) {
    for (int i = 0; i < HT_FARS; i++) {
        bool missed = !look_up(&processor->far[i], line);
        if (counts) counts[i] += missed;
    }
}

enum ht_served ht_processor_line(struct ht_processor *processor, uint64_t line,
                                 struct ht_miss_counts *counts) {
    uint64_t page = line >> (HT_PAGE_SHIFT - HT_LINE_SHIFT);
    if (page + 1 != processor->last_page) {
        processor->last_page = page + 1;
        if (!look_up(&processor->level[HT_DTLB], page)) {
            counts->dtlb++;
            counts->stlb += !look_up(&processor->level[HT_STLB], page);
        }
    }
    if (line + 1 == processor->last_line) return HT_SERVED_L1;
    processor->last_line = line + 1;
    if (look_up(&processor->level[HT_L1D], line)) return HT_SERVED_L1;
    bool sequential = is_sequential(processor, line);
    counts->l1d++;
    counts->l1d_sequential += sequential;
    if (look_up(&processor->level[HT_L2], line)) return HT_SERVED_L2;
    counts->l2++;
    counts->l2_sequential += sequential;
    look_up_far(processor, line, sequential ? NULL : counts->far);
    return HT_SERVED_MEMORY;
}

void ht_processor_code_line(struct ht_processor *processor, uint64_t line, struct ht_miss_counts *counts) {
    if (line + 1 == processor->last_code_line) return;
    processor->last_code_line = line + 1;
    if (look_up(&processor->level[HT_L1I], line)) return;
    counts->l1i++;
    if (look_up(&processor->level[HT_L2], line)) return;
    counts->l1i_l2++;
    look_up_far(processor, line, counts->far);
}

void ht_processor_zero_page(struct ht_processor *processor, uint64_t page) {
    const uint64_t lines = 1 << (HT_PAGE_SHIFT - HT_LINE_SHIFT);
    for (uint64_t line = page * lines; line < (page + 1) * lines; line++)
        if (!look_up(&processor->level[HT_L1D], line) && !look_up(&processor->level[HT_L2], line))
            look_up_far(processor, line, NULL);
    processor->last_line = 0;
}

enum { LEAF_PAGES = 1 << HT_TOUCH_LEAF_BITS, LEAF_BYTES = LEAF_PAGES / 8 };

bool ht_touch_page(struct ht_page_touches *touches, uint64_t page) {
    uint64_t at = page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1);
    if (!touches->leaf[at]) touches->leaf[at] = touches->new_zeroed(LEAF_BYTES);
    uint8_t *byte = touches->leaf[at] + (page % LEAF_PAGES) / 8, bit = (uint8_t)(1 << page % 8);
    bool fresh = !(*byte & bit);
    *byte |= bit;
    return fresh;
}

void ht_forget_pages(struct ht_page_touches *touches, uint64_t address, uint64_t bytes) {
    const uint64_t page_bytes = 1 << HT_PAGE_SHIFT;
    uint64_t page = (address + page_bytes - 1) >> HT_PAGE_SHIFT, end = (address + bytes) >> HT_PAGE_SHIFT;
    while (page < end) {
        uint64_t next = (page | (LEAF_PAGES - 1)) + 1;
        if (next > end) next = end;
        uint8_t *leaf = touches->leaf[page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1)];
        for (; leaf && page < next; page++) leaf[page % LEAF_PAGES / 8] &= (uint8_t)~(1 << page % 8);
        page = next;
    }
}

static bool was_touched(const struct ht_page_touches *touches, uint64_t page) {
    const uint8_t *leaf = touches->leaf[page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1)];
    return leaf && leaf[page % LEAF_PAGES / 8] >> page % 8 & 1;
}

void ht_move_pages(struct ht_page_touches *touches, uint64_t from, uint64_t to, uint64_t bytes) {
    ht_forget_pages(touches, to, bytes);
    for (uint64_t at = 0; at < bytes; at += 1 << HT_PAGE_SHIFT) {
        if (was_touched(touches, (from + at) >> HT_PAGE_SHIFT))
            ht_touch_page(touches, (to + at) >> HT_PAGE_SHIFT);
    }
}
