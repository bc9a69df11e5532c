// SPDX-License-Identifier: Apache-2.0
#include "heap_pieces.h"

#include "chunks.h"
#include "settings.h"

enum {
    PIECES_MAX = 512,
    // Resident ranges that are no farther from each other are one piece. More where there are too many.
    GAP_BYTES_MIN = 64 << 10
};
// Where the kernel lists each page by itself, or only tells whether it is there, more would stall the program.
static const uint64_t ONE_BY_ONE_MAX = UINT64_C(4) << 30, PRESENT_BYTES_MAX = UINT64_C(1) << 30;

struct piece {
    uintptr_t start, end;
    uint64_t resident_bytes;
};

static struct {
    struct piece piece[PIECES_MAX];
    size_t count;
    uint64_t gap_bytes, walked_bytes;
    bool too_much;
} found;

void heap_pieces_begin(void) {
    found.count = 0;
    found.walked_bytes = 0;
    found.too_much = false;
    found.gap_bytes = GAP_BYTES_MIN;
}

static bool joins(const struct piece *piece, uintptr_t start) {
    return start >= piece->end && start - piece->end <= found.gap_bytes;
}

static bool join_last(struct piece next) {
    struct piece *last = found.count ? &found.piece[found.count - 1] : NULL;
    if (!last || !joins(last, next.start)) return false;
    last->end = next.end;
    last->resident_bytes += next.resident_bytes;
    return true;
}

static void join_more(void) {
    size_t count = found.count;
    found.gap_bytes *= 4;
    found.count = 0;
    for (size_t i = 0; i < count; i++)
        if (!join_last(found.piece[i])) found.piece[found.count++] = found.piece[i];
}

static void add_resident(void *unused, uintptr_t start, uintptr_t end) {
    struct piece next = {start, end, end - start};
    (void)unused;
    if (join_last(next)) return;
    while (found.count == PIECES_MAX) join_more();
    found.piece[found.count++] = next;
}

void heap_pieces_add(struct page_counter *pages, uintptr_t start, uintptr_t end) {
    if (start >= end || found.too_much) return;
    uint64_t most = pages->fd < 0 ? PRESENT_BYTES_MAX : ONE_BY_ONE_MAX;
    if (pages->fd < 0 || !pages->searches) found.walked_bytes += end - start;
    if (found.walked_bytes > most) found.too_much = true;
    else pages_each(pages, start, end, false, add_resident, NULL);
}

bool heap_pieces_are_known(void) { return !found.too_much && !recorder_sealed; }

void heap_pieces_put(struct thread_state *t, uint64_t stamp) {
    for (size_t i = 0; i < found.count; i++) {
        const struct piece *piece = &found.piece[i];
        uint64_t pages = (piece->end - piece->start) / settings.page_bytes,
                 resident = piece->resident_bytes / settings.page_bytes;
        const uint64_t word[3] = {stamp, piece->start, pages << 32 | resident};
        if (!room_for_record(t)) return;
        ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, word, 3);
    }
    const struct ht_raw_header *header = t->recording->header;
    bool late = settings.starts_paused || header->sequence || header->parent_pid;
    const uint64_t end[3] = {stamp, 0, found.count | (late ? HT_PIECES_LATE : 0)};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, end, 3);
}

void heap_pieces_put_bound(struct thread_state *t, uint64_t stamp, uint64_t mapped_bytes) {
    const uint64_t word[3] = {stamp, HT_PIECES_MAPPED, mapped_bytes};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, word, 3);
}
