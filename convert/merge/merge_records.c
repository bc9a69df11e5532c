// SPDX-License-Identifier: Apache-2.0
#include "merge_records.h"

#include <string.h>
#include <sys/mman.h>

#include "control_calls.h"
#include "merge_order.h"

// Three centuries: a damaged log's stamps stay within 64 bits.
static const uint64_t TIME_MAX_NS = UINT64_C(9000000000000000000);

static inline uint64_t time_of(const struct merge *m, uint64_t stamp) {
    if (stamp <= m->first_stamp) return 0;
    unsigned __int128 ns =
        (unsigned __int128)(stamp - m->first_stamp) * m->ns_per_stamp >> m->ns_per_stamp_bits;
    return ns < TIME_MAX_NS ? (uint64_t)ns : TIME_MAX_NS;
}

bool merge_know_thread(struct merge *m, struct input *input, uint64_t stamp) {
    if (input->thread != NO_THREAD) return true;
    // A stream is nested in an earlier one, so this comes to an end.
    uint32_t number = (uint32_t)(input - m->input);
    while (m->input[number].stream->outer) number = m->input[number].stream->outer - 1;
    struct input *root = &m->input[number];
    if (root->thread == NO_THREAD)
        root->thread = heap_model_add_thread(&m->heap, input->stream->tid, time_of(m, stamp));
    input->thread = root->thread;
    return input->thread != NO_THREAD;
}

static inline void emit(struct merge *m, const struct input *input, uint64_t stamp, unsigned function,
                        unsigned variant, uint32_t slot, uint64_t size, uint64_t extra) {
    heap_model_event(&m->heap, ht_op((enum ht_function)function, (enum ht_variant)variant), input->thread,
                     time_of(m, stamp), slot, size, extra);
}

// May another stream still deliver what this one lacks?
static bool others(const struct merge *m) {
    return m->order_count > 1 || m->blocked_count > 0 || m->streams.growing;
}

// The record's address is not live (`live`), or not free. If another stream is about to change that, the input waits for it,
// not long if `soon`. Otherwise, *force: the record is taken as it is, at once. A thread that waits for what never comes falls
// behind the others, who meanwhile free and allocate addresses that are in its records, too: then frees end other blocks.
static enum merge_applied lack(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                               bool live, bool soon, bool *force) {
    if (*force || !others(m)) return APPLIED;
    soon |= m->heap.totals.foreign_frees || m->heap.totals.foreign_queries;
    uint64_t limit_stamps = soon ? m->early_limit_stamps : m->wait_limit_stamps;
    switch (merge_look_ahead(m, record, live, limit_stamps)) {
    case AHEAD_FOUND:
        return merge_block_input(m, number, record->address, limit_stamps) ? BLOCKED : NO_MEMORY;
    case AHEAD_UNKNOWN: return HELD;
    case AHEAD_NO_MEMORY: return NO_MEMORY;
    case AHEAD_NONE: break;
    }
    *force = true;
    return APPLIED;
}

static void settle_wait(struct merge *m, struct input *input, bool forced) {
    if (input->waited && !forced) m->heap.totals.repairs++;
    input->waited = false;
}

// The block's address is taken: the free of the block that held it is not recorded.
static void drop(struct merge *m, const struct input *input, size_t place, uint64_t stamp) {
    heap_model_drop(&m->heap, place, input->thread, time_of(m, stamp));
}

static uint32_t pages_of(const struct merge *m, uint32_t slot, uint64_t address, uint64_t resident_pages) {
    uint32_t page_bytes = m->log->header.page_bytes;
    if (!page_bytes) return resident_pages < UINT32_MAX ? (uint32_t)resident_pages : UINT32_MAX;  // damaged
    return heap_model_pages(page_bytes, address, m->heap.slots.state[slot].size, resident_pages);
}

static bool note_large(struct merge *m, uint32_t slot, uint64_t bytes, const struct ht_raw_record *record) {
    uint32_t resident = record->resident_before;
    if (bytes < HT_LARGE_BLOCK_BYTES) return true;
    return heap_model_note_birth(&m->heap, slot, record->address,
                                 pages_of(m, slot, record->address, resident ? resident - 1 : 0),
                                 time_of(m, record->stamp));
}

