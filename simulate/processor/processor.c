#include "processor.h"

static bool is_size(struct ht_level_size size) {
    return size.sets && !(size.sets & (size.sets - 1)) && size.ways &&
           size.ways <= HT_LEVEL_ENTRIES_MAX / size.sets;
}

bool ht_processor_start(struct ht_processor *processor, const struct ht_processor_size *size) {
    uint64_t used = 0;
    for (int i = 0; i < HT_LEVELS; i++) {
        struct ht_level_size level = size->level[i];
        if (!is_size(level)) return false;
        uint64_t entries = (uint64_t)level.sets * level.ways;
        if (used + entries > sizeof processor->tags / sizeof *processor->tags) return false;
        processor->level[i] = (struct ht_simulated_level){
            .tags = processor->tags + used, .set_mask = level.sets - 1, .ways = level.ways};
        used += entries;
    }
    for (uint64_t i = 0; i < used; i++) processor->tags[i] = 0;
    for (int i = 0; i < HT_RECENT_MISSES; i++) processor->recent_misses[i] = 0;
    processor->last_line = processor->last_page = processor->last_code_line = 0;
    processor->misses = 0;
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
    bool sequential = false;
    for (int i = 0; i < HT_RECENT_MISSES && !sequential; i++) {
        uint64_t distance = line - processor->recent_misses[i] + 2;  // 0 to 4: within two lines
        sequential = distance <= 4 && distance != 2;
    }
    processor->recent_misses[processor->misses++ % HT_RECENT_MISSES] = line;
    return sequential;
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
    return HT_SERVED_MEMORY;
}

void ht_processor_code_line(struct ht_processor *processor, uint64_t line, struct ht_miss_counts *counts) {
    if (line + 1 == processor->last_code_line) return;
    processor->last_code_line = line + 1;
    if (look_up(&processor->level[HT_L1I], line)) return;
    counts->l1i++;
    counts->l1i_l2 += !look_up(&processor->level[HT_L2], line);
}

void ht_processor_zero_page(struct ht_processor *processor, uint64_t page) {
    const uint64_t lines = 1 << (HT_PAGE_SHIFT - HT_LINE_SHIFT);
    for (uint64_t line = page * lines; line < (page + 1) * lines; line++)
        if (!look_up(&processor->level[HT_L1D], line)) look_up(&processor->level[HT_L2], line);
    processor->last_line = 0;
}
