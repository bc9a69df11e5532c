// SPDX-License-Identifier: Apache-2.0
// The accounting pass: what usable memory the allocator gives for what is requested, and what it says of
// itself along the trace. The snapshot pass: RSS as in the memory pass, and snapshots of where blocks lie. Each
// call is inspected before and after, so its time means nothing.
#ifndef HEAPTAPE_REPLAY_ACCOUNTING_H
#define HEAPTAPE_REPLAY_ACCOUNTING_H

#include <stdatomic.h>

#include "allocator.h"
#include "memory_probes.h"
#include "page_accounts.h"
#include "replay_lane.h"
#include "snapshot.h"

struct ht_account_class {
    _Atomic uint64_t blocks, requested_bytes, usable_bytes;
};

struct ht_accounting {
    struct ht_server server;
    void **table;                   // of the first copy's slots
    struct ht_account_slot *slots;  // as in the table
    bool alone;                     // there is one lane: what it adds, nobody else does
    // Of all that is live. The snapshot pass, which reports none of it, leaves it at 0.
    _Atomic uint64_t untouched_bytes;
    struct ht_account_class classes[HT_SIZE_CLASSES];
    struct ht_bounded_probe probe;
    atomic_flag peaking;  // the classes are being copied
    struct ht_child_figures *figures;
    uint64_t slots_count;
    struct ht_snapshots *snapshots;  // of the snapshot pass, or NULL
    _Atomic int snapshot_problem;    // errno
    _Atomic uint32_t stopped;        // futex: a lane takes a snapshot, and the others make no call
};

// table: of the slots of all copies of the trace; slots: zeroed, one for each; alone: there is one lane.
void ht_accounting_init(struct ht_accounting *accounting, const struct ht_server *server, void **table,
                        struct ht_account_slot *slots, bool alone, uint64_t samples,
                        struct ht_child_figures *figures);

// Replays the lane's whole stream. Each sample of the lane becomes the slop then: usable less requested, in
// two's complement; and what is untouched then. In the snapshot pass it is RSS.
void ht_accounting_run(struct ht_lane *lane);

// Takes the last sample, which the lane has left, now that all lanes have ended.
void ht_accounting_end_sample(struct ht_lane *lane);

// All has been replayed: the last report.
void ht_accounting_end(struct ht_accounting *accounting);

#endif