// The bytes of one block that a range covers.
static void put_advice(struct merge *m, const struct input *input, const struct ht_raw_record *record,
                       uint32_t slot, uint64_t offset, uint64_t bytes, unsigned advice) {
    emit(m, input, record->stamp, HT_ADVISE, HT_PLAIN, slot, bytes, ht_advice_extra(offset, advice));
}

// A block of which some was given back is seen with more pages than were left: these, or its first ones, were written again.
static void note_refilled(struct merge *m, const struct input *input, const struct ht_raw_record *record,
                          uint32_t slot, uint64_t pages, uint64_t first_page, uint64_t run_pages) {
    uint64_t size = m->heap.slots.state[slot].size, page_bytes = m->log->header.page_bytes;
    if (!heap_model_is_emptied(&m->heap, slot) || input->thread == NO_THREAD || !page_bytes) return;
    bool more = heap_model_is_refilled(&m->heap, slot, pages);
    uint64_t count = run_pages ? run_pages : pages;
    if ((!more && !run_pages) || first_page >= size / page_bytes || count > UINT32_MAX) return;
    uint64_t offset = first_page * page_bytes, bytes = count * page_bytes;
    put_advice(m, input, record, slot, offset, bytes < size - offset ? bytes : size - offset,
               HT_ADVICE_WRITTEN);
}

static void end_large(struct merge *m, const struct input *input, uint32_t slot,
                      const struct ht_raw_record *record) {
    note_refilled(m, input, record, slot, record->resident_after - 1, 0, 0);
    heap_model_end_residency(&m->heap, slot, pages_of(m, slot, record->address, record->resident_after - 1),
                             time_of(m, record->stamp));
}

// What the trace keeps as extra: an alignment for those that have one, else the count.
static uint64_t extra_of(const struct ht_raw_record *record, unsigned function) {
    return function == HT_CALLOC || function == HT_REALLOCARRAY ? record->count : record->alignment;
}

// Was the free that ended the block another one's, too early by its stamp?
static bool is_overtaken(const struct merge *m, const struct input *input,
                         const struct ht_raw_record *record) {
    return input->thread != NO_THREAD &&
           overtaken_frees_likely(&m->overtaken, record, input->thread, m->wait_limit_stamps);
}

// Sees to it that the address of a new object is free: APPLIED, or why it cannot be yet.
static enum merge_applied clear_address(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                        bool force) {
    struct input *input = &m->input[number];
    size_t place = heap_model_find(&m->heap, record->address);
    bool taken = heap_model_slot_at(&m->heap, place) != 0;
    if (taken) {
        enum merge_applied how = lack(m, number, record, false, false, &force);
        if (how != APPLIED) return how;
    }
    if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
    if (taken) drop(m, input, place, record->stamp);
    settle_wait(m, input, force);
    return APPLIED;
}

static enum merge_applied apply_allocation(struct merge *m, uint32_t number,
                                           const struct ht_raw_record *record, bool force) {
    struct input *input = &m->input[number];
    unsigned function = ht_raw_function(record),
             variant = record->op == HT_RAW_REALLOC_NULL ? HT_NULL : HT_PLAIN;
    uint64_t extra = extra_of(record, function), bytes = record->size * record->count;
    if (record->failed) {
        if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
        emit(m, input, record->stamp, function, HT_FAILED, 0, record->size, extra);
        return APPLIED;
    }
    enum merge_applied cleared = clear_address(m, number, record, force);
    if (cleared != APPLIED) return cleared;
    uint32_t slot = heap_model_make(&m->heap, record->address, bytes, input->thread);
    if (!slot || !note_large(m, slot, bytes, record)) return NO_MEMORY;
    emit(m, input, record->stamp, function, variant, slot, record->size, extra);
    merge_wake_inputs(m, record->address);
    return APPLIED;
}

