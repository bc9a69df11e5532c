// SPDX-License-Identifier: Apache-2.0
#include "page_accounts.h"

#include <errno.h>
#include <sys/mman.h>

#include "account_slot.h"
#include "block_spacing.h"
#include "far_table.h"

enum { PAGE_BYTES = HT_SNAPSHOT_PAGE_BYTES };

// Of 64 pages: those that held a block once and are resident; and which of them a live block lies in.
struct ht_page_bits {
    uint64_t resident, used;
};
#define TABLE_BYTES (HT_HISTORY_PAGES / 64 * sizeof(struct ht_page_bits))

struct taking {
    const struct ht_page_accounts *accounts;
    struct ht_stretch_accounts *found;
    uint64_t pages, never_held, used;
};

bool ht_page_accounts_init(struct ht_page_accounts *accounts, const struct ht_page_history *history,
                           const struct ht_block_spacing *spacing, struct ht_resident_buffer *buffer) {
    *accounts = (struct ht_page_accounts){ht_far_table(TABLE_BYTES), history, spacing, buffer};
    return accounts->bits != NULL;
}

static void take_page(void *context, uint64_t page, enum ht_mapping_kind kind) {
    struct taking *taking = context;
    (void)kind;
    taking->pages++;
    if (ht_page_history_held(taking->accounts->history, page))
        taking->accounts->bits[page / 64].resident |= UINT64_C(1) << page % 64;
    else taking->never_held++;
}

// How many of these pages are resident; from now on a live block lies in them.
static uint64_t use_pages(struct taking *taking, uint64_t page, uint64_t end) {
    uint64_t resident = 0;
    while (page < end) {
        uint64_t first = page % 64, count = end - page < 64 - first ? end - page : 64 - first;
        struct ht_page_bits *bits = &taking->accounts->bits[page / 64];
        uint64_t here = bits->resident & UINT64_MAX >> (64 - count) << first;
        resident += (uint64_t)__builtin_popcountll(here);
        taking->used += (uint64_t)__builtin_popcountll(here & ~bits->used);
        bits->used |= here;
        page += count;
    }
    return resident;
}

static bool is_resident(const struct taking *taking, uint64_t page) {
    return taking->accounts->bits[page / 64].resident >> page % 64 & 1;
}

// Resident bytes from start up to end.
static uint64_t use_bytes(struct taking *taking, uint64_t start, uint64_t end) {
    if (start >= end) return 0;
    uint64_t first = start / PAGE_BYTES, last = (end - 1) / PAGE_BYTES;
    uint64_t bytes = use_pages(taking, first, last + 1) * PAGE_BYTES;
    if (is_resident(taking, first)) bytes -= start % PAGE_BYTES;
    if (is_resident(taking, last)) bytes -= (last + 1) * PAGE_BYTES - end;
    return bytes;
}

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

static void take_block(struct taking *taking, uint64_t start, const struct ht_account_slot *slot) {
    struct ht_stretch_accounts *found = taking->found;
    uint64_t end = start + slot->usable_bytes,
             asked = start + least(slot->requested_bytes, slot->usable_bytes);
    uint64_t touched = least(end - slot->untouched_bytes, asked);
    struct ht_block_margin margin = ht_block_margin(taking->accounts->spacing, start, slot->usable_bytes);
    if ((margin.end - 1) / PAGE_BYTES >= HT_HISTORY_PAGES || margin.begin > start) return;
    uint64_t live = use_bytes(taking, start, touched), untouched = use_bytes(taking, touched, asked);
    found->live_bytes += live;
    found->untouched_bytes += untouched;
    found->rounding_bytes += use_bytes(taking, asked, end);
    found->headers_bytes += use_bytes(taking, margin.begin, start) + use_bytes(taking, end, margin.end);
    found->not_resident_bytes += asked - start - live - untouched;
}

// A block that another thread freed meanwhile may be counted with the one that came in its place: in a page is no
// more than a page.
static void cut_to_pages(struct ht_stretch_accounts *found, uint64_t bytes) {
    uint64_t *const each[] = {&found->live_bytes, &found->rounding_bytes, &found->untouched_bytes,
                              &found->headers_bytes};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        if (*each[i] > bytes) *each[i] = bytes;
        bytes -= *each[i];
    }
    found->holes_bytes = bytes;
}

int ht_page_accounts_take(struct ht_page_accounts *accounts, void *const *table,
                          const struct ht_account_slot *slots, uint64_t slots_count,
                          struct ht_stretch_accounts *found) {
    struct taking taking = {.accounts = accounts, .found = found};
    *found = (struct ht_stretch_accounts){0};
    int problem = ht_resident_each(accounts->buffer, take_page, &taking);
    for (uint64_t i = 0; i < slots_count && !problem; i++) {
        const struct ht_account_slot slot = slots[i];  // other threads change it
        if (slot.usable_bytes && slot.untouched_bytes <= slot.usable_bytes)
            take_block(&taking, (uintptr_t)table[i], &slot);
    }
    cut_to_pages(found, taking.used * PAGE_BYTES);
    found->free_pages_bytes = (taking.pages - taking.never_held - taking.used) * PAGE_BYTES;
    found->tables_bytes = taking.never_held * PAGE_BYTES;
    found->rss_bytes = taking.pages * PAGE_BYTES;
    // Gives the pages of the table back: the next taking finds it empty.
    if (madvise(accounts->bits, TABLE_BYTES, MADV_REMOVE) && !problem) problem = errno;
    return problem;
}
