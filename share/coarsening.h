// SPDX-License-Identifier: Apache-2.0
// Rounds what a trace has of sizes and times, so that it tells less of the program that was recorded.
#ifndef HEAPTAPE_COARSENING_H
#define HEAPTAPE_COARSENING_H

#include "context_words.h"
#include "trace_facts.h"

// "sizes=3,times=1ms", either or both. Returns what was expected, or NULL.
const char *coarsening_parse(const char *text, struct coarsening *coarsening);

uint64_t coarse_time(const struct coarsening *coarsening, uint64_t time_ns);

// Of calloc and reallocarray the product is rounded, and becomes one element. Alignments stay.
void coarsen_event(const struct coarsening *coarsening, struct ht_events *events, uint32_t row);
// Samples, times of steps and threads.
void coarsen_facts(const struct coarsening *coarsening, struct ht_trace_facts *facts);

// The pages of blocks, whose rows are taken in the order of their births: up to those before here.
struct coarsened_rows {
    uint64_t page_bytes;
    size_t residency, steps;
};
// Of all rows up to that event's, which made a block of so many bytes, that is to have others. One that was resident in all pages
// that it lay in, as its number of pages says, still is.
void coarsen_pages(const struct coarsening *coarsening, struct coarsened_rows *rows,
                   struct ht_trace_facts *facts, uint64_t event, uint64_t bytes, uint64_t coarse);

#endif