static enum merge_applied apply_free(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                     bool force) {
    struct input *input = &m->input[number];
    unsigned function = ht_raw_function(record);
    uint64_t extra = extra_of(record, function);
    if (record->op == HT_RAW_FREE_NULL) {
        if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
        emit(m, input, record->stamp, function, HT_NULL, 0, record->size, extra);
        return APPLIED;
    }
    size_t place = heap_model_find(&m->heap, record->address);
    uint32_t slot = heap_model_slot_at(&m->heap, place);
    if (!slot && !force && others(m) && is_overtaken(m, input, record) &&
        overtaken_frees_keep(&m->overtaken, record, number)) {
        input->waited = false;
        return KEPT;
    }
    if (!slot) {
        enum merge_applied how = lack(m, number, record, true, false, &force);
        if (how != APPLIED) return how;
    }
    if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
    settle_wait(m, input, force);
    if (!slot) {
        m->heap.totals.foreign_frees++;
        emit(m, input, record->stamp, function, HT_FOREIGN, 0, record->size, extra);
        return APPLIED;
    }
    if (m->heap.slots.state[slot].size >= HT_LARGE_BLOCK_BYTES) {
        if (record->resident_after) end_large(m, input, slot, record);
        else heap_model_drop_birth(&m->heap, slot);
    }
    heap_model_hold_no_more(&m->heap, record->address, m->heap.slots.state[slot].size);
    heap_model_forget_at(&m->heap, place);
    emit(m, input, record->stamp, function, HT_PLAIN, slot, record->size, extra);
    heap_model_end(&m->heap, slot, input->thread);
    overtaken_frees_note(&m->overtaken, record->address, record->stamp, input->thread);
    merge_wake_inputs(m, record->address);
    return APPLIED;
}

// Changes nothing; of a block whose allocation was not seen there is nothing to ask.
static enum merge_applied apply_query(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                      bool force) {
    struct input *input = &m->input[number];
    uint32_t slot = heap_model_slot_at(&m->heap, heap_model_find(&m->heap, record->address));
    if (!slot) {
        enum merge_applied how = lack(m, number, record, true, false, &force);
        if (how != APPLIED) return how;
    }
    settle_wait(m, input, force);
    if (!slot) {
        m->heap.totals.foreign_queries++;
        return APPLIED;
    }
    if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
    emit(m, input, record->stamp, HT_USABLE_SIZE, HT_PLAIN, slot, 0, 0);
    return APPLIED;
}

void merge_drop_open_realloc(struct merge *m, struct input *input) {
    if (!input->realloc.open) return;
    m->heap.totals.unfinished++;
    if (input->realloc.slot &&
        !heap_model_slot_at(&m->heap, heap_model_find(&m->heap, input->realloc.address)) &&
        !map64_put(&m->heap.addresses, input->realloc.address, input->realloc.slot))
        m->heap.no_memory = true;
    input->realloc.open = false;
    if (m->observer) m->observer->unfinished(m->observer->context, (uint32_t)(input - m->input));
}

static enum merge_applied apply_realloc_begin(struct merge *m, uint32_t number,
                                              const struct ht_raw_record *record, bool force) {
    struct input *input = &m->input[number];
    merge_drop_open_realloc(m, input);
    size_t place = heap_model_find(&m->heap, record->address);
    uint32_t slot = heap_model_slot_at(&m->heap, place);
    bool overtaken = !slot && is_overtaken(m, input, record);
    if (!slot) {
        enum merge_applied how = lack(m, number, record, true, overtaken, &force);
        if (how != APPLIED) return how;
    }
    settle_wait(m, input, force);
    overtaken = overtaken && overtaken_frees_keep(&m->overtaken, record, number);
    input->realloc = (struct open_realloc){.open = true,
                                           .overtaken = overtaken,
                                           .function = (uint8_t)ht_raw_function(record),
                                           .slot = slot,
                                           .address = record->address,
                                           .size = record->size,
                                           .count = record->count};
    if (slot) {
        if (record->resident_after) end_large(m, input, slot, record);
        heap_model_hold_no_more(&m->heap, record->address, m->heap.slots.state[slot].size);
        heap_model_forget_at(&m->heap, place);
        overtaken_frees_note(&m->overtaken, record->address, record->stamp, input->thread);
        merge_wake_inputs(m, record->address);
    }
    return APPLIED;
}

static enum merge_applied end_failed_realloc(struct merge *m, struct input *input,
                                             const struct ht_raw_record *record) {
    const struct open_realloc *old = &input->realloc;
    bool released = record->failed == HT_FAILED_RELEASED && old->slot;
    emit(m, input, record->stamp, old->function, released ? HT_RELEASED : HT_FAILED, released ? old->slot : 0,
         old->size, old->count);
    input->realloc.open = false;
    if (released) {
        heap_model_drop_birth(&m->heap, old->slot);
        heap_model_end(&m->heap, old->slot, input->thread);
    } else if (old->slot) {
        heap_model_hold(&m->heap, old->address, m->heap.slots.state[old->slot].size);
        if (!map64_put(&m->heap.addresses, old->address, old->slot)) return NO_MEMORY;
    }
    return APPLIED;
}

