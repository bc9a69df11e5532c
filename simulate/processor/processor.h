// SPDX-License-Identifier: Apache-2.0
// A simulated processor's caches and translation buffers (TLBs): sets of ways, of which the least recently used
// is replaced; no prefetcher, no writing back, no time. Like all of simulate/processor/ and simulate/accesses/
// it calls no C library: the Valgrind tool, which has none, links it.
#ifndef HEAPTAPE_PROCESSOR_H
#define HEAPTAPE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HT_LINE_SHIFT = 6,   // lines of 64 bytes
    HT_PAGE_SHIFT = 12,  // pages of 4 KiB: no huge ones
    HT_STREAMS = 32,
    HT_LEVEL_ENTRIES_MAX = 1 << 17,  // 8 MiB of lines
    HT_FAR_WAYS = 16,
    HT_FAR_ENTRIES_MIN = 1 << 16,  // 4 MiB of lines
};

struct ht_level_size {
    uint32_t sets;  // a power of two
    uint32_t ways;  // least 1
};

enum ht_level { HT_L1D, HT_L1I, HT_L2, HT_DTLB, HT_STLB, HT_LEVELS };

// Behind the second level lies one that processors share. How much of it is there for one of them depends on the others, so that
// several are simulated, each twice as large as the one before: the cost model knows how far away a line of each of them is.
enum ht_far { HT_FAR_4_MIB, HT_FAR_8_MIB, HT_FAR_16_MIB, HT_FAR_32_MIB, HT_FARS };

struct ht_processor_size {
    struct ht_level_size level[HT_LEVELS];
};

// What one part of a program did. A miss is *sequential* if its line lies within two lines of where one of the 32
// last streams of misses of the first-level data cache is: prefetchers, which follow as many, make such ones cheap.
struct ht_miss_counts {
    uint64_t accesses;
    uint64_t l1d, l1d_sequential;  // misses of the first-level data cache, and those among them
    uint64_t l2, l2_sequential;    // those of them that the second level misses too
    uint64_t l1i, l1i_l2;          // misses of the instruction cache; those that the second level misses too
    uint64_t dtlb, stlb;           // pages that the first TLB misses; those that the second misses too
    // Second-level misses, but the sequential ones, that a cache of this size misses too.
    uint64_t far[HT_FARS];
};

struct ht_simulated_level {
    uint64_t *tags;  // sets × ways, most recently used first; 0: empty
    uint32_t set_mask, ways;
};

struct ht_processor {
    struct ht_simulated_level level[HT_LEVELS];
    uint64_t last_line, last_page, last_code_line;  // each + 1: the most recent of its set
    uint64_t streams[HT_STREAMS];                   // the last line of each, most recently used first
    struct ht_simulated_level far[HT_FARS];
    uint64_t tags[2 * HT_LEVEL_ENTRIES_MAX];
    uint64_t far_tags[((1 << HT_FARS) - 1) * HT_FAR_ENTRIES_MIN];
};

// Whether the sizes can be simulated.
bool ht_processor_takes(const struct ht_processor_size *size);
// Empty caches. False if the sizes are not what struct ht_level_size says, or too large.
bool ht_processor_start(struct ht_processor *processor, const struct ht_processor_size *size);

enum ht_served { HT_SERVED_L1, HT_SERVED_L2, HT_SERVED_MEMORY };

// One line, by its address >> HT_LINE_SHIFT. The place that serves it.
enum ht_served ht_processor_line(struct ht_processor *processor, uint64_t line,
                                 struct ht_miss_counts *counts);
// The line of instructions that is executed.
void ht_processor_code_line(struct ht_processor *processor, uint64_t line, struct ht_miss_counts *counts);

// The kernel zeroes a page, by its address >> HT_PAGE_SHIFT: its lines are in the caches then.
void ht_processor_zero_page(struct ht_processor *processor, uint64_t page);

// A load or a store of so many bytes, at least 1; the worse of its lines.
static inline enum ht_served ht_processor_access(struct ht_processor *processor, uint64_t address,
                                                 uint32_t bytes, struct ht_miss_counts *counts) {
    uint64_t first = address >> HT_LINE_SHIFT, last = (address + bytes - 1) >> HT_LINE_SHIFT;
    counts->accesses++;
    if (last == first && first + 1 == processor->last_line)
        return HT_SERVED_L1;  // and its page is the last one
    enum ht_served served = ht_processor_line(processor, first, counts);
    if (__builtin_expect(last == first, 1)) return served;
    enum ht_served second = ht_processor_line(processor, last, counts);
    return second > served ? second : served;
}

// Page faults of a simulated program: the first access to a page of its memory since the page was mapped or
// given back.
enum {
    HT_TOUCH_LEAF_BITS = 15,  // pages of a leaf: 128 MiB of addresses
    HT_TOUCH_ROOT_BITS = 20,  // leaves: all addresses of 47 bits
};

struct ht_page_touches {
    void *(*new_zeroed)(size_t bytes);  // memory for a leaf; doesn't return without
    uint8_t *leaf[1 << HT_TOUCH_ROOT_BITS];
};

// Whether the page, by its address >> HT_PAGE_SHIFT, was not touched before.
bool ht_touch_page(struct ht_page_touches *touches, uint64_t page);
// The pages that lie wholly in the range are fresh again.
void ht_forget_pages(struct ht_page_touches *touches, uint64_t address, uint64_t bytes);

// The kernel moves a mapping: a page at the new place counts as touched if the one at the old place was. Both addresses
// begin a page.
void ht_move_pages(struct ht_page_touches *touches, uint64_t from, uint64_t to, uint64_t bytes);

#endif
