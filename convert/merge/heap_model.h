// SPDX-License-Identifier: Apache-2.0
// The recorded program's heap as the merge sees it: which address holds which slot, what is live, what the
// large blocks' births were. It writes the events that change it.
#ifndef HEAPTAPE_HEAP_MODEL_H
#define HEAPTAPE_HEAP_MODEL_H

#include "map64.h"
#include "merge_result.h"
#include "site_collector.h"
#include "slots.h"

// The finest resolution of where blocks lie.
enum { HEAP_HELD_SHIFT = 16, HEAP_LAST_HELD = 4096 };

struct heap_model {
    struct ht_trace_writer *writer;  // NULL: nothing is written
    bool keeps_order;                // of births: so it is where nothing is written
    struct merge_totals totals;      // complete after heap_model_fill_totals
    uint64_t op_count[256];          // events so far
    struct map64 addresses;          // live address -> slot
    struct map64 births;             // slot of a large block -> its birth event and pages resident then
    struct map64 places;             // the same slot -> its block's address
    struct map64 left;  // the same slot, if some was given back -> how many pages are resident since
    struct map64 seen;  // the same slot -> when that was, and pages that are known to be resident
    struct slots slots;
    struct map64 held;  // where blocks lie or lay, if the addresses are the program's own (holds_addresses)
    bool holds_addresses;
    uint64_t last_held[HEAP_LAST_HELD];  // what was noted there last
    uint64_t live_bytes;
    uint64_t last_time_ns;
    struct ht_thread *threads;
    uint32_t threads_count;
    size_t threads_room;
    uint64_t unwritten_events;
    uint64_t *last_event;  // by slot: a live object's birth, because nothing else names it afterwards
    size_t last_event_room;
    uint32_t *last_site;  // by slot, where that is known: its call site, by the log's number
    size_t last_site_room;
    bool no_memory;  // last_event is not complete
    uint32_t site;   // call site of the call whose events are written, by the log's number
    struct site_collector sites;
    struct ht_control_settings settings;  // in force
};

bool heap_model_init(struct heap_model *heap, struct ht_trace_writer *writer);
// Leaves threads and totals to the caller.
void heap_model_free(struct heap_model *heap);

// A thread that has just made its first event; UINT32_MAX for want of memory.
uint32_t heap_model_add_thread(struct heap_model *heap, uint32_t tid, uint64_t time_ns);

// Keeps the order of births, and call sites, where nothing is written.
void heap_model_note_order(struct heap_model *heap, uint32_t slot);

// Writes one event and counts it. Times that step back are held at the last one.
static inline void heap_model_event(struct heap_model *heap, uint8_t op, uint32_t thread, uint64_t time_ns,
                                    uint32_t slot, uint64_t size, uint64_t extra) {
    if (time_ns > heap->last_time_ns) heap->last_time_ns = time_ns;
    bool own = slot && heap->slots.state[slot].owner == thread;
    if (heap->site && heap->writer)
        ht_trace_put_site(heap->writer, site_collector_number(&heap->sites, heap->site));
    if (__builtin_expect(heap->writer != NULL, 1))
        ht_trace_put_event(heap->writer, op, thread, heap->last_time_ns, slot, own, size, extra);
    if (__builtin_expect(heap->keeps_order, 0) && slot && ht_op_function(op) != HT_USABLE_SIZE &&
        ht_op_function(op) != HT_ADVISE)
        heap_model_note_order(heap, slot);
    if (__builtin_expect(ht_op_function(op) == HT_CONTROL || ht_op_function(op) == HT_ADVISE, 0)) {
        const struct ht_control_call call = ht_control_of_event(op, size, extra);
        ht_control_counts_add(&heap->totals.controls, &call, 1);
        ht_control_settings_note(&heap->settings, &call);
    }
    struct ht_thread *who = &heap->threads[thread];
    who->end_ns = heap->last_time_ns;
    who->calls += ht_op_is_call(op);
    heap->op_count[op]++;
}

// What was set before the trace begins, as events of the thread. They are no blocks: behind the inherited ones.
void heap_model_put_settings(struct heap_model *heap, const struct ht_control_settings *settings,
                             uint32_t thread);

// Where an address is in the map, or would go. Stays valid until the map changes.
static inline size_t heap_model_find(const struct heap_model *heap, uint64_t address) {
    return map64_find(&heap->addresses, address);
}

// The slot at a place, 0 if nothing is live there.
static inline uint32_t heap_model_slot_at(const struct heap_model *heap, size_t place) {
    return map64_has(&heap->addresses, place) ? (uint32_t)heap->addresses.entry[place].value : 0;
}

// Fetches what ending the object at an address will touch.
static inline void heap_model_prefetch(const struct heap_model *heap, uint64_t address) {
    __builtin_prefetch(&heap->slots.state[heap_model_slot_at(heap, heap_model_find(heap, address))], 1);
}

// Takes the address out of the map; the object lives on, nameless.
static inline void heap_model_forget_at(struct heap_model *heap, size_t place) {
    map64_remove_at(&heap->addresses, place);
}

