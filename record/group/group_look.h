// SPDX-License-Identifier: Apache-2.0
// Looks at the memory of a group: at the sum, which is cheaper, or at each page.
#ifndef HEAPTAPE_GROUP_LOOK_H
#define HEAPTAPE_GROUP_LOOK_H

#include <stdatomic.h>

#include "group_snapshot.h"
#include "group_tree.h"

// Processes that were not ours to look at.
enum { GROUP_HIDDEN_NAMED = 5 };
struct group_hidden {
    pid_t pid[GROUP_HIDDEN_NAMED];
    char name[GROUP_HIDDEN_NAMED][17];
    size_t named;
    bool more;
};

struct group_look_sum {
    uint64_t pss_anon_bytes;
    size_t processes;  // that could be looked at
};

struct group_look_order {
    const struct group_tree *tree;
    struct group_hidden *hidden;  // those that could not be looked at are added
    const atomic_bool *stop;      // once true, the look ends; NULL: nobody stops it
    uint64_t until_ns;            // CLOCK_MONOTONIC: then too; 0: whenever
};

struct group_look_sum group_look_sum(const struct group_look_order *order);
// False: it was stopped, there was nothing to see, or no memory.
bool group_look_pages(const struct group_look_order *order, struct ht_group_snapshot *snapshot);

uint64_t group_snapshot_anonymous_bytes(const struct ht_group_snapshot *snapshot);
// Pages of the process that are in that state.
uint64_t group_member_pages(const struct ht_group_member *member, enum ht_page_state state,
                            uint32_t page_bytes);
// Whether a process in it has pages that a fork left it.
bool group_snapshot_shares(const struct ht_group_snapshot *snapshot, uint32_t page_bytes);

// The group of a running process; false where it shares pages with none that it has forked. To be freed.
bool group_look_now(pid_t root, struct ht_group_snapshot *snapshot);

#endif
