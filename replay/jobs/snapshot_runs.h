// SPDX-License-Identifier: Apache-2.0
// The runs of --snapshots: each allocator's memory pass, its timed pass, for what calls cost along the trace, and the
// memory pass once more with snapshots of its heap.
#ifndef HEAPTAPE_SNAPSHOT_RUNS_H
#define HEAPTAPE_SNAPSHOT_RUNS_H

#include "built_form.h"
#include "latency_figures.h"
#include "replay_values.h"
#include "run_figures.h"
#include "runner.h"
#include "snapshot_rows.h"

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

// What the launcher writes behind a child's snapshots (docs/reference/walk.md).
struct ht_snapshot_index {
    const struct ht_choice *choice;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    uint32_t moments;
    struct ht_block_spacing spacing;
    // The accounts along the trace, and what calls cost there, under the allocator and in the null replayer.
    const uint32_t *stretch_sample;
    uint32_t stretches;
    const struct ht_stretch_accounts *accounts;
    const struct ht_stretch_costs *costs, *null_costs;
    // At each sample of the form: of the memory pass, less the null replayer's; and the null replayer's.
    const uint64_t *rss_bytes, *high_bytes, *null_bytes;
};

// Checks what the child wrote. False, with problem.
bool ht_snapshot_index_write(const struct ht_runner *runner, const struct ht_snapshot_index *index, int fd,
                             char *problem, size_t room);

// Writes FOLDER/NAME.snapshots for each allocator (docs/reference/walk.md), and says on stderr what went wrong.
// Returns how many runs failed.
size_t ht_snapshot_all(struct ht_runner *runner);

#endif
