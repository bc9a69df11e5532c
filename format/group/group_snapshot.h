// SPDX-License-Identifier: Apache-2.0
// Which pages each process of a group has, and which of them are its alone: looked at from outside, at a few moments of the
// group's life (docs/reference/group-format.md, "Snapshots").
#ifndef HEAPTAPE_GROUP_SNAPSHOT_H
#define HEAPTAPE_GROUP_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "group_facts.h"
#include "kernel_text.h"

struct ht_group_mapping {
    uint64_t start, end;  // addresses, of whole pages
    uint32_t kind;        // enum ht_mapping_kind
    uint8_t *state;       // enum ht_page_state of each page
};

struct ht_group_member {
    uint32_t pid, parent_pid;
    uint64_t start_ticks;  // since boot, as field 22 of /proc/PID/stat: with the pid, who it is
    char name[17];
    bool executed;                            // since its parent forked it: it shares nothing with that one
    uint64_t rss_anon_bytes, pss_anon_bytes;  // of smaps_rollup
    uint64_t rss_bytes, pss_bytes;
    uint64_t swap_bytes, ksm_bytes, huge_bytes;
    struct ht_group_mapping *mapping;  // by address; those without any page left out
    size_t mappings;
};

struct ht_group_snapshot {
    uint64_t time_ns;                // CLOCK_MONOTONIC, when the first process was looked at
    uint64_t took_ns;                // until the last one had been
    uint32_t reason;                 // enum ht_snapshot_reason
    struct ht_group_member *member;  // the root first, each parent before its children
    size_t members;
};

// What record leaves of a run.
struct ht_group_snapshots {
    char run[33];  // as in the logs' context
    uint32_t root_pid, page_bytes;
    struct ht_group_snapshot *snapshot;  // in order of time
    size_t count;
};

// The file appears when it is complete, and takes the place of an earlier one. Returns 0, or -1 with error.
int ht_group_snapshots_write(const char *path, const struct ht_group_snapshots *snapshots,
                             struct ht_error *error);
// Returns 0, or -1 with error; to be freed in any case.
int ht_group_snapshots_read(const char *path, struct ht_group_snapshots *snapshots, struct ht_error *error);

void ht_group_snapshot_free(struct ht_group_snapshot *snapshot);
void ht_group_snapshots_free(struct ht_group_snapshots *snapshots);

// malloc-footprint.PID.group in the folder of the logs.
bool ht_group_snapshots_path(char *path, size_t room, const char *folder, uint32_t root_pid);

#endif
