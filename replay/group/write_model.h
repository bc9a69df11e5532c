// SPDX-License-Identifier: Apache-2.0
// What is learned of how often blocks are written. A hazard is -log of the chance to stay clean, so those of a page's parts add
// up: that of a part is the rate of its region of pages times the weight of its class.
#ifndef HEAPTAPE_WRITE_MODEL_H
#define HEAPTAPE_WRITE_MODEL_H

#include "part_classes.h"

enum { HT_REGION_PAGES = 16 };

// Of one process.
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

// The sum of the page's hazards, without the allocator's.
double ht_page_hazard(const struct ht_write_model *model, const struct ht_write_fit *fit,
                      const struct ht_classed_parts *classed, size_t page);
// Those of all pages, with the allocator's. NULL for want of memory.
double *ht_page_hazards(const struct ht_write_model *model, const struct ht_write_fit *fit,
                        const struct ht_classed_parts *classed);

// The chance that a part was written, given the states of the pages that its block lies on: one that crosses from one page to
// the next is written on both or on none.
double ht_part_chance(const struct ht_write_model *model, const struct ht_write_fit *fit,
                      const struct ht_classed_parts *classed, const double *hazards, size_t page,
                      uint32_t part);

#endif
