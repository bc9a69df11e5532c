// SPDX-License-Identifier: Apache-2.0
// What snapshots and traces of a group say of pages and moments alike.
#ifndef HEAPTAPE_PAGE_STATE_H
#define HEAPTAPE_PAGE_STATE_H

// Of one page of anonymous memory: copied pages of a private file mapping are such, too.
enum ht_page_state {
    HT_PAGE_ABSENT,
    HT_PAGE_SHARED,     // another process has the same frame, after a fork
    HT_PAGE_EXCLUSIVE,  // no other process has it
    HT_PAGE_SWAPPED,
    HT_PAGE_STATES
};

enum ht_snapshot_reason { HT_SNAPSHOT_PEAK, HT_SNAPSHOT_LAST, HT_SNAPSHOT_REASONS };

#endif
