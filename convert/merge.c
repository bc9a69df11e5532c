#include "merge.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "merge_inside.h"

enum { TURN_BATCHES_MAX = 2048, PROGRESS_BYTES = 1 << 18 };

// How long a stream may wait for another's record before the merge decides that there is none. The inversions
// come from reading the counter out of order: well below a microsecond. A millisecond leaves room for a
// stalled core.
static const uint64_t WAIT_WINDOW_NS = 1000000;

// Three centuries: a damaged log's stamps stay within 64 bits.
static const uint64_t TIME_MAX_NS = UINT64_C(9000000000000000000);

enum applied { APPLIED, BLOCKED, NO_MEMORY, BAD_ORDER };

// ---- lanes by time ----

static bool earlier(const struct merge *m, uint32_t a, uint32_t b) {
    // Ties go by stream number, which makes the order defined.
    return m->lane[a].key != m->lane[b].key ? m->lane[a].key < m->lane[b].key : a < b;
}

static void sift_down(struct merge *m, uint32_t at) {
    uint32_t moving = m->order[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= m->order_count) break;
        if (child + 1 < m->order_count && earlier(m, m->order[child + 1], m->order[child])) child++;
        if (!earlier(m, m->order[child], moving)) break;
        m->order[at] = m->order[child];
        at = child;
    }
    m->order[at] = moving;
}

