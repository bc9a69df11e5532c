// SPDX-License-Identifier: Apache-2.0
// With which samples of RSS snapshots are taken.
#ifndef HEAPTAPE_SNAPSHOT_CHOICE_H
#define HEAPTAPE_SNAPSHOT_CHOICE_H

#include "built_form.h"
#include "run_figures.h"
#include "snapshot_rows.h"
#include "snapshot_times.h"

struct ht_snapshot_moment {
    uint32_t sample;
    const char *why;  // "peak", "end", "jump" or "time"
};

// In the order of the samples, none twice. rss: of the allocator at each sample of the form, the null replayer's taken off. That
// of a peak within a call is of the sample just before or after it, whichever has more. Returns how many.
uint32_t ht_snapshot_choose(const struct ht_snapshot_times *times, const struct ht_built_form *built,
                            struct ht_rss_samples rss, struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX]);

// After which samples the accounts are taken: the last ones of stretches of equal time, and of as many calls. Returns
// how many, which is fewer where so many slots are to be gone through each time that it would take long.
uint32_t ht_stretches_choose(const struct ht_built_form *built, uint32_t sample[HT_STRETCHES_MAX]);

#endif
