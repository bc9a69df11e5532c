// SPDX-License-Identifier: Apache-2.0
// What is learned of how often blocks are written. A hazard is -log of the chance to stay clean, so those of a page's parts add
// up.
#ifndef HEAPTAPE_WRITE_MODEL_H
#define HEAPTAPE_WRITE_MODEL_H

#include "part_classes.h"

// Of one process.
struct ht_write_fit {
    struct ht_inherited_pages pages;
    double level;                     // its hazards, over those of all
    double allocator[HT_PAGE_KINDS];  // the chance that the allocator wrote a page of this kind
};

struct ht_write_model {
    struct ht_write_fit *fit;
    size_t processes;
    struct ht_size_classes classes;
    double *hazard;              // of each class
    double cluster;              // parts in order of birth that are written together
    enum ht_page_kind evidence;  // classes were learned from pages up to this kind
    size_t stride;               // and from each page of so many
};

// The sum of the page's hazards.
double ht_page_hazard(const struct ht_write_model *model, const struct ht_write_fit *fit,
                      const struct ht_classed_parts *classed, size_t page);

#endif
