// SPDX-License-Identifier: Apache-2.0
// Which inherited blocks a process wrote, from the pages that were copied: an estimate, since a page holds many blocks and the
// allocator writes, too. Each draw is one history that would have copied these pages.
//
// Evidence are exclusive pages (written) and shared ones (not written); others tell nothing. A page counts as written, too, where
// a process is merely the last one that has it, since all others, its parent as well, have copied theirs. While a parent does not
// write, it keeps the frame, and nobody looks like that. Otherwise more is drawn than was written, but only into pages that this
// process would have to itself in any case. It does little to what is learned: sizes are learned from all processes together.
#ifndef HEAPTAPE_WRITTEN_PARTS_H
#define HEAPTAPE_WRITTEN_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page_evidence.h"

// A byte of a block that is to be written: of each page that the block covered, at most one.
struct ht_written_part {
    uint32_t block;
    uint64_t offset;  // in the block
};

// The ends of a band in which the truth is to be expected.
enum ht_write_clusters {
    HT_WRITES_APART,  // of the blocks of a page each for itself
    HT_WRITES_TOGETHER  // blocks that were born one after the other are written together, so many as neighbouring pages that
                        // were copied together suggest
};

struct ht_write_model;
// One draw for a process that the model was made of: the same arrays. The same for the same seed. False for want of memory;
// *parts is to be freed.
bool ht_written_parts_draw(const struct ht_write_model *model, const struct ht_inherited_pages *pages,
                           enum ht_write_clusters clusters, uint64_t seed, struct ht_written_part **parts,
                           size_t *count);

#endif
