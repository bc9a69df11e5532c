// SPDX-License-Identifier: Apache-2.0
#include "heap_model.h"

#include <assert.h>
#include <stdlib.h>

#include "grow.h"

enum { PAGES_BITS = 24 };  // a birth packs its event above and the pages resident then below
// What was seen of it last packs its time of birth, in these units, and the pages resident since.
enum { BORN_SHIFT = 5 };
// Of a block that was emptied: fewer pages more are not worth an event.
enum { REFILLED_PAGES_MIN = 4, REFILLED_SHARE = 64 };
static const uint64_t STEPS_FROM_AGE_NS = 1000000;  // shorter lives matter little while they are filled
static const uint64_t PAGES_MASK = (UINT64_C(1) << PAGES_BITS) - 1;
// No core writes a page of 4 KiB faster.
static const uint64_t PAGE_NS_MIN = 32;

bool heap_model_init(struct heap_model *heap, struct ht_trace_writer *writer) {
    *heap = (struct heap_model){.writer = writer, .keeps_order = !writer};
    return map64_init(&heap->addresses) && map64_init(&heap->births) && map64_init(&heap->seen) &&
           map64_init(&heap->places) && map64_init(&heap->left) && slots_init(&heap->slots);
}

void heap_model_free(struct heap_model *heap) {
    map64_free(&heap->addresses);
    map64_free(&heap->births);
    map64_free(&heap->seen);
    map64_free(&heap->places);
    map64_free(&heap->left);
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
    return map64_put(&heap->addresses, address, slot);
}

void heap_model_end(struct heap_model *heap, uint32_t slot, uint32_t by_thread) {
    heap->live_bytes -= heap->slots.state[slot].size;
    slots_give(&heap->slots, slot, by_thread);
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
    // Of several runs, those behind the first bring no more pages.
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
