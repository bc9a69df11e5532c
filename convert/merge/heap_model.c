// SPDX-License-Identifier: Apache-2.0
#include "heap_model.h"

#include <assert.h>
#include <stdlib.h>

#include "grow.h"

enum { PAGES_BITS = 24 };  // a birth packs its event above and the pages resident then below
// What was seen of it last packs its time of birth, in these units, and the pages resident since.
enum { BORN_SHIFT = 5 };
// When a block that was emptied fills again, fewer pages are not worth an event.
enum { REFILLED_PAGES_MIN = 4, REFILLED_SHARE = 64 };
static const uint64_t STEPS_FROM_AGE_NS = 1000000;  // shorter lives matter little while they are filled
static const uint64_t PAGES_MASK = (UINT64_C(1) << PAGES_BITS) - 1;
// No core writes a page of 4 KiB faster.
static const uint64_t PAGE_NS_MIN = 32;

bool heap_model_init(struct heap_model *heap, struct ht_trace_writer *writer) {
    *heap = (struct heap_model){.writer = writer, .keeps_order = !writer};
    return map64_init(&heap->addresses) && map64_init(&heap->births) && map64_init(&heap->seen) &&
           map64_init(&heap->places) && map64_init(&heap->left) && map64_init(&heap->held) &&
           slots_init(&heap->slots);
}

void heap_model_free(struct heap_model *heap) {
    map64_free(&heap->addresses);
    map64_free(&heap->births);
    map64_free(&heap->seen);
    map64_free(&heap->places);
    map64_free(&heap->left);
    map64_free(&heap->held);
    slots_free(&heap->slots);
    free(heap->last_event);
    free(heap->last_site);
    site_collector_free(&heap->sites);
}

static uint64_t next_event(const struct heap_model *heap) {
    return heap->writer ? ht_trace_next_event(heap->writer) : heap->unwritten_events;
}

void heap_model_note_order(struct heap_model *heap, uint32_t slot) {
    if (ht_grow(&heap->last_event, &heap->last_event_room, slot + 1, sizeof *heap->last_event))
        heap->last_event[slot] = heap->unwritten_events++;
    else heap->no_memory = true;
    if (slot >= heap->last_site_room &&
        (!heap->site || !ht_grow(&heap->last_site, &heap->last_site_room, slot + 1, sizeof *heap->last_site)))
        heap->no_memory |= heap->site != 0;
    else heap->last_site[slot] = heap->site;
}

uint32_t heap_model_add_thread(struct heap_model *heap, uint32_t tid, uint64_t time_ns) {
    if (!ht_grow(&heap->threads, &heap->threads_room, heap->threads_count + 1, sizeof *heap->threads))
        return UINT32_MAX;
    if (heap->threads_count >= HT_THREADS_MAX || !slots_add_thread(&heap->slots)) return UINT32_MAX;
    if (time_ns < heap->last_time_ns) time_ns = heap->last_time_ns;
    heap->threads[heap->threads_count] = (struct ht_thread){
        .tid = tid, .first_event = next_event(heap), .start_ns = time_ns, .end_ns = time_ns};
    return heap->threads_count++;
}

uint32_t heap_model_make(struct heap_model *heap, uint64_t address, uint64_t bytes, uint32_t thread) {
    if (!map64_reserve(&heap->addresses)) return 0;
    return heap_model_make_at(heap, heap_model_find(heap, address), address, bytes, thread);
}

bool heap_model_place(struct heap_model *heap, uint64_t address, uint32_t slot, uint64_t bytes) {
    heap->live_bytes -= heap->slots.state[slot].size;
    heap->slots.state[slot].size = bytes;
    heap_model_count_live(heap, bytes);
    heap_model_hold(heap, address, bytes);
    return map64_put(&heap->addresses, address, slot);
}

void heap_model_end(struct heap_model *heap, uint32_t slot, uint32_t by_thread) {
    heap->live_bytes -= heap->slots.state[slot].size;
    slots_give(&heap->slots, slot, by_thread);
}

// ---- where blocks lie ----

// A range is kept as the fewest aligned units of these sizes, but for its first and its last, which are of the smallest.
static const unsigned held_shift[] = {HEAP_HELD_SHIFT, 22, 28, 34};
enum { HELD_SIZES = sizeof held_shift / sizeof *held_shift };
// More is of a damaged log. No program has an address from the latter on.
static const uint64_t HELD_BYTES_MAX = UINT64_C(1) << 47, ADDRESSES_END = UINT64_C(1) << 57;
// Between blocks lie an allocator's tables.
static const uint64_t HELD_GAP_BYTES = 256 << 10;
static const uint64_t HELD_UNITS_MIN = 1 << 16;  // are quickly looked through
// Such a block is a mapping of its own in glibc, behind 16 bytes of it.
enum { MAPPED_BYTES_MIN = 128 << 10, MAPPED_PAGE_BYTES = 4096, MAPPED_OFFSET = 16 };