static inline void heap_model_count_live(struct heap_model *heap, uint64_t bytes) {
    heap->live_bytes += bytes;
    heap->totals.allocated_bytes += bytes;
    if (heap->live_bytes > heap->totals.peak_live_bytes) heap->totals.peak_live_bytes = heap->live_bytes;
}

// Memory of the allocator's is where blocks lie or once lay: it may keep what is freed. What was certainly unmapped with
// its block is forgotten. Called for a block that there is from now on, and for one that ends.
void heap_model_hold_more(struct heap_model *heap, uint64_t address, uint64_t bytes);
void heap_model_hold_no_more(struct heap_model *heap, uint64_t address, uint64_t bytes);
// How much of a range that is, gaps between blocks included.
uint64_t heap_model_held_bytes(const struct heap_model *heap, uint64_t start, uint64_t end);

// The sum of what was told before a sample of where memory lies that is not known as the program's own.
struct heap_pieces {
    uint64_t stamp, count;
    uint64_t heap_bytes;    // resident where blocks lie
    uint64_t mapped_bytes;  // by the program for itself at most, plus one; 0: not told
    bool whole, late;       // late: blocks that nobody knows may lie there
};
// A record of one, or of their end.
void heap_pieces_take(struct heap_pieces *pieces, const struct heap_model *heap,
                      const struct ht_raw_record *record, uint64_t page_bytes);

static inline void heap_model_hold(struct heap_model *heap, uint64_t address, uint64_t bytes) {
    uint64_t place = address >> HEAP_HELD_SHIFT;
    bool is_known = heap->last_held[place % HEAP_LAST_HELD] == place &&
                    (address + bytes - (bytes != 0)) >> HEAP_HELD_SHIFT == place;
    if (__builtin_expect(!is_known && heap->holds_addresses, 0)) heap_model_hold_more(heap, address, bytes);
}

// The same as heap_model_make, at the place that heap_model_find gave after map64_reserve.
static inline uint32_t heap_model_make_at(struct heap_model *heap, size_t place, uint64_t address,
                                          uint64_t bytes, uint32_t thread) {
    uint32_t slot = slots_take(&heap->slots, thread, bytes);
    if (!slot) return 0;
    map64_add_at(&heap->addresses, place, address, slot);
    heap_model_count_live(heap, bytes);
    heap_model_hold(heap, address, bytes);
    return slot;
}

// A new object of `bytes` at address, named by a slot of `thread`'s; 0 for want of memory. Nothing is live
// there.
uint32_t heap_model_make(struct heap_model *heap, uint64_t address, uint64_t bytes, uint32_t thread);

// An object whose slot is known is now at address with `bytes`. False for want of memory.
bool heap_model_place(struct heap_model *heap, uint64_t address, uint32_t slot, uint64_t bytes);

// The object is no more.
void heap_model_end(struct heap_model *heap, uint32_t slot, uint32_t by_thread);

// The object at a place ends, and no call says so. Written as a drop by the thread.
void heap_model_end_unseen(struct heap_model *heap, size_t place, uint32_t thread, uint64_t time_ns);
// The address at a place is handed out again: the free of the block that held it is not recorded. The same, counted as an
// anomaly.
void heap_model_drop(struct heap_model *heap, size_t place, uint32_t thread, uint64_t time_ns);

// Residency of large blocks: noted at birth (the event about to be written) and written at the end. Pages are the block's own, as
// many as its size takes; one more: all that it lies in, of which one that does not begin with a page has one more. So the
// trace says whether a block was filled, wherever it lay.
uint32_t heap_model_pages(uint64_t page_bytes, uint64_t address, uint64_t bytes, uint64_t pages_it_lies_in);
bool heap_model_note_birth(struct heap_model *heap, uint32_t slot, uint64_t address, uint32_t pages_before,
                           uint64_t time_ns);
// No more of it than was seen so far is resident at that time.
void heap_model_hold_residency(struct heap_model *heap, uint32_t slot, uint64_t time_ns);
// Some of the block of that slot is given back, of which so many pages were resident: they count when it ends.
void heap_model_note_emptied(struct heap_model *heap, uint32_t slot, uint64_t pages);
bool heap_model_is_emptied(const struct heap_model *heap, uint32_t slot);
// So many pages of such a block are resident now. Are they clearly more?
bool heap_model_is_refilled(struct heap_model *heap, uint32_t slot, uint64_t pages);
void heap_model_put_residency(struct heap_model *heap, uint32_t slot, uint32_t pages_after);
// So many of the block's pages are resident by now, as `step` says but for the event. At its end that is written if the
// block lived long enough to be filled bit by bit.
void heap_model_step_residency(struct heap_model *heap, uint32_t slot, struct ht_residency_step step);
void heap_model_end_residency(struct heap_model *heap, uint32_t slot, uint32_t pages, uint64_t time_ns);
void heap_model_drop_birth(struct heap_model *heap, uint32_t slot);

// Once, at the end: what the counts and the slots contain.
void heap_model_fill_totals(struct heap_model *heap);

#endif
