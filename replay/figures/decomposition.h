// SPDX-License-Identifier: Apache-2.0
// What the resident memory of a run is made of (docs/method/figures.md), the same for every allocator.
#ifndef HEAPTAPE_DECOMPOSITION_H
#define HEAPTAPE_DECOMPOSITION_H

#include "accounting_figures.h"
#include "form_builder.h"
#include "leftover_figures.h"
#include "run_figures.h"

// Bytes, NaN where not known. rss = requested + internal - untouched + other, without internal where that is
// not known. Any difference can be less than 0, and is reported so.
struct ht_decomposition_part {
    double rss_bytes;
    double requested_bytes;  // of what is live
    double internal_bytes;   // usable beyond that
    double untouched_bytes;  // of both: pages that the replay did not write to, so that none need be resident
    double other_bytes;      // caches, external fragmentation, metadata
    double lazyfree_bytes;   // of rss_bytes
    double in_call_bytes;    // of other_bytes: what RSS within a call was above RSS after it
};

struct ht_decomposition {
    struct ht_decomposition_part peak, end;      // where RSS is most; when all has been replayed
    double after_free_bytes, after_purge_bytes;  // RSS
};

// memory: with its samples. accounting: of the same allocator.
void ht_decompose(const struct ht_built_form *built, const struct ht_memory_figures *memory,
                  const struct ht_leftover_figures *leftovers, const struct ht_accounting_figures *accounting,
                  struct ht_decomposition *decomposition);
// Nothing but NaN.
void ht_decomposition_unknown(struct ht_decomposition *decomposition);

#endif
