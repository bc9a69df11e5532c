// SPDX-License-Identifier: Apache-2.0
// What is said of a group of processes: snapshots and traces say in what state pages are, and why somebody looked at them; the
// trace also names the processes and the moments of all snapshots.
#ifndef HEAPTAPE_GROUP_FACTS_H
#define HEAPTAPE_GROUP_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The state of one page of anonymous memory: copied pages of a private file mapping are such, too.
enum ht_page_state {
    HT_PAGE_ABSENT,
    HT_PAGE_SHARED,     // another process has the same frame, after a fork
    HT_PAGE_EXCLUSIVE,  // no other process has it
    HT_PAGE_SWAPPED,
    HT_PAGE_STATES
};

enum ht_snapshot_reason { HT_SNAPSHOT_PEAK, HT_SNAPSHOT_LAST, HT_SNAPSHOT_REASONS };

enum { HT_GROUP_PROCESSES_MAX = 4096, HT_GROUP_MOMENTS_MAX = 16 };
#define HT_GROUP_NO_PARENT UINT32_MAX

// Times are of the group: ns since the root's recording began.
struct ht_group_process {
    uint32_t pid,
        parent;  // parent: its number, lower than this one's; HT_GROUP_NO_PARENT: the root, and what another program
                 // has become (exec), which has nothing of its parent
    uint64_t start_ns, end_ns;
    uint64_t fork_event;   // of the parent's trace: the event that comes next when this process begins
    uint32_t fork_thread;  // of the parent's trace: who forked; UINT32_MAX: a thread that it does not have
    uint64_t
        inherited;  // blocks: the parent's live ones at that event, in order of birth, and the inherit events with
                    // which this process's trace begins
    char name[17];
};

// What a page that holds inherited blocks is like in a process at a moment: an enum ht_page_state, and
enum {
    HT_PAGE_STATE_BITS = 3,
    HT_PAGE_CALLED = 4
};  // since the fork a call made or ended a block that lies on it

// A snapshot of the whole group.
struct ht_group_moment {
    uint64_t time_ns;
    uint32_t reason;              // enum ht_snapshot_reason
    uint64_t anonymous_bytes;     // of all processes, each frame once: the sum of Pss_Anon
    uint64_t own_bytes;           // of that, what is not malloc's
    uint64_t rss_anon_sum_bytes;  // the sum of RssAnon: shared pages as often as they are mapped
    uint64_t swap_bytes, ksm_bytes, huge_bytes;  // where they are not 0, pages' states are not exact
};

// A process at a moment.
struct ht_group_presence {
    bool there;
    uint64_t rss_anon_bytes, pss_anon_bytes, own_bytes;  // own: of its own pages, shared ones by its part
};

// Where the inherited blocks lay when the process was forked, in their order. Pages are numbered in the order of their
// addresses; between two that are not neighbours one number is left out.
struct ht_group_layout {
    uint32_t *page;    // the one with the block's first byte
    uint16_t *offset;  // of that byte in it
    size_t blocks;
    uint32_t pages;  // numbers, those left out included
};

#endif
