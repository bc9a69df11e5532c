// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "all_bytes.h"
#include "page_accounts.h"

// What is written waits here; in the same shared memory as what page_accounts.c needs.
struct ht_snapshot_writing {
    struct ht_resident_buffer resident;
    char bytes[1 << 16];
    size_t used;
    int fd, problem;
    const struct ht_page_history *history;
    struct ht_snapshot_run run;  // that may become longer
    uint64_t runs, pages;
};

static void flush(struct ht_snapshot_writing *writing) {
    if (!writing->problem && !ht_write_all(writing->fd, writing->bytes, writing->used))
        writing->problem = errno;
    writing->used = 0;
}

static void put(struct ht_snapshot_writing *writing, const void *row, size_t bytes) {
    if (bytes > sizeof writing->bytes - writing->used) flush(writing);
    memcpy(writing->bytes + writing->used, row, bytes);
    writing->used += bytes;
}

static void put_run(struct ht_snapshot_writing *writing) {
    if (!writing->run.pages) return;
    put(writing, &writing->run, sizeof writing->run);
    writing->runs++;
    writing->run.pages = 0;
}

static void take_page(void *context, uint64_t page, enum ht_mapping_kind kind) {
    struct ht_snapshot_writing *writing = context;
    struct ht_snapshot_run *run = &writing->run;
    writing->pages++;
    uint32_t flags = (uint32_t)kind | (ht_page_history_held(writing->history, page) ? HT_RUN_HELD : 0);
    if (run->pages && run->page + run->pages == page && run->flags == flags && run->pages < UINT32_MAX) {
        run->pages++;
        return;
    }
    put_run(writing);
    *run = (struct ht_snapshot_run){.page = page, .pages = 1, .flags = flags};
}

bool ht_snapshots_init(struct ht_snapshots *snapshots, const struct ht_job *job) {
    *snapshots = (struct ht_snapshots){.job = job};
    snapshots->writing = ht_far_table(sizeof *snapshots->writing);
    return snapshots->writing && ht_page_history_init(&snapshots->history) &&
           ht_page_accounts_init(&snapshots->accounts, &snapshots->history, &job->spacing,
                                 &snapshots->writing->resident);
}

void ht_snapshots_hold(const struct ht_snapshots *snapshots, uint64_t address, uint64_t usable_bytes) {
    struct ht_block_margin margin = ht_block_margin(&snapshots->job->spacing, address, usable_bytes);
    ht_page_history_hold(&snapshots->history, margin.begin, margin.end - margin.begin);
}

bool ht_snapshot_due(const struct ht_snapshots *snapshots, uint64_t sample) {
    for (uint32_t i = 0; i < snapshots->job->snapshots; i++) {
        if (snapshots->job->snapshot_sample[i] == sample) return true;
    }
    return false;
}

uint32_t ht_stretch_due(const struct ht_snapshots *snapshots, uint64_t sample) {
    for (uint32_t i = 0; i < snapshots->job->stretches; i++) {
        if (snapshots->job->stretch_sample[i] == sample) return i;
    }
    return UINT32_MAX;
}

int ht_stretch_take(struct ht_snapshots *snapshots, void *const *table,
                    const struct ht_account_slot *accounts, uint64_t slots,
                    struct ht_stretch_accounts *found) {
    return ht_page_accounts_take(&snapshots->accounts, table, accounts, slots, found);
}

static uint64_t put_blocks(struct ht_snapshot_writing *writing, void *const *table,
                           const struct ht_account_slot *accounts, uint64_t slots) {
    uint64_t blocks = 0;
    for (uint64_t slot = 0; slot < slots; slot++) {
        struct ht_snapshot_block row = {.slot = slot,
                                        .address = (uintptr_t)table[slot],
                                        .requested_bytes = accounts[slot].requested_bytes,
                                        .usable_bytes = accounts[slot].usable_bytes,
                                        .untouched_bytes = accounts[slot].untouched_bytes};
        if (!row.usable_bytes) continue;  // nothing is live there
        put(writing, &row, sizeof row);
        blocks++;
    }
    return blocks;
}

// The head says how many rows follow, which is known once they are written: it is written twice.
int ht_snapshot_take(struct ht_snapshots *snapshots, uint64_t sample, void *const *table,
                     const struct ht_account_slot *accounts, uint64_t slots) {
    struct ht_snapshot_writing *writing = snapshots->writing;
    struct ht_snapshot_head head = {.magic = HT_SNAPSHOT_MAGIC, .sample = sample};
    writing->fd = snapshots->job->snapshot_fd;
    writing->history = &snapshots->history;
    writing->problem = 0;
    writing->runs = writing->pages = 0;
    writing->run = (struct ht_snapshot_run){0};
    off_t start = lseek(writing->fd, 0, SEEK_CUR);
    put(writing, &head, sizeof head);
    head.blocks = put_blocks(writing, table, accounts, slots);
    head.problem = (uint64_t)ht_resident_each(&writing->resident, take_page, writing);
    put_run(writing);
    head.runs = writing->runs;
    head.rss_bytes = writing->pages * HT_SNAPSHOT_PAGE_BYTES;
    flush(writing);
    if (!writing->problem && pwrite(writing->fd, &head, sizeof head, start) != sizeof head)
        writing->problem = errno;
    return writing->problem;
}