static uint64_t held_key(uint64_t address, unsigned size) {
    return UINT64_C(1) << 63 | (address >> held_shift[size]) << 2 | size;
}

static void hold_unit(struct heap_model *heap, uint64_t address, unsigned size) {
    if (!map64_put(&heap->held, held_key(address, size), 0)) heap->no_memory = true;
}

static void drop_unit(struct heap_model *heap, uint64_t address, unsigned size) {
    size_t at = map64_find(&heap->held, held_key(address, size));
    if (map64_has(&heap->held, at)) map64_remove_at(&heap->held, at);
}

static void each_unit(struct heap_model *heap, uint64_t at, uint64_t end,
                      void (*visit)(struct heap_model *heap, uint64_t address, unsigned size)) {
    while (at < end) {
        unsigned size = HELD_SIZES - 1;
        while (size &&
               (at & ((UINT64_C(1) << held_shift[size]) - 1) || end - at < UINT64_C(1) << held_shift[size]))
            size--;
        visit(heap, at, size);
        at += UINT64_C(1) << held_shift[size];
    }
}

static const uint64_t held_unit = UINT64_C(1) << HEAP_HELD_SHIFT;

void heap_model_hold_more(struct heap_model *heap, uint64_t address, uint64_t bytes) {
    uint64_t end = address + (bytes ? bytes : 1), first = address & -held_unit, last = (end - 1) & -held_unit;
    if (bytes > HELD_BYTES_MAX || address >= ADDRESSES_END) return;
    hold_unit(heap, first, 0);
    if (last != first) hold_unit(heap, last, 0);
    if (last > first) each_unit(heap, first + held_unit, last, hold_unit);
    uint64_t place = last >> HEAP_HELD_SHIFT;
    heap->last_held[place % HEAP_LAST_HELD] = place;
}

void heap_model_hold_no_more(struct heap_model *heap, uint64_t address, uint64_t bytes) {
    uint64_t end = address + bytes, first = address & -held_unit, last = (end - 1) & -held_unit;
    if (!heap->holds_addresses || bytes < MAPPED_BYTES_MIN || bytes > HELD_BYTES_MAX || end < address ||
        address % MAPPED_PAGE_BYTES != MAPPED_OFFSET)
        return;
    each_unit(heap, first + held_unit, last, drop_unit);
    uint64_t place = (first >> HEAP_HELD_SHIFT) + 1, until = last >> HEAP_HELD_SHIFT;
    for (unsigned i = 0; i < HEAP_LAST_HELD && place < until; i++)
        heap->last_held[place++ % HEAP_LAST_HELD] = 0;
}

static unsigned held_size_at(const struct heap_model *heap, uint64_t address) {
    unsigned size = HELD_SIZES;
    while (size-- > 0)
        if (map64_has(&heap->held, map64_find(&heap->held, held_key(address, size)))) return size;
    return HELD_SIZES;
}

// The same without the gaps, of a range with more units than there are entries.
static uint64_t sum_held(const struct heap_model *heap, uint64_t start, uint64_t end) {
    const struct map64 *held = &heap->held;
    uint64_t bytes = 0;
    for (size_t i = 0; i < held->room; i++) {
        if (!map64_has(held, i)) continue;
        unsigned shift = held_shift[held->entry[i].key % 4];
        uint64_t from = (held->entry[i].key & ~(UINT64_C(1) << 63)) >> 2 << shift,
                 until = from + (UINT64_C(1) << shift);
        if (from < start) from = start;
        if (until > end) until = end;
        if (from < until) bytes += until - from;
    }
    return bytes;
}

uint64_t heap_model_held_bytes(const struct heap_model *heap, uint64_t start, uint64_t end) {
    uint64_t bytes = 0, held_end = 0;
    if ((end - start) >> HEAP_HELD_SHIFT > HELD_UNITS_MIN + heap->held.room)
        return sum_held(heap, start, end);
    for (uint64_t at = start & -held_unit; at < end;) {
        unsigned size = held_size_at(heap, at);
        uint64_t step = UINT64_C(1) << held_shift[size < HELD_SIZES ? size : 0], next = (at & -step) + step;
        if (size < HELD_SIZES) {
            uint64_t from = at > start ? at : start, until = next < end ? next : end;
            if (held_end && from - held_end <= HELD_GAP_BYTES) from = held_end;
            bytes += until - from;
            held_end = until;
        }
        at = next;
    }
    return bytes;
}

