// SPDX-License-Identifier: Apache-2.0
// What a measured child writes into the file of snapshots, one snapshot after another: a head, a row for each live
// block, a row for each run of resident pages. The launcher adds the index (docs/reference/walk.md), with the
// accounts along the trace, which the child leaves in the exchange.
#ifndef HEAPTAPE_SNAPSHOT_ROWS_H
#define HEAPTAPE_SNAPSHOT_ROWS_H

#include <assert.h>
#include <stdint.h>

#include "kernel_text.h"

#define HT_SNAPSHOT_MAGIC 0x3170616e73706174ull  // "tapsnap1"

enum { HT_SNAPSHOTS_MAX = 16, HT_SNAPSHOT_PAGE_BYTES = 4096 };

struct ht_snapshot_head {
    uint64_t magic;
    uint64_t sample;     // of RSS, with which it was taken
    uint64_t rss_bytes;  // of all runs: RssAnon
    uint64_t blocks, runs;
    uint64_t problem;  // errno where the kernel did not show which pages are resident, or 0
};

struct ht_snapshot_block {
    uint64_t slot, address;
    uint64_t requested_bytes, usable_bytes;
    uint64_t untouched_bytes;  // at the end of the usable ones: what the replay did not write to, by page
};

enum { HT_RUN_HELD = 1 << 8 };  // some block lay there at some time

struct ht_snapshot_run {
    uint64_t page;  // address / 4096 of the first
    uint32_t pages;
    uint32_t flags;  // enum ht_mapping_kind | HT_RUN_HELD
};
// The heap at one of the samples: each byte of each resident page has one account, so that they add up to RSS.
enum { HT_STRETCHES_MAX = 256 };
struct ht_stretch_accounts {
    uint64_t rss_bytes;  // as of a snapshot's head
    uint64_t live_bytes, rounding_bytes, headers_bytes, holes_bytes, free_pages_bytes, tables_bytes,
        untouched_bytes;
    uint64_t not_resident_bytes;  // requested bytes of live blocks that are no part of RSS
};

// What an allocator keeps for itself beside a block (page_accounts.h).
#define HT_OFFSET_ANY    UINT64_MAX
#define HT_OFFSET_UNSEEN (UINT64_MAX - 1)
struct ht_block_spacing {
    uint64_t header_bytes;  // before each block
    // Blocks of so many usable bytes or more that begin at this offset in a page share their pages with no other one.
    uint64_t own_pages_from_bytes, own_pages_offset;
};

static_assert(sizeof(struct ht_snapshot_head) == 48 && sizeof(struct ht_snapshot_block) == 40 &&
                  sizeof(struct ht_snapshot_run) == 16,
              "rows of the file");

#endif
