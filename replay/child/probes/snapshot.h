// SPDX-License-Identifier: Apache-2.0
// Snapshots of the heap in the snapshot pass: the address of each live block, and which pages are resident. They are
// written straight into the launcher's file; along the trace their accounts alone are kept. Nothing here allocates, and
// what it keeps is shared memory, so that RSS is that of the memory pass.
#ifndef HEAPTAPE_SNAPSHOT_H
#define HEAPTAPE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "page_accounts.h"
#include "replay_job.h"

struct ht_account_slot;
struct ht_snapshot_writing;

struct ht_snapshots {
    const struct ht_job *job;
    struct ht_page_history history;
    struct ht_page_accounts accounts;
    struct ht_snapshot_writing *writing;
};

// False, with errno: there is no memory.
bool ht_snapshots_init(struct ht_snapshots *snapshots, const struct ht_job *job);
// A block is there, from now on.
void ht_snapshots_hold(const struct ht_snapshots *snapshots, uint64_t address, uint64_t usable_bytes);
// Whether one is to be taken with this sample of RSS.
bool ht_snapshot_due(const struct ht_snapshots *snapshots, uint64_t sample);
// The accounts that are to be taken with this sample of RSS: their number, or UINT32_MAX.
uint32_t ht_stretch_due(const struct ht_snapshots *snapshots, uint64_t sample);
// Of the blocks in the table, of which the accounts say how large they are, and which nobody changes meanwhile. Returns 0,
// or errno of the file.
int ht_snapshot_take(struct ht_snapshots *snapshots, uint64_t sample, void *const *table,
                     const struct ht_account_slot *accounts, uint64_t slots);
// The same, but of it no more than the accounts are kept. Returns 0, or errno.
int ht_stretch_take(struct ht_snapshots *snapshots, void *const *table,
                    const struct ht_account_slot *accounts, uint64_t slots,
                    struct ht_stretch_accounts *found);

#endif
