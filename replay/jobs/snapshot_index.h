// SPDX-License-Identifier: Apache-2.0
// What the launcher writes behind a child's snapshots (docs/reference/snapshots.md).
#ifndef HEAPTAPE_SNAPSHOT_INDEX_H
#define HEAPTAPE_SNAPSHOT_INDEX_H

#include "runner.h"
#include "snapshot_choice.h"
#include "stretch_costs.h"

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

#endif
