// Rounds what a trace has of sizes and times, so that it tells less of the program that was recorded.
#ifndef HEAPTAPE_COARSENING_H
#define HEAPTAPE_COARSENING_H

#include "shared_words.h"
#include "trace_reader.h"

// "sizes=3,times=1ms", either or both. Returns what was expected, or NULL.
const char *coarsening_parse(const char *text, struct coarsening *coarsening);

// Up to the next number with so few significant bits; down where there is none. Sizes below 2^bits are what they were.
// The next one is a multiple of any power of two that the size was one of.
uint64_t coarse_bytes(const struct coarsening *coarsening, uint64_t bytes);
uint64_t coarse_time(const struct coarsening *coarsening, uint64_t time_ns);

// Of calloc and reallocarray the product is rounded, and becomes one element. Alignments stay.
void coarsen_events(const struct coarsening *coarsening, struct ht_events *events);
// Samples, pages of blocks, times of threads.
void coarsen_facts(const struct coarsening *coarsening, struct ht_trace_facts *facts);

#endif
