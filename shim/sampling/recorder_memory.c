// SPDX-License-Identifier: Apache-2.0
#include "recorder_memory.h"

enum { RANGES_MAX = 256 };

// Of which only some pages are resident. They are added one after the other, and get shorter at most.
static struct {
    _Atomic uintptr_t start, end;
} sparse[RANGES_MAX];
static _Atomic uint32_t ranges;
static _Atomic uint64_t real_bytes, counted_bytes;

void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real) {
    uint32_t at = is_real ? RANGES_MAX : atomic_fetch_add(&ranges, 1);
    if (at >= RANGES_MAX) {
        real_bytes += bytes;
        return;
    }
    sparse[at].start = start;
    sparse[at].end = start + bytes;
}

static uint32_t ranges_now(void) { return ranges < RANGES_MAX ? ranges : RANGES_MAX; }

void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped) {
    for (uint32_t i = 0; i < ranges_now(); i++) {
        if (start < sparse[i].start || start >= sparse[i].end) continue;
        if (unmapped) sparse[i].end = start;
        return;
    }
    real_bytes -= bytes;
}

bool recorder_memory_is_counted(void) { return ranges > 0; }

void recorder_memory_count(struct page_counter *pages) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ranges_now(); i++)
        bytes += pages_anonymous_bytes(pages, sparse[i].start, sparse[i].end, false);
    counted_bytes = bytes;
}

uint64_t recorder_memory_bytes(void) { return real_bytes + counted_bytes; }
