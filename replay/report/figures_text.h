// SPDX-License-Identifier: Apache-2.0
// Latencies, counters, system calls, slop and what is left over, as tables for people.
#ifndef HEAPTAPE_FIGURES_TEXT_H
#define HEAPTAPE_FIGURES_TEXT_H

#include <stdio.h>

#include "comparison.h"

void ht_harness_share_print(FILE *out, const struct ht_comparison *comparison);
// A line, where there are huge pages or could be, or they were chosen.
void ht_huge_pages_print(FILE *out, const struct ht_comparison *comparison);
// What allocators made of the processors that they were shown.
void ht_processors_print(FILE *out, const struct ht_comparison *comparison);
void ht_figures_print(FILE *out, const struct ht_comparison *comparison);

#endif
