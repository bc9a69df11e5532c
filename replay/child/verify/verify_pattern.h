// SPDX-License-Identifier: Apache-2.0
// The pattern that verification writes into blocks: every 8 bytes differ with the block's seed and with their
// place in it, so that bytes of another block, of an earlier one in the same place, or moved bytes are wrong.
#ifndef HEAPTAPE_VERIFY_PATTERN_H
#define HEAPTAPE_VERIFY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

// Blocks below HT_PATTERN_WHOLE_BYTES are filled whole. Of larger ones, so that verification needs no more
// memory than a replay that touches what the program touched: the first HT_PATTERN_SPAN_BYTES of so many
// pages, and the block's last as many.
#define HT_PATTERN_WHOLE_BYTES 65536u
#define HT_PATTERN_SPAN_BYTES  64u

// The last HT_PATTERN_SPAN_BYTES of what malloc_usable_size gives beyond the block are filled too: programs
// write there.
struct ht_pattern {
    uint64_t seed;
    uint64_t bytes;   // of the block; 0: nothing of them is filled
    uint64_t pages;   // of a large one
    uint64_t usable;  // 0: not known
    bool sparse;      // filled as a large one, though it is not
};

void ht_pattern_fill(const struct ht_pattern *pattern, char *block);
// Fills the first so many pages, of which some are filled already.
void ht_pattern_extend(struct ht_pattern *pattern, char *block, uint64_t pages);

// Checks what is filled of the block's first `bytes`. True if it is as written; else what is wrong first.
bool ht_pattern_holds(const struct ht_pattern *pattern, const char *block, uint64_t bytes, uint64_t *offset,
                      uint8_t *expected, uint8_t *found);

// Searches a byte that is not 0. All of the block is read up to HT_ZEROS_WHOLE_BYTES; of a larger one
// whole pages at even distances, the last page and so many in all. True if there is none.
#define HT_ZEROS_WHOLE_BYTES (256ull << 20)
bool ht_all_zeros(const char *block, uint64_t bytes, uint64_t *offset, uint8_t *found);

#endif
