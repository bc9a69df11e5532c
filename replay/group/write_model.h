// SPDX-License-Identifier: Apache-2.0
// What is learned of how often blocks are written. A hazard is -log of the chance to stay clean, so those of a page's parts add
// up: that of a part is the rate of its region of pages times the weight of its class.
#ifndef HEAPTAPE_WRITE_MODEL_H
#define HEAPTAPE_WRITE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page_parts.h"

enum { HT_REGION_PAGES = 16 };

// What is learned of one process.
struct ht_write_fit {
    struct ht_inherited_pages pages;
    double *rate;                     // of each region
    double allocator[HT_PAGE_KINDS];  // the hazard that the allocator writes a page of this kind
};

struct ht_write_model {
    struct ht_write_fit *fit;
    size_t processes;
    struct ht_size_classes classes;
    double *weight;  // of each class; 1 is usual
    double cluster;  // parts in order of birth that are written together
};

// Learns from all processes how often blocks of each size are written. NULL for want of memory. The arrays must last as long as
// the model.
struct ht_write_model *ht_write_model_make(const struct ht_inherited_pages *pages, size_t processes);
void ht_write_model_free(struct ht_write_model *model);
// How many blocks in order of birth are written together: what HT_WRITES_TOGETHER assumes.
double ht_write_model_cluster(const struct ht_write_model *model);

static inline double ht_part_hazard(const struct ht_write_model *model, const struct ht_write_fit *fit,
                                    const struct ht_classed_parts *classed, size_t page, uint32_t part) {
    return fit->rate[page / HT_REGION_PAGES] * model->weight[classed->class[part]];
}

// Which inherited blocks a process wrote, from the pages that were copied: an estimate, since a page holds many blocks and the
// allocator writes, too. Each draw is one history that would have copied these pages.
//
// Evidence are exclusive pages (written) and shared ones (not written); others tell nothing. A page counts as written, too, where
// a process is merely the last one that has it, since all others, its parent as well, have copied theirs. While a parent does not
// write, it keeps the frame, and nobody looks like that. Otherwise more is drawn than was written, but only into pages that this
// process would have to itself in any case. It does little to what is learned: sizes are learned from all processes together.

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

// One draw for a process that the model was made of: the same arrays. The same for the same seed. False for want of memory;
// *parts is to be freed.
bool ht_written_parts_draw(const struct ht_write_model *model, const struct ht_inherited_pages *pages,
                           enum ht_write_clusters clusters, uint64_t seed, struct ht_written_part **parts,
                           size_t *count);

#endif