static enum merge_applied apply_realloc_end(struct merge *m, uint32_t number,
                                            const struct ht_raw_record *record, bool force) {
    struct input *input = &m->input[number];
    struct open_realloc *old = &input->realloc;
    if (!old->open) return BAD_ORDER;
    if (record->failed)
        return merge_know_thread(m, input, record->stamp) ? end_failed_realloc(m, input, record) : NO_MEMORY;
    uint64_t bytes = old->size * old->count;
    uint32_t slot = old->slot;
    enum merge_applied cleared = clear_address(m, number, record, force);
    if (cleared != APPLIED) return cleared;
    if (slot) {
        heap_model_drop_birth(&m->heap, slot);
        if (!heap_model_place(&m->heap, record->address, slot, bytes)) return NO_MEMORY;
    } else {
        if (old->overtaken) m->heap.totals.repairs++;
        else m->heap.totals.foreign_frees++;
        slot = heap_model_make(&m->heap, record->address, bytes, input->thread);
    }
    if (!slot || !note_large(m, slot, bytes, record)) return NO_MEMORY;
    emit(m, input, record->stamp, old->function, old->slot ? HT_PLAIN : HT_FOREIGN, slot, old->size,
         old->count);
    old->open = false;
    merge_wake_inputs(m, record->address);
    return APPLIED;
}

static void apply_sample(struct merge *m, const struct ht_raw_record *record) {
    if (!m->heap.writer) return;
    uint64_t time_ns = time_of(m, record->stamp);
    if (time_ns < m->heap.last_time_ns) time_ns = m->heap.last_time_ns;
    // A sample is stamped before it is taken: another thread's may come between.
    if (time_ns < m->last_sample_ns) time_ns = m->last_sample_ns;
    m->last_sample_ns = time_ns;
    struct ht_sample sample = {.time_ns = time_ns,
                               .event = ht_trace_next_event(m->heap.writer),
                               .rss_anon_bytes = record->word[0],
                               .own_rss_bytes = record->word[1],
                               .cpu_ns = record->word[2],
                               .own_fresh = record->word[3] != 0};
    struct line_sample put = {.sample = sample,
                              .live_bytes = m->heap.live_bytes,
                              .allocated_bytes = m->heap.totals.allocated_bytes};
    line_sample_take(&put, &m->pieces, record->stamp);
    m->pieces = (struct heap_pieces){0};
    m->samples.many_threads = m->heap.threads_count > 1;
    sample_line_put(&m->samples, &put);
}

// What the recorder saw of a live large block.
static void apply_resident(struct merge *m, const struct input *input, const struct ht_raw_record *record) {
    uint32_t slot = heap_model_slot_at(&m->heap, heap_model_find(&m->heap, record->word[0]));
    if (!slot) return;
    uint64_t time_ns = time_of(m, record->stamp);
    uint32_t pages = pages_of(m, slot, record->word[0], record->word[1]);
    bool runs = record->long_words >= 4;
    note_refilled(m, input, record, slot, record->word[1], runs ? record->word[2] : 0,
                  runs ? record->word[3] : 0);
    if (record->long_kind == HT_LONG_RESIDENT_AT_EXIT)
        heap_model_end_residency(&m->heap, slot, pages, time_ns);
    else
        heap_model_step_residency(
            &m->heap, slot,
            (struct ht_residency_step){.time_ns = time_ns,
                                       .pages = pages,
                                       .first_page = record->long_words >= 4 ? record->word[2] : 0,
                                       .run_pages = record->long_words >= 4 ? record->word[3] : 0});
}

static enum merge_applied apply_control(struct merge *m, struct input *input,
                                        const struct ht_raw_record *record) {
    const struct ht_control_call call = {.number = (uint32_t)(record->word[0] & 0xff),
                                         .first = (int64_t)record->word[1],
                                         .second = (int64_t)record->word[2]};
    if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
    emit(m, input, record->stamp, HT_CONTROL, HT_PLAIN, 0, ht_control_size(&call), (uint64_t)call.second);
    return APPLIED;
}

