// SPDX-License-Identifier: Apache-2.0
// Which pages of this process's own memory are resident, as the kernel shows them: its own anonymous pages, those of
// files' private mappings that were written to included, as RssAnon counts them.
#ifndef HEAPTAPE_RESIDENT_PAGES_H
#define HEAPTAPE_RESIDENT_PAGES_H

#include <stdint.h>

#include "snapshot_rows.h"

// Called for each page, by rising address.
typedef void ht_resident_visitor(void *context, uint64_t page, enum ht_mapping_kind kind);

// Memory that the reading takes, in no heap.
struct ht_resident_buffer {
    char text[1 << 16];
    uint64_t entries[1 << 13];
};

// Returns 0, or the errno of what cannot be read.
int ht_resident_each(struct ht_resident_buffer *buffer, ht_resident_visitor *visit, void *context);

#endif
