// SPDX-License-Identifier: Apache-2.0
// What a conversion says to its user: progress, and the final line.
#ifndef HEAPTAPE_CONVERT_REPORT_H
#define HEAPTAPE_CONVERT_REPORT_H

#include "merge.h"
#include "talk.h"

// As struct merge_progress wants it; context is a struct ht_progress. total 0: unknown.
void convert_show_progress(void *context, uint64_t done, uint64_t total, uint64_t events);

// A warning, with -q as well, where most of the program's memory is not from malloc.
void convert_warn_of_unseen(const char *output, const struct merge_totals *totals, const char *inside);
// skipped: lines or records that --lenient passed over.
void convert_say_result(const char *output, const struct merge_totals *totals, uint64_t file_bytes,
                        double seconds, uint64_t skipped);

#endif