// What is resident of a piece is the heap's as far as blocks lie there.
void heap_pieces_take(struct heap_pieces *pieces, const struct heap_model *heap,
                      const struct ht_raw_record *record, uint64_t page_bytes) {
    uint64_t start = record->word[0], bytes = (record->word[1] >> 32) * page_bytes,
             resident = (record->word[1] & UINT32_MAX) * page_bytes;
    if (pieces->stamp != record->stamp) *pieces = (struct heap_pieces){.stamp = record->stamp};
    if (start == HT_PIECES_MAPPED) {
        pieces->mapped_bytes = record->word[1] < UINT64_MAX ? record->word[1] + 1 : 0;
        return;
    }
    if (!start) {
        pieces->whole = (record->word[1] & ~HT_PIECES_LATE) == pieces->count;
        pieces->late = record->word[1] & HT_PIECES_LATE;
    }
    if (!start || start >= ADDRESSES_END || bytes > ADDRESSES_END) return;
    uint64_t held = heap_model_held_bytes(heap, start, start + bytes);
    if (held > resident) held = resident;
    pieces->heap_bytes += held;
    pieces->count++;
}

uint32_t heap_model_pages(uint64_t page_bytes, uint64_t address, uint64_t bytes, uint64_t pages_it_lies_in) {
    uint64_t whole = bytes / page_bytes, rest = bytes % page_bytes, before = address % page_bytes;
    uint64_t own = whole + (rest != 0), all = whole + (before + rest + page_bytes - 1) / page_bytes;
    uint64_t pages = pages_it_lies_in >= all ? own + 1 : pages_it_lies_in < own ? pages_it_lies_in : own;
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

bool heap_model_note_birth(struct heap_model *heap, uint32_t slot, uint64_t address, uint32_t pages_before,
                           uint64_t time_ns) {
    uint64_t pages = pages_before < PAGES_MASK ? pages_before : PAGES_MASK;
    if (!heap->writer) return true;
    return map64_put(&heap->births, slot, ht_trace_next_event(heap->writer) << PAGES_BITS | pages) &&
           map64_put(&heap->seen, slot, time_ns >> BORN_SHIFT << PAGES_BITS | pages) &&
           map64_put(&heap->places, slot, address);
}

void heap_model_note_emptied(struct heap_model *heap, uint32_t slot, uint64_t pages) {
    size_t i = map64_find(&heap->left, slot), k = map64_find(&heap->seen, slot);
    if (!map64_has(&heap->seen, k)) return;
    uint64_t *seen = &heap->seen.entry[k].value;
    if (pages > PAGES_MASK) pages = PAGES_MASK;
    if (pages > (*seen & PAGES_MASK)) *seen = (*seen & ~PAGES_MASK) | pages;
    uint64_t before = map64_has(&heap->left, i) ? heap->left.entry[i].value : *seen & PAGES_MASK;
    if (!map64_put(&heap->left, slot, before > pages ? before - pages : 0)) heap->no_memory = true;
}

bool heap_model_is_emptied(const struct heap_model *heap, uint32_t slot) {
    return map64_has(&heap->left, map64_find(&heap->left, slot));
}

bool heap_model_is_refilled(struct heap_model *heap, uint32_t slot, uint64_t pages) {
    size_t i = map64_find(&heap->left, slot);
    uint64_t before = heap->left.entry[i].value, step = pages / REFILLED_SHARE + REFILLED_PAGES_MIN;
    heap->left.entry[i].value = pages;
    return pages >= before + step;
}

void heap_model_drop_birth(struct heap_model *heap, uint32_t slot) {
    struct map64 *const maps[] = {&heap->births, &heap->seen, &heap->places, &heap->left};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        size_t place = map64_find(maps[i], slot);
        if (map64_has(maps[i], place)) map64_remove_at(maps[i], place);
    }
}

// Of the pages that were resident before and are so after age_ns: those that the program cannot have written meanwhile. What
// became resident it wrote.
static uint64_t spared_pages(uint64_t before, uint64_t after, uint64_t age_ns) {
    uint64_t written = 1 + age_ns / PAGE_NS_MIN;
    if (after > before && written < after - before) written = after - before;
    uint64_t left = after > written ? after - written : 0;
    return left < before ? left : before;
}

static void put_residency(struct heap_model *heap, uint32_t slot, uint32_t pages_after, uint64_t age_ns) {
    size_t i = map64_find(&heap->births, slot);
    if (!map64_has(&heap->births, i)) return;
    uint64_t birth = heap->births.entry[i].value, before = birth & PAGES_MASK;
    ht_trace_put_residency(heap->writer,
                           &(struct ht_residency){.event = birth >> PAGES_BITS,
                                                  .pages_before = before,
                                                  .pages_after = pages_after,
                                                  .pages_spared = spared_pages(before, pages_after, age_ns)});
    heap_model_drop_birth(heap, slot);
}