static void push_lane(struct merge *m, uint32_t lane) {
    uint32_t at = m->order_count++;
    while (at && earlier(m, lane, m->order[(at - 1) / 2])) {
        m->order[at] = m->order[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->order[at] = lane;
}

static void pop_lane(struct merge *m) {
    m->order[0] = m->order[--m->order_count];
    if (m->order_count) sift_down(m, 0);
}

// The key up to which the first lane may run before another's turn comes. Of a tie, the lower number goes
// first, however the records came in: a growing log gives the same order as a finished one.
static uint64_t second_key(const struct merge *m) {
    uint32_t first = m->order[0], second = first;
    for (uint32_t i = 1; i < 3 && i < m->order_count; i++)
        if (second == first || earlier(m, m->order[i], second)) second = m->order[i];
    uint64_t key = second == first ? UINT64_MAX : m->lane[second].key;
    if (second < first) key -= key > 0;
    return key < m->horizon ? key : m->horizon;
}

// ---- waiting ----

static bool block_lane(struct merge *m, uint32_t number, uint64_t address) {
    struct lane *lane = &m->lane[number];
    size_t i = map64_find(&m->waiters, address);
    lane->next_waiter = map64_has(&m->waiters, i) ? (uint32_t)m->waiters.entry[i].value : 0;
    lane->wait_address = address;
    lane->wait_stamp = lane->key;
    lane->waited = true;
    m->blocked[m->blocked_count++] = number;
    return map64_put(&m->waiters, address, (uint64_t)number + 1);
}

static void unblock(struct merge *m, uint32_t number) {
    uint32_t i = 0;
    while (m->blocked[i] != number) i++;
    memmove(&m->blocked[i], &m->blocked[i + 1], (--m->blocked_count - i) * sizeof *m->blocked);
}

// The address has changed hands: all that waited for it look again.
static void wake(struct merge *m, uint64_t address) {
    if (!m->blocked_count) return;
    size_t i = map64_find(&m->waiters, address);
    if (!map64_has(&m->waiters, i)) return;
    uint32_t number = (uint32_t)m->waiters.entry[i].value;
    map64_remove_at(&m->waiters, i);
    while (number) {
        uint32_t next = m->lane[number - 1].next_waiter;
        unblock(m, number - 1);
        push_lane(m, number - 1);
        m->woke = true;
        number = next;
    }
}

// ---- one record ----

static inline uint64_t time_of(const struct merge *m, uint64_t stamp) {
    if (stamp <= m->first_stamp) return 0;
    unsigned __int128 ns =
        (unsigned __int128)(stamp - m->first_stamp) * m->ns_per_stamp >> m->ns_per_stamp_bits;
    return ns < TIME_MAX_NS ? (uint64_t)ns : TIME_MAX_NS;
}

// The thread of a lane that is about to have its first event: not before, because threads are numbered by it,
// and a record that waits may come after others'. The streams of one thread share it.
static bool know_thread(struct merge *m, struct lane *lane, uint64_t stamp) {
    if (lane->thread != NO_THREAD) return true;
    // A stream is nested in an earlier one, so this comes to an end.
    uint32_t number = (uint32_t)(lane - m->lane);
    while (m->lane[number].stream->outer) number = m->lane[number].stream->outer - 1;
    struct lane *root = &m->lane[number];
    if (root->thread == NO_THREAD)
        root->thread = heap_model_add_thread(&m->heap, lane->stream->tid, time_of(m, stamp));
    lane->thread = root->thread;
    return lane->thread != NO_THREAD;
}

static inline void emit(struct merge *m, const struct lane *lane, uint64_t stamp, unsigned function,
                        unsigned variant, uint32_t slot, uint64_t size, uint64_t extra) {
    heap_model_event(&m->heap, ht_op((enum ht_function)function, (enum ht_variant)variant), lane->thread,
                     time_of(m, stamp), slot, size, extra);
}

// May another stream still deliver what this one lacks?
static bool others(const struct merge *m) {
    return m->order_count > 1 || m->blocked_count > 0 || m->streams.growing;
}

static void settle_wait(struct merge *m, struct lane *lane, bool forced) {
    if (lane->waited && !forced) m->heap.totals.repairs++;
    lane->waited = false;
}

// The block's address is taken: whoever held it was freed without our seeing it.
static void drop(struct merge *m, struct lane *lane, size_t place, uint64_t stamp) {
    heap_model_drop(&m->heap, place, lane->thread, time_of(m, stamp));
}

static bool note_large(struct merge *m, uint32_t slot, uint64_t bytes, uint32_t resident_before) {
    if (bytes < HT_LARGE_BLOCK_BYTES) return true;
    return heap_model_note_birth(&m->heap, slot, resident_before ? resident_before - 1 : 0);
}

// What the trace keeps as extra: an alignment for those that have one, else the count.
static uint64_t extra_of(const struct ht_raw_record *record, unsigned function) {
    return function == HT_CALLOC || function == HT_REALLOCARRAY ? record->count : record->alignment;
}

static enum applied apply_allocation(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                     bool force) {
    struct lane *lane = &m->lane[number];
    unsigned function = ht_raw_function(record),
             variant = record->op == HT_RAW_REALLOC_NULL ? HT_NULL : HT_PLAIN;
    uint64_t extra = extra_of(record, function), bytes = record->size * record->count;
    if (record->failed) {
        if (!know_thread(m, lane, record->stamp)) return NO_MEMORY;
        emit(m, lane, record->stamp, function, HT_FAILED, 0, record->size, extra);
        return APPLIED;
    }
    size_t place = heap_model_find(&m->heap, record->address);
    bool taken = heap_model_slot_at(&m->heap, place) != 0;
    if (taken && !force && others(m)) return block_lane(m, number, record->address) ? BLOCKED : NO_MEMORY;
    if (!know_thread(m, lane, record->stamp)) return NO_MEMORY;
    if (taken) drop(m, lane, place, record->stamp);
    settle_wait(m, lane, force);
    uint32_t slot = heap_model_make(&m->heap, record->address, bytes, lane->thread);
    if (!slot || !note_large(m, slot, bytes, record->resident_before)) return NO_MEMORY;
    emit(m, lane, record->stamp, function, variant, slot, record->size, extra);
    wake(m, record->address);
    return APPLIED;
}

static enum applied apply_free(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                               bool force) {
    struct lane *lane = &m->lane[number];
    unsigned function = ht_raw_function(record);
    uint64_t extra = extra_of(record, function);
    if (record->op == HT_RAW_FREE_NULL) {
        if (!know_thread(m, lane, record->stamp)) return NO_MEMORY;
        emit(m, lane, record->stamp, function, HT_NULL, 0, record->size, extra);
        return APPLIED;
    }
    size_t place = heap_model_find(&m->heap, record->address);
    uint32_t slot = heap_model_slot_at(&m->heap, place);
    if (!slot && !force && others(m)) return block_lane(m, number, record->address) ? BLOCKED : NO_MEMORY;
    if (!know_thread(m, lane, record->stamp)) return NO_MEMORY;
    settle_wait(m, lane, force);
    if (!slot) {
        m->heap.totals.foreign_frees++;
        emit(m, lane, record->stamp, function, HT_FOREIGN, 0, record->size, extra);
        return APPLIED;
    }
    if (m->heap.slots.state[slot].size >= HT_LARGE_BLOCK_BYTES) {
        if (record->resident_after) heap_model_tell_residency(&m->heap, slot, record->resident_after - 1);
        else heap_model_drop_birth(&m->heap, slot);
    }
    heap_model_forget_at(&m->heap, place);
    emit(m, lane, record->stamp, function, HT_PLAIN, slot, record->size, extra);
    heap_model_end(&m->heap, slot, lane->thread);
    wake(m, record->address);
    return APPLIED;
}

// A process that was killed inside a realloc, or a jump that left it, leaves its first half: the block is as
// it was.
static void drop_open_realloc(struct merge *m, struct lane *lane) {
    if (!lane->realloc.open) return;
    m->heap.totals.unfinished++;
    if (lane->realloc.slot && !heap_model_slot_at(&m->heap, heap_model_find(&m->heap, lane->realloc.address)))
        map64_put(&m->heap.addresses, lane->realloc.address, lane->realloc.slot);
    lane->realloc.open = false;
}

static enum applied apply_realloc_begin(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                        bool force) {
    struct lane *lane = &m->lane[number];
    drop_open_realloc(m, lane);
    size_t place = heap_model_find(&m->heap, record->address);
    uint32_t slot = heap_model_slot_at(&m->heap, place);
    if (!slot && !force && others(m)) return block_lane(m, number, record->address) ? BLOCKED : NO_MEMORY;
    settle_wait(m, lane, force);
    lane->realloc = (struct open_realloc){.open = true,
                                          .function = (uint8_t)ht_raw_function(record),
                                          .slot = slot,
                                          .address = record->address,
                                          .size = record->size,
                                          .count = record->count};
    if (slot) {
        if (record->resident_after) heap_model_tell_residency(&m->heap, slot, record->resident_after - 1);
        heap_model_forget_at(&m->heap, place);
        wake(m, record->address);
    }
    return APPLIED;
}

static enum applied end_failed_realloc(struct merge *m, struct lane *lane,
                                       const struct ht_raw_record *record) {
    const struct open_realloc *old = &lane->realloc;
    bool released = record->failed == HT_FAILED_RELEASED && old->slot;
    emit(m, lane, record->stamp, old->function, released ? HT_RELEASED : HT_FAILED, released ? old->slot : 0,
         old->size, old->count);
    lane->realloc.open = false;
    if (released) {
        heap_model_drop_birth(&m->heap, old->slot);
        heap_model_end(&m->heap, old->slot, lane->thread);
    } else if (old->slot && !map64_put(&m->heap.addresses, old->address, old->slot)) {
        return NO_MEMORY;
    }
    return APPLIED;
}

static enum applied apply_realloc_end(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                      bool force) {
    struct lane *lane = &m->lane[number];
    struct open_realloc *old = &lane->realloc;
    if (!old->open) return BAD_ORDER;
    if (record->failed)
        return know_thread(m, lane, record->stamp) ? end_failed_realloc(m, lane, record) : NO_MEMORY;
    uint64_t bytes = old->size * old->count;
    uint32_t slot = old->slot;
    size_t place = heap_model_find(&m->heap, record->address);
    bool taken = heap_model_slot_at(&m->heap, place) != 0;
    if (taken && !force && others(m)) return block_lane(m, number, record->address) ? BLOCKED : NO_MEMORY;
    if (!know_thread(m, lane, record->stamp)) return NO_MEMORY;
    if (taken) drop(m, lane, place, record->stamp);
    settle_wait(m, lane, force);
    if (slot) {
        heap_model_drop_birth(&m->heap, slot);
        if (!heap_model_place(&m->heap, record->address, slot, bytes)) return NO_MEMORY;
    } else {
        m->heap.totals.foreign_frees++;
        slot = heap_model_make(&m->heap, record->address, bytes, lane->thread);
    }
    if (!slot || !note_large(m, slot, bytes, record->resident_before)) return NO_MEMORY;
    emit(m, lane, record->stamp, old->function, old->slot ? HT_PLAIN : HT_FOREIGN, slot, old->size,
         old->count);
    old->open = false;
    wake(m, record->address);
    return APPLIED;
}

static void apply_sample(struct merge *m, const struct ht_raw_record *record) {
    if (!m->heap.writer) return;
    uint64_t time_ns = time_of(m, record->stamp);
    if (time_ns < m->heap.last_time_ns) time_ns = m->heap.last_time_ns;
    // A sample is stamped before it is taken: another thread's may come between.
    if (time_ns < m->last_sample_ns) time_ns = m->last_sample_ns;
    m->last_sample_ns = time_ns;
    sample_line_put(&m->samples, &(struct ht_sample){.time_ns = time_ns,
                                                     .event = ht_trace_next_event(m->heap.writer),
                                                     .rss_anon_bytes = record->word[0],
                                                     .own_rss_bytes = record->word[1],
                                                     .cpu_ns = record->word[2],
                                                     .own_fresh = record->word[3] != 0});
}

static void apply_long(struct merge *m, struct lane *lane, const struct ht_raw_record *record) {
    if (record->long_kind == HT_LONG_SAMPLE && record->long_words >= 4) {
        apply_sample(m, record);
    } else if (record->long_kind == HT_LONG_THREAD_END && record->long_words >= 2 &&
               lane->thread != NO_THREAD) {
        struct ht_thread *thread = &m->heap.threads[lane->thread];
        uint64_t time_ns = time_of(m, record->stamp);
        thread->ended = true;
        if (time_ns > thread->end_ns) thread->end_ns = time_ns;
        memcpy(thread->name, record->word, 16);
        slots_thread_ended(&m->heap.slots, lane->thread);
    } else if (record->long_kind == HT_LONG_RESIDENT_AT_EXIT && record->long_words >= 2) {
        uint32_t slot = heap_model_slot_at(&m->heap, heap_model_find(&m->heap, record->word[0]));
        if (slot) heap_model_tell_residency(&m->heap, slot, (uint32_t)record->word[1]);
    } else if (record->long_kind == HT_LONG_FORK && m->at_fork && !m->at_fork(m, record->stamp)) {
        m->failed = true;
    }
}

static enum applied apply_unobserved(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                                     bool force) {
    switch (record->op) {
    case HT_RAW_FREE:
    case HT_RAW_FREE_NULL: return apply_free(m, number, record, force);
    case HT_RAW_REALLOC_BEGIN: return apply_realloc_begin(m, number, record, force);
    case HT_RAW_REALLOC_END: return apply_realloc_end(m, number, record, force);
    case HT_RAW_LONG: apply_long(m, &m->lane[number], record); return APPLIED;
    default: return apply_allocation(m, number, record, force);
    }
}

static enum applied apply(struct merge *m, uint32_t number, const struct ht_raw_record *record, bool force) {
    enum applied how = apply_unobserved(m, number, record, force);
    if (__builtin_expect(m->observer && how == APPLIED, 0)) {
        const struct lane *lane = &m->lane[number];
        m->observer->call(m->observer->context,
                          &(struct merge_observed){.record = record,
                                                   .stream = lane->stream,
                                                   .lane = number,
                                                   .thread = lane->thread,
                                                   .time_ns = time_of(m, record->stamp)});
    }
    return how;
}

// A malloc or free of a small block without modifiers, while nobody waits or looks on: nearly all of a log.
// False: it is no such case, and nothing has been done.
static inline bool apply_common(struct merge *m, const struct lane *lane,
                                const struct ht_raw_record *record) {
    struct heap_model *heap = &m->heap;
    if (!record->common || lane->thread == NO_THREAD || lane->waited || m->blocked_count || m->observer)
        return false;
    if (record->op == HT_RAW_MALLOC) {
        if (record->size >= HT_LARGE_BLOCK_BYTES || !map64_reserve(&heap->addresses)) return false;
        size_t place = heap_model_find(heap, record->address);
        if (heap_model_slot_at(heap, place)) return false;
        uint32_t slot = heap_model_make_at(heap, place, record->address, record->size, lane->thread);
        if (!slot) return false;
        emit(m, lane, record->stamp, HT_MALLOC, HT_PLAIN, slot, record->size, 0);
        return true;
    }
    if (record->op != HT_RAW_FREE || record->size) return false;
    size_t place = heap_model_find(heap, record->address);
    uint32_t slot = heap_model_slot_at(heap, place);
    if (!slot || heap->slots.state[slot].size >= HT_LARGE_BLOCK_BYTES) return false;
    heap_model_forget_at(heap, place);
    emit(m, lane, record->stamp, HT_FREE, HT_PLAIN, slot, 0, 0);
    heap_model_end(heap, slot, lane->thread);
    return true;
}

// ---- the pass ----

static int fail(const struct merge *m, const struct lane *lane, enum applied how, struct ht_error *error) {
    if (how == BAD_ORDER)
        return ht_error_input(error, m->log->path, lane->stream->chunk_offset,
                              "a realloc's two records in turn expected");
    errno = ENOMEM;
    return ht_error_system(error, m->log->path, "cannot follow the heap");
}

// Nobody else will deliver what the longest waiting lane waits for: its record is taken as it is.
static int force_oldest(struct merge *m, struct ht_error *error) {
    uint32_t number = m->blocked[0];
    struct lane *lane = &m->lane[number];
    uint64_t address = lane->wait_address;
    // Take the lane out of its address's list; the others stay.
    size_t i = map64_find(&m->waiters, address);
    uint32_t first = (uint32_t)m->waiters.entry[i].value, previous = 0;
    for (uint32_t at = first; at != number + 1; at = m->lane[at - 1].next_waiter) previous = at;
    if (previous) m->lane[previous - 1].next_waiter = lane->next_waiter;
    else if (lane->next_waiter) m->waiters.entry[i].value = lane->next_waiter;
    else map64_remove_at(&m->waiters, i);
    unblock(m, number);
    enum applied how = apply(m, number, &lane->stream->batch[lane->stream->batch_at], true);
    if (how != APPLIED) return fail(m, lane, how, error);
    lane->stream->batch_at++;
    push_lane(m, number);
    return 0;
}

// The lane's next batch. Returns 1, 0 at its end, -1 with error. Addresses are fetched ahead of their use.
static int refill(struct merge *m, struct lane *lane, struct ht_error *error) {
    struct stream *stream = lane->stream;
    int more = streams_refill(&m->streams, stream, error);
    for (uint32_t i = stream->batch_at; i < stream->batch_end; i++)
        map64_prefetch(&m->heap.addresses, stream->batch[i].address);
    for (uint32_t i = stream->batch_at; i < stream->batch_end; i++)
        if (stream->batch[i].op == HT_RAW_FREE) heap_model_prefetch(&m->heap, stream->batch[i].address);
    return more;
}

// Runs the first lane until another's turn comes. Returns 0 or -1 with error.
static int run_first(struct merge *m, struct ht_error *error) {
    uint32_t number = m->order[0];
    struct lane *lane = &m->lane[number];
    struct stream *stream = lane->stream;
    uint64_t limit = second_key(m);
    unsigned batches = 0;
    m->woke = false;
    for (;;) {
        if (stream->batch_at == stream->batch_end) {
            // Even a lone stream pauses now and then, for progress to be shown.
            if (batches++ == TURN_BATCHES_MAX) return 0;
            int more = refill(m, lane, error);
            if (more < 0) return -1;
            if (more == 0) {
                pop_lane(m);
                lane->dry = m->streams.growing;
                if (!lane->dry) drop_open_realloc(m, lane);
                return 0;
            }
        }
        const struct ht_raw_record *record = &stream->batch[stream->batch_at];
        lane->key = record->stamp > lane->floor_key ? record->stamp : lane->floor_key;
        if (lane->key > limit) {
            sift_down(m, 0);
            return 0;
        }
        if (m->blocked_count && lane->key > m->lane[m->blocked[0]].wait_stamp + m->wait_window_stamps)
            return force_oldest(m, error);
        if (__builtin_expect(lane->key == record->stamp && apply_common(m, lane, record), 1)) {
            stream->batch_at++;
            continue;
        }
        enum applied how = apply(m, number, record, false);
        if (how == BLOCKED) {
            pop_lane(m);
            return 0;
        }
        if (how != APPLIED) return fail(m, lane, how, error);
        stream->batch_at++;
        m->late_records += record->stamp < lane->floor_key;
        if (m->woke) {
            // Woken lanes are older and now stand first; this one keeps its place in the heap.
            return 0;
        }
    }
}

static int no_memory(const struct merge *m, struct ht_error *error) {
    errno = ENOMEM;
    return ht_error_system(error, m->log->path, "cannot merge");
}

// The clock's rate with 62 significant bits.
static void set_clock(struct merge *m) {
    double ns_per_stamp = ht_raw_ns_per_stamp(m->log), window = (double)WAIT_WINDOW_NS / ns_per_stamp;
    int exponent;
    frexp(ns_per_stamp, &exponent);
    // Slower than one stamp in 2^60 ns, or faster than 2^64 in one: no clock, but a damaged header.
    int bits = exponent > 60 ? 2 : exponent < -64 ? 126 : 62 - exponent;
    m->ns_per_stamp = (uint64_t)fmin(ldexp(ns_per_stamp, bits), 9.2e18);
    m->ns_per_stamp_bits = (unsigned)bits;
    m->first_stamp = m->log->header.first_pair.stamp;
    m->wait_window_stamps = window < 9e18 ? (uint64_t)window : UINT64_C(9000000000000000000);
}

// Everything but the streams.
static int set_up(struct merge *m, struct ht_trace_writer *writer, struct ht_error *error) {
    set_clock(m);
    m->horizon = m->bytes_limit = UINT64_MAX;
    m->samples.writer = writer;
    m->samples.totals = &m->heap.totals;
    return heap_model_init(&m->heap, writer) && map64_init(&m->waiters) ? 0 : no_memory(m, error);
}

bool merge_know_streams(struct merge *m) {
    size_t count = m->streams.count, lanes = count + 1;
    if (m->lane && count == m->lanes) return true;
    struct lane *lane = realloc(m->lane, lanes * sizeof *lane);
    if (lane) m->lane = lane;
    uint32_t *order = realloc(m->order, lanes * sizeof *order);
    if (order) m->order = order;
    uint32_t *blocked = realloc(m->blocked, lanes * sizeof *blocked);
    if (blocked) m->blocked = blocked;
    if (!lane || !order || !blocked) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (i >= m->lanes) m->lane[i] = (struct lane){.thread = NO_THREAD, .dry = true};
        m->lane[i].stream = &m->streams.stream[i];
    }
    m->lanes = (uint32_t)count;
    return true;
}

void merge_wet(struct merge *m, uint32_t number) {
    struct lane *lane = &m->lane[number];
    uint64_t key = lane->stream->first_stamp;
    assert(lane->dry);
    lane->dry = false;
    // All that is stamped before the horizon was merged without it.
    if (m->streams.growing && m->horizon) lane->floor_key = m->horizon + 1;
    lane->key = key > lane->floor_key ? key : lane->floor_key;
    push_lane(m, number);
}

// The streams of a log that is complete.
static int find_streams(struct merge *m, const struct fork_point *fork, struct ht_error *error) {
    if (streams_open(&m->streams, m->log, error)) return -1;
    if (fork && streams_cut_at_fork(&m->streams, fork, m->wait_window_stamps, error)) return -1;
    if (!merge_know_streams(m)) return no_memory(m, error);
    for (uint32_t i = 0; i < m->lanes; i++)
        if (m->lane[i].stream->windows) merge_wet(m, i);
    return 0;
}

// What was live at the start belongs to the thread that begins: in a forked child there is no other.
int merge_inherit(struct merge *m, const struct live_blocks *inherited, struct ht_error *error) {
    if (!inherited || !inherited->count || !m->order_count) return 0;
    struct lane *lane = &m->lane[m->order[0]];
    if (know_thread(m, lane, m->first_stamp) && live_blocks_give(inherited, &m->heap, lane->thread)) return 0;
    return no_memory(m, error);
}

// Is there something to do before the horizon? Then does a piece of it. Returns 1, 0 if there is nothing, or
// -1 with error.
static int run_some(struct merge *m, struct ht_error *error) {
    if (m->order_count && m->lane[m->order[0]].key <= m->horizon) return run_first(m, error) ? -1 : 1;
    if (!m->blocked_count) return 0;
    // Whatever comes next of a growing log is stamped later than the horizon.
    bool waited_enough = m->lane[m->blocked[0]].wait_stamp + m->wait_window_stamps <= m->horizon;
    if (m->streams.growing && !waited_enough) return 0;
    return force_oldest(m, error) ? -1 : 1;
}

int merge_run(struct merge *m, const struct merge_progress *progress, struct ht_error *error) {
    int more = 1;
    while (more > 0) {
        more = run_some(m, error);
        if (progress->call && m->streams.bytes_read - m->bytes_told >= PROGRESS_BYTES) {
            m->bytes_told = m->streams.bytes_read;
            progress->call(progress->context, m->bytes_told, m->streams.bytes_total,
                           m->heap.writer ? ht_trace_next_event(m->heap.writer) : m->heap.unwritten_events);
        }
        if (m->streams.bytes_read >= m->bytes_limit) return 0;
        // A full disk is told at the end; there is no point in reading on until then.
        if (m->heap.writer && ht_trace_failed(m->heap.writer)) return 0;
        if (m->failed) return -1;
    }
    return more;
}

void merge_end(struct merge *m) {
    heap_model_free(&m->heap);
    map64_free(&m->waiters);
    streams_close(&m->streams);
    free(m->lane);
    free(m->order);
    free(m->blocked);
    free(m);
}

static void give_up(struct merge *m) {
    free(m->heap.threads);
    merge_end(m);
}

// A merge that knows no streams yet. NULL with error.
static struct merge *new_merge(const struct ht_raw_log *log, struct ht_trace_writer *writer,
                               struct ht_error *error) {
    struct merge *m = calloc(1, sizeof *m);
    if (!m) {
        errno = ENOMEM;
        ht_error_system(error, log->path, "cannot merge");
        return NULL;
    }
    m->log = log;
    if (!set_up(m, writer, error)) return m;
    give_up(m);
    return NULL;
}

struct merge *merge_begin_growing(const struct ht_raw_log *log, struct ht_trace_writer *writer,
                                  struct ht_error *error) {
    struct merge *m = new_merge(log, writer, error);
    if (!m) return NULL;
    m->streams.log = log;
    m->streams.growing = true;
    m->horizon = 0;
    return m;
}

uint64_t merge_position(const struct merge *m) {
    uint64_t position = m->horizon;
    if (m->order_count && m->lane[m->order[0]].key <= position) {
        uint64_t key = m->lane[m->order[0]].key;
        position = key ? key - 1 : 0;
    }
    if (m->blocked_count && m->lane[m->blocked[0]].wait_stamp <= position) {
        uint64_t stamp = m->lane[m->blocked[0]].wait_stamp;
        position = stamp ? stamp - 1 : 0;
    }
    return position;
}

// Gives the blocks whose reallocs are under way their addresses, or takes them again.
static bool name_open_reallocs(struct merge *m, bool named) {
    for (uint32_t i = 0; i < m->lanes; i++) {
        const struct open_realloc *open = &m->lane[i].realloc;
        if (!open->open || !open->slot) continue;
        size_t place = heap_model_find(&m->heap, open->address);
        uint32_t slot = heap_model_slot_at(&m->heap, place);
        if (named && !slot && !map64_put(&m->heap.addresses, open->address, open->slot)) return false;
        if (!named && slot == open->slot) heap_model_forget_at(&m->heap, place);
    }
    return true;
}

bool merge_live_blocks(struct merge *m, struct live_blocks *blocks) {
    bool taken = name_open_reallocs(m, true) && live_blocks_take(blocks, &m->heap);
    name_open_reallocs(m, false);
    return taken;
}

void merge_stop_growing(struct merge *m) {
    for (uint32_t i = 0; i < m->lanes; i++)
        if (m->lane[i].dry) merge_wet(m, i);
    m->streams.growing = false;
    m->horizon = UINT64_MAX;
}

// Runs the whole merge. Returns it for its results, or NULL with error.
static struct merge *merge(const struct ht_raw_log *log, const struct live_blocks *inherited,
                           struct ht_trace_writer *writer, const struct fork_point *fork,
                           const struct merge_observer *observer, const struct merge_progress *progress,
                           struct ht_error *error) {
    struct merge *m = new_merge(log, writer, error);
    if (!m) return NULL;
    m->observer = observer;
    if (!find_streams(m, fork, error) && !merge_inherit(m, inherited, error) &&
        !merge_run(m, progress, error))
        return m;
    give_up(m);
    return NULL;
}

void merge_results(struct merge *m, struct merge_result *result) {
    sample_line_end(&m->samples);
    heap_model_fill_totals(&m->heap);
    result->totals = m->heap.totals;
    result->threads = m->heap.threads;
}

int merge_log(const struct ht_raw_log *log, const struct live_blocks *inherited,
              struct ht_trace_writer *writer, struct merge_result *result,
              const struct merge_progress *progress, struct ht_error *error) {
    struct merge *m = merge(log, inherited, writer, NULL, NULL, progress, error);
    if (!m) return -1;
    merge_results(m, result);
    merge_end(m);
    return 0;
}

int merge_to_fork(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct fork_point *fork, struct live_blocks *live,
                  const struct merge_progress *progress, struct ht_error *error) {
    struct merge *m = merge(log, inherited, NULL, fork, NULL, progress, error);
    if (!m) return -1;
    int status = live_blocks_take(live, &m->heap) ? 0 : no_memory(m, error);
    give_up(m);
    return status;
}

int merge_observe(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct merge_observer *observer, const struct merge_progress *progress,
                  struct ht_error *error) {
    struct merge *m = merge(log, inherited, NULL, NULL, observer, progress, error);
    if (!m) return -1;
    give_up(m);
    return 0;
}