// resident: of the whole range, before. Of memory that is given back it shows how much was written until then; where none is
// resident of what is to have huge pages, nothing was.
static void advise_block(struct merge *m, const struct input *input, const struct ht_raw_record *record,
                         uint32_t slot, uint64_t offset, uint64_t bytes) {
    unsigned advice = (unsigned)(record->word[2] & 0xff);
    uint64_t resident = record->word[2] >> 8, page_bytes = m->log->header.page_bytes;
    if (!page_bytes) return;  // damaged
    if (advice == MADV_HUGEPAGE && resident == 1)
        heap_model_hold_residency(&m->heap, slot, time_of(m, record->stamp));
    if (advice == MADV_DONTNEED || advice == MADV_FREE) {
        uint64_t written = resident ? (resident - 1) * page_bytes : bytes;
        if (written > bytes) written = bytes;
        if (written && resident) put_advice(m, input, record, slot, offset, written, HT_ADVICE_WRITTEN);
        heap_model_note_emptied(&m->heap, slot, written / page_bytes);
    }
    put_advice(m, input, record, slot, offset, bytes, advice);
}

// Large blocks alone: smaller ones share their pages with others, and what is resident of them is not known.
static enum merge_applied apply_advise(struct merge *m, struct input *input,
                                       const struct ht_raw_record *record) {
    const struct map64 *places = &m->heap.places;
    uint64_t from = record->word[0], until = from + record->word[1];
    if (until < from || !places->count) return APPLIED;
    if (!merge_know_thread(m, input, record->stamp)) return NO_MEMORY;
    for (size_t i = 0; i < places->room; i++) {
        if (!map64_has(places, i)) continue;
        uint32_t slot = (uint32_t)places->entry[i].key;
        uint64_t address = places->entry[i].value & ~UINT64_C(1),
                 end = address + m->heap.slots.state[slot].size;
        uint64_t low = from > address ? from : address, high = until < end ? until : end;
        if (address && low < high) advise_block(m, input, record, slot, low - address, high - low);
    }
    return APPLIED;
}

static void apply_long(struct merge *m, struct input *input, const struct ht_raw_record *record) {
    if (record->long_kind == HT_LONG_SAMPLE && record->long_words >= 4) {
        apply_sample(m, record);
    } else if (record->long_kind == HT_LONG_HEAP_PIECE && record->long_words >= 2 && m->heap.writer) {
        heap_pieces_take(&m->pieces, &m->heap, record, m->log->header.page_bytes);
    } else if (record->long_kind == HT_LONG_THREAD_END && record->long_words >= 2 &&
               input->thread != NO_THREAD) {
        struct ht_thread *thread = &m->heap.threads[input->thread];
        uint64_t time_ns = time_of(m, record->stamp);
        thread->ended = true;
        if (time_ns > thread->end_ns) thread->end_ns = time_ns;
        memcpy(thread->name, record->word, 16);
        slots_thread_ended(&m->heap.slots, input->thread);
    } else if ((record->long_kind == HT_LONG_RESIDENT_AT_EXIT ||
                record->long_kind == HT_LONG_RESIDENT_SO_FAR) &&
               record->long_words >= 2) {
        apply_resident(m, input, record);
    } else if (record->long_kind == HT_LONG_FORK && m->at_fork &&
               !m->at_fork(m, (uint32_t)(input - m->input), record->stamp)) {
        m->failed = true;
    }
}

static enum merge_applied apply_unobserved(struct merge *m, uint32_t number,
                                           const struct ht_raw_record *record, bool force) {
    switch (record->op) {
    case HT_RAW_FREE:
    case HT_RAW_FREE_NULL: return apply_free(m, number, record, force);
    case HT_RAW_REALLOC_BEGIN: return apply_realloc_begin(m, number, record, force);
    case HT_RAW_REALLOC_END: return apply_realloc_end(m, number, record, force);
    case HT_RAW_QUERY: return apply_query(m, number, record, force);
    case HT_RAW_LONG:
        if (ht_raw_lists(record)) return site_collector_take(&m->heap.sites, record) ? APPLIED : BAD_SITE;
        if (record->long_kind == HT_LONG_CONTROL && record->long_words >= 3)
            return apply_control(m, &m->input[number], record);
        if (record->long_kind == HT_LONG_ADVISE && record->long_words >= 3)
            return apply_advise(m, &m->input[number], record);
        apply_long(m, &m->input[number], record);
        return APPLIED;
    default: return apply_allocation(m, number, record, force);
    }
}

static void observe(struct merge *m, uint32_t number, const struct ht_raw_record *record, bool unseen) {
    const struct input *input = &m->input[number];
    m->observer->call(m->observer->context, &(struct merge_observed){.record = record,
                                                                     .stream = input->stream,
                                                                     .input = number,
                                                                     .thread = input->thread,
                                                                     .unseen = unseen,
                                                                     .time_ns = time_of(m, record->stamp)});
}