void heap_model_put_residency(struct heap_model *heap, uint32_t slot, uint32_t pages_after) {
    put_residency(heap, slot, pages_after, UINT64_MAX);
}

void heap_model_step_residency(struct heap_model *heap, uint32_t slot, struct ht_residency_step step) {
    size_t i = map64_find(&heap->births, slot), k = map64_find(&heap->seen, slot);
    if (!map64_has(&heap->births, i)) return;
    uint64_t *seen = &heap->seen.entry[k].value, known = step.pages < PAGES_MASK ? step.pages : PAGES_MASK;
    // If there are several runs, those after the first bring no more pages.
    if (known < (*seen & PAGES_MASK) || (known == (*seen & PAGES_MASK) && !step.run_pages)) return;
    *seen = (*seen & ~PAGES_MASK) | known;
    step.event = heap->births.entry[i].value >> PAGES_BITS;
    ht_trace_put_residency_step(heap->writer, &step);
}

void heap_model_hold_residency(struct heap_model *heap, uint32_t slot, uint64_t time_ns) {
    size_t i = map64_find(&heap->births, slot), k = map64_find(&heap->seen, slot);
    if (!map64_has(&heap->births, i)) return;
    const struct ht_residency_step step = {.event = heap->births.entry[i].value >> PAGES_BITS,
                                           .time_ns = time_ns,
                                           .pages = heap->seen.entry[k].value & PAGES_MASK};
    ht_trace_put_residency_step(heap->writer, &step);
}

void heap_model_end_residency(struct heap_model *heap, uint32_t slot, uint32_t pages, uint64_t time_ns) {
    size_t i = map64_find(&heap->seen, slot);
    if (!map64_has(&heap->seen, i)) return;
    // After ten hours the time of birth has lost its high bits; an age that would be all but ten hours is of another core's clock.
    static const uint64_t TIMES = UINT64_MAX >> PAGES_BITS;
    uint64_t age = ((time_ns >> BORN_SHIFT) - (heap->seen.entry[i].value >> PAGES_BITS)) & TIMES;
    uint64_t age_ns = age > TIMES - STEPS_FROM_AGE_NS ? 0 : age << BORN_SHIFT;
    uint32_t known = (uint32_t)(heap->seen.entry[i].value & PAGES_MASK);
    if (pages < known && heap_model_is_emptied(heap, slot)) pages = known;
    if (age_ns >= STEPS_FROM_AGE_NS)
        heap_model_step_residency(heap, slot, (struct ht_residency_step){.time_ns = time_ns, .pages = pages});
    put_residency(heap, slot, pages, age_ns);
}

void heap_model_end_unseen(struct heap_model *heap, size_t place, uint32_t thread, uint64_t time_ns) {
    uint32_t slot = heap_model_slot_at(heap, place);
    heap_model_event(heap, ht_op(HT_DROP, HT_PLAIN), thread, time_ns, slot, 0, 0);
    heap_model_drop_birth(heap, slot);
    heap_model_forget_at(heap, place);
    heap_model_end(heap, slot, thread);
}

void heap_model_drop(struct heap_model *heap, size_t place, uint32_t thread, uint64_t time_ns) {
    heap->totals.anomalies++;
    heap_model_end_unseen(heap, place, thread, time_ns);
}

void heap_model_put_settings(struct heap_model *heap, const struct ht_control_settings *settings,
                             uint32_t thread) {
    for (unsigned i = 0; i < settings->count; i++)
        heap_model_event(heap, ht_op(HT_CONTROL, HT_PLAIN), thread, 0, 0, ht_control_size(&settings->call[i]),
                         (uint64_t)settings->call[i].second);
}

void heap_model_fill_totals(struct heap_model *heap) {
    struct merge_totals *totals = &heap->totals;
    for (unsigned op = 0; op < 256; op++) {
        totals->records += heap->op_count[op];
        if (!ht_op_is_call((uint8_t)op)) continue;
        totals->events += heap->op_count[op];
        totals->ops[ht_op_function((uint8_t)op)] += heap->op_count[op];
        if (ht_op_variant((uint8_t)op) == HT_FAILED) totals->failed_calls += heap->op_count[op];
    }
    totals->threads = heap->threads_count;
    totals->slots = heap->slots.total;
    totals->peak_live_objects = heap->slots.live_peak;
    totals->end_live_objects = heap->slots.live;
    totals->end_live_bytes = heap->live_bytes;
    totals->duration_ns = heap->last_time_ns;
}
