// SPDX-License-Identifier: Apache-2.0
#include "other.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

// One record of so many may contradict others: the process goes on meanwhile.
enum { LOST_ONE_OF = 100 };

bool other_read(const struct other *other, uint64_t address, void *to, size_t bytes) {
    if (address + bytes < address) return false;
    size_t run = space_runs_find(&other->runs, address);
    return run < other->runs.count && other->runs.run[run].start <= address &&
           other->runs.run[run].end >= address + bytes && space_read_all(other->space, address, to, bytes);
}

bool other_add_span(struct other *other, struct other_span span) {
    if (span.start >= span.end || span.blocks > span.room ||
        (span.room && span.block_bytes > (span.end - span.start) / span.room)) {
        other->lost++;
        return true;
    }
    if (!ht_grow(&other->spans, &other->span_room, other->span_count + 1, sizeof *other->spans)) return false;
    other->spans[other->span_count++] = span;
    return true;
}

bool other_agrees(const struct other *other) {
    return other->span_count && other->lost * LOST_ONE_OF <= other->records;
}

struct other_size *other_size_of(struct other *other, uint64_t block_bytes) {
    if (other->size_count && other->sizes[other->size_count - 1].block_bytes == block_bytes)
        return &other->sizes[other->size_count - 1];
    if (!ht_grow(&other->sizes, &other->size_room, other->size_count + 1, sizeof *other->sizes)) return NULL;
    other->sizes[other->size_count] = (struct other_size){.block_bytes = block_bytes};
    return &other->sizes[other->size_count++];
}

bool other_add_cached(struct other *other, uint64_t block_bytes, uint64_t blocks) {
    struct other_size *size = other_size_of(other, block_bytes);
    if (size) size->cached_blocks += blocks;
    return size;
}

void other_forget(struct other *other) {
    other->span_count = other->size_count = 0;
    other->records = other->lost = 0;
    other->caches_known = false;
    other->build = NULL;
}

// ---- spans ----

void other_order_spans(struct other *other) {
    if (other->span_count) qsort(other->spans, other->span_count, sizeof *other->spans, ht_by_word);
}

void other_check_spans(struct other *other) {
    other_order_spans(other);
    size_t kept = 0;
    for (size_t i = 0; i < other->span_count; i++) {
        const struct other_span *span = &other->spans[i];
        const struct space_mapping *mapping = space_mapping_at(other->space, span->start);
        if ((kept && span->start < other->spans[kept - 1].end) || !mapping || mapping->shared) other->lost++;
        else other->spans[kept++] = *span;
    }
    other->span_count = kept;
}

// ---- what is in no span ----

enum { SCAN_BYTES = 256 << 10 };

static bool scan_stretch(struct other *other, uint64_t start, uint64_t end, size_t bytes, other_look look,
                         void *user) {
    uint8_t buffer[SCAN_BYTES + OTHER_LOOK_BYTES];
    for (uint64_t at = start; at < end; at += SCAN_BYTES) {
        size_t wanted = end - at < sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        size_t got = space_read(other->space, at, buffer, wanted);
        for (size_t i = 0; i < SCAN_BYTES && i + bytes <= got; i += 8)
            if (!look(other, at + i, buffer + i, got - i, user)) return false;
    }
    return true;
}

bool other_scan_module(struct other *other, const struct module *module, size_t bytes, other_look look,
                       void *user) {
    for (size_t i = space_runs_find(&other->runs, module->start);
         i < other->runs.count && other->runs.run[i].start < module->end; i++) {
        const struct space_run *run = &other->runs.run[i];
        uint64_t start = run->start > module->start ? run->start : module->start;
        if (!scan_stretch(other, start, run->end < module->end ? run->end : module->end, bytes, look, user))
            return false;
    }
    return true;
}

bool other_scan_rest(struct other *other, size_t bytes, other_look look, void *user) {
    other_check_spans(other);
    size_t span = 0, span_count = other->span_count;
    for (size_t i = 0; i < other->runs.count; i++) {
        const struct space_run *run = &other->runs.run[i];
        for (uint64_t at = run->start; at < run->end;) {
            while (span < span_count && other->spans[span].end <= at) span++;
            const struct other_span *next = span < span_count ? &other->spans[span] : NULL;
            uint64_t end = next && next->start < run->end ? next->start : run->end;
            if (at < end && !scan_stretch(other, at, end, bytes, look, user)) return false;
            at = next && next->start == end && next->end > end ? next->end : end;
            if (next && next->start < at && next->end > at) at = next->end;
        }
    }
    return true;
}
