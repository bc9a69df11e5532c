// SPDX-License-Identifier: Apache-2.0
// The replay under the allocator that served the recording, held against the memory that was recorded. What the
// recorder did to the program it knows only from record --check.
#ifndef HEAPTAPE_BASELINE_CHECK_H
#define HEAPTAPE_BASELINE_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "recorded_program.h"
#include "run_figures.h"

struct ht_baseline_check {
    // The replay's RSS less the recorded heap's, over the recorded: 0.1 is 10 % too much. NaN where nothing is known.
    double peak_error, end_error;
    double curve_error;  // mean distance along the trace, weighted by time, over the mean that was recorded
    double peak_bytes, end_bytes, curve_bytes;  // the three differences
};

extern const struct ht_baseline_check ht_baseline_unchecked;

// rss_bytes: of a replay under the recorded allocator, at each of the form's samples; peak_bytes, end_bytes: its figures.
struct ht_baseline_check ht_baseline_check(const struct ht_recorded_program *program,
                                           const struct ht_built_form *built, const uint64_t *rss_bytes,
                                           double peak_bytes, double end_bytes);

// As results have it, with the reasons as far as the trace knows them, and in `words` one sentence where it differs;
// null where nothing was checked. version: of the allocator as replayed; thp: transparent huge pages of the replay.
json_t *ht_baseline_json(const struct ht_baseline_check *check, const struct ht_recorded_program *program,
                         const struct ht_built_form *built, const char *version, const char *thp);

#endif
