// SPDX-License-Identifier: Apache-2.0
// What resident memory consists of, as explain/accounts.py takes a snapshot apart, but without its rows: the sums alone.
#ifndef HEAPTAPE_PAGE_ACCOUNTS_H
#define HEAPTAPE_PAGE_ACCOUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "snapshot_rows.h"

// Allocates some thousand blocks, up to 1 MiB each, and leaves them.
struct ht_block_spacing ht_block_spacing_measure(const struct ht_server *server);

// The bytes beside a block of so many usable bytes that the allocator keeps: of its first pages from begin up to the
// block, of its last ones from its end up to end.
struct ht_block_margin {
    uint64_t begin, end;
};
struct ht_block_margin ht_block_margin(const struct ht_block_spacing *spacing, uint64_t address,
                                       uint64_t usable_bytes);

struct ht_account_slot {
    uint64_t requested_bytes, usable_bytes;  // of the live block; usable: 0, nothing is live
    uint64_t untouched_bytes;                // of usable_bytes: what the replay did not write to, by page
};

// Zeroed memory that is nobody's heap, far from where the kernel puts what is mapped: everything else has the addresses
// that it has without it.

// NULL with errno: there is none. Pages that are never touched take nothing.
void *ht_far_table(size_t bytes);

// Addresses of a process have 47 bits.
#define HT_HISTORY_PAGES ((UINT64_C(1) << 47) / HT_SNAPSHOT_PAGE_BYTES)

// What an allocator keeps for itself beside a block, measured on blocks that lie next to each other: the accounts of a
// heap tell it from holes, in which the allocator could place a block.

struct ht_page_history {
    _Atomic uint64_t *bits;
};

// False, with errno: there is no memory.
bool ht_page_history_init(struct ht_page_history *history);
// A block of so many bytes lies there.
void ht_page_history_hold(const struct ht_page_history *history, uint64_t address, uint64_t bytes);
bool ht_page_history_held(const struct ht_page_history *history, uint64_t page);

// Which pages of this process's own memory are resident, as the kernel shows them: its own anonymous pages, those of
// files' private mappings that were written to included, as RssAnon counts them.

// Called for each page, by rising address.
typedef void ht_resident_visitor(void *context, uint64_t page, enum ht_mapping_kind kind);

// Memory that the reading takes, in no heap.
struct ht_resident_buffer {
    char text[1 << 16];
    uint64_t entries[1 << 13];
};

// Returns 0, or the errno of what cannot be read.
int ht_resident_each(struct ht_resident_buffer *buffer, ht_resident_visitor *visit, void *context);

struct ht_page_bits;

struct ht_page_accounts {
    struct ht_page_bits *bits;  // all 0 between two takings
    const struct ht_page_history *history;
    const struct ht_block_spacing *spacing;
    struct ht_resident_buffer *buffer;
};

// False, with errno: there is no memory.
bool ht_page_accounts_init(struct ht_page_accounts *accounts, const struct ht_page_history *history,
                           const struct ht_block_spacing *spacing, struct ht_resident_buffer *buffer);
// Takes the accounts of the blocks in the table. Returns 0, or errno where the kernel does not show which pages are resident.
int ht_page_accounts_take(struct ht_page_accounts *accounts, void *const *table,
                          const struct ht_account_slot *slots, uint64_t slots_count,
                          struct ht_stretch_accounts *found);

#endif
