// SPDX-License-Identifier: Apache-2.0
// The caches and TLBs of the processor at hand, for the simulation.
#ifndef HEAPTAPE_GEOMETRY_H
#define HEAPTAPE_GEOMETRY_H

#include "processor.h"

struct ht_geometry {
    struct ht_processor_size size;
    bool caches_known, tlbs_known;  // by the cpuid instruction; otherwise those of a common server processor
};

void ht_geometry_read(struct ht_geometry *geometry);

enum { HT_GEOMETRY_TEXT_BYTES = 160 };
// "64x12,64x8,2048x16,16x6,128x16": sets and ways in the order of enum ht_level.
const char *ht_geometry_text(char text[HT_GEOMETRY_TEXT_BYTES], const struct ht_processor_size *size);

#endif