static enum merge_applied apply_observed(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                         bool force) {
    m->heap.site = record->op == HT_RAW_LONG ? 0 : record->site;
    enum merge_applied how = apply_unobserved(m, number, record, force);
    if (__builtin_expect(m->observer && how == APPLIED, 0)) {
        const struct open_realloc *open = &m->input[number].realloc;
        observe(m, number, record, record->op == HT_RAW_REALLOC_BEGIN && open->overtaken);
    }
    return how;
}

static uint32_t slot_of(const struct merge *m, uint64_t address) {
    return heap_model_slot_at(&m->heap, heap_model_find(&m->heap, address));
}

// A kept realloc's call is in the trace already: what is left is the end of the block that the early free meant.
static void end_overtaken_realloc(struct merge *m, const struct overtaken_free *kept) {
    struct ht_raw_record record = kept->record;
    if (!slot_of(m, record.address)) return;
    m->heap.site = 0;
    heap_model_end_unseen(&m->heap, heap_model_find(&m->heap, record.address), m->input[kept->input].thread,
                          time_of(m, record.stamp));
    record.op = HT_RAW_FREE;
    if (m->observer) observe(m, kept->input, &record, true);
    merge_wake_inputs(m, record.address);
}

static enum merge_applied apply_overtaken(struct merge *m, uint32_t number) {
    struct overtaken_free kept = overtaken_frees_take(&m->overtaken, number);
    struct input *input = &m->input[kept.input];
    if (kept.record.op == HT_RAW_REALLOC_BEGIN) {
        end_overtaken_realloc(m, &kept);
        return APPLIED;
    }
    // The input is at a later record by now, which may have been waited for.
    bool waited = input->waited;
    input->waited = false;
    if (slot_of(m, kept.record.address)) m->heap.totals.repairs++;
    enum merge_applied how = apply_observed(m, kept.input, &kept.record, true);
    input->waited = waited;
    return how;
}

enum merge_applied merge_force_overtaken(struct merge *m) { return apply_overtaken(m, 0); }

// The record may have made an address live whose free is kept.
static enum merge_applied apply_its_overtaken(struct merge *m, const struct ht_raw_record *record) {
    if (record->op == HT_RAW_LONG) return APPLIED;
    uint32_t kept = overtaken_frees_find(&m->overtaken, record->address);
    return kept < m->overtaken.count && slot_of(m, record->address) ? apply_overtaken(m, kept) : APPLIED;
}

enum merge_applied merge_apply(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                               bool force) {
    enum merge_applied how = apply_observed(m, number, record, force);
    if (how == APPLIED && __builtin_expect(m->overtaken.count != 0, 0)) return apply_its_overtaken(m, record);
    return how;
}

bool merge_apply_common(struct merge *m, const struct input *input, const struct ht_raw_record *record) {
    struct heap_model *heap = &m->heap;
    heap->site = record->site;
    if (!record->common || input->thread == NO_THREAD || input->waited || m->blocked_count ||
        m->overtaken.count || m->observer)
        return false;
    if (record->op == HT_RAW_MALLOC) {
        if (record->size >= HT_LARGE_BLOCK_BYTES || !map64_reserve(&heap->addresses)) return false;
        size_t place = heap_model_find(heap, record->address);
        if (heap_model_slot_at(heap, place)) return false;
        uint32_t slot = heap_model_make_at(heap, place, record->address, record->size, input->thread);
        if (!slot) return false;
        emit(m, input, record->stamp, record->function ? record->function : HT_MALLOC, HT_PLAIN, slot,
             record->size, 0);
        return true;
    }
    if (record->op != HT_RAW_FREE || (record->size && !record->function)) return false;
    size_t place = heap_model_find(heap, record->address);
    uint32_t slot = heap_model_slot_at(heap, place);
    if (!slot || heap->slots.state[slot].size >= HT_LARGE_BLOCK_BYTES) return false;
    heap_model_forget_at(heap, place);
    emit(m, input, record->stamp, record->function ? record->function : HT_FREE, HT_PLAIN, slot, record->size,
         0);
    heap_model_end(heap, slot, input->thread);
    overtaken_frees_note(&m->overtaken, record->address, record->stamp, input->thread);
    return true;
}
