// SPDX-License-Identifier: Apache-2.0
#include "merge.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "merge_order.h"
#include "merge_records.h"
#include "raw_state.h"

enum { TURN_BATCHES_MAX = 2048, PROGRESS_BYTES = 1 << 18 };

// How far two stamps may be in the wrong order. The counter is read too early by the time that a load of a contended cache
// line takes, a microsecond or so (overtaken_frees.h); an interrupt between the two discards what was read. So far ahead a
// record is looked for that another one lacks, so long that one waits, and so long after another thread's free of the address
// a free may have been overtaken by it.
static const uint64_t WAIT_LIMIT_NS = 20000;
// What is stamped that long after a fork was called after it.
static const uint64_t FORK_SLACK_NS = 1000000;
// No longer than what the busiest cache line takes. How long a realloc waits that was overtaken, or is stamped too early
// itself, because all that its thread did next waits with it. And each wait once a foreign block has been seen: in a recording
// that began late, what seems to be the allocation of such a block is the next use of its address.
static const uint64_t EARLY_LIMIT_NS = 2000;

static int no_memory(const struct merge *m, struct ht_error *error) {
    return ht_error_memory(error, m->log->path, "cannot merge");
}

// The record means nothing, because it is damaged or what belongs to it is.
static void pass_record(struct merge *m, const struct input *input, enum merge_applied how) {
    struct ht_raw_damage *damage = &m->streams.damage;
    struct ht_error error;
    uint64_t offset = input->stream->buffer_offset;
    if (how == BAD_ORDER)
        ht_error_input(&error, m->log->path, offset, "expected a realloc's two records one after the other");
    else
        ht_error_input(&error, m->log->path, offset,
                       "expected records of modules and call sites within the format's limits");
    damage->lost_calls += how == BAD_ORDER;
    // This is no new place where something was lost before.
    if (!damage->places) ht_raw_note_damage(damage, m->log, &error);
}

static bool is_passed(enum merge_applied how) { return how == BAD_ORDER || how == BAD_SITE; }

// Nobody else will deliver what the input waits for: its record is taken as it is.
static int force_input(struct merge *m, uint32_t number, struct ht_error *error) {
    struct input *input = &m->input[number];
    uint64_t address = input->wait_address;
    // Take the input out of its address's list; the others stay.
    size_t i = map64_find(&m->waiters, address);
    uint32_t first = (uint32_t)m->waiters.entry[i].value, previous = 0;
    for (uint32_t at = first; at != number + 1; at = m->input[at - 1].next_waiter) previous = at;
    if (previous) m->input[previous - 1].next_waiter = input->next_waiter;
    else if (input->next_waiter) m->waiters.entry[i].value = input->next_waiter;
    else map64_remove_at(&m->waiters, i);
    merge_unblock_input(m, number);
    enum merge_applied how = merge_apply(m, number, &input->stream->batch[input->stream->batch_at], true);
    if (is_passed(how)) pass_record(m, input, how);
    else if (how != APPLIED) return ht_error_memory(error, m->log->path, "cannot follow the heap");
    input->stream->batch_at++;
    merge_push_input(m, number);
    return 0;
}

// The input that has waited the longest of those whose wait is over at that stamp; as many as there are inputs: none.
static uint32_t over_waited(const struct merge *m, uint64_t stamp) {
    for (uint32_t i = 0; i < m->blocked_count; i++)
        if (stamp >= m->input[m->blocked[i]].wait_until_stamp) return m->blocked[i];
    return m->inputs;
}

static bool is_overtaken_due(const struct merge *m, uint64_t stamp) {
    return m->overtaken.count && stamp >= m->overtaken.kept[0].record.stamp + m->wait_limit_stamps;
}

static int force_overtaken(struct merge *m, struct ht_error *error) {
    return merge_force_overtaken(m) == APPLIED ? 0 : no_memory(m, error);
}

// The input's next batch. Returns 1, 0 at its end, -1 with error. Addresses are fetched ahead of their use.
static int refill(struct merge *m, struct input *input, struct ht_error *error) {
    struct stream *stream = input->stream;
    int more = streams_refill(&m->streams, stream, error);
    if (stream->broken) {
        merge_drop_open_realloc(m, input);
        stream->broken = false;
    }
    for (uint32_t i = stream->batch_at; i < stream->batch_end; i++)
        map64_prefetch(&m->heap.addresses, stream->batch[i].address);
    for (uint32_t i = stream->batch_at; i < stream->batch_end; i++)
        if (stream->batch[i].op == HT_RAW_FREE) heap_model_prefetch(&m->heap, stream->batch[i].address);
    return more;
}

// Runs the first input until another's turn comes. Returns 0 or -1 with error.
static int run_first(struct merge *m, struct ht_error *error) {
    uint32_t number = m->order[0];
    struct input *input = &m->input[number];
    struct stream *stream = input->stream;
    uint64_t limit = merge_second_key(m);
    unsigned batches = 0;
    m->woke = false;
    for (;;) {
        if (stream->batch_at == stream->batch_end) {
            // Even a lone stream pauses now and then, for progress to be shown.
            if (batches++ == TURN_BATCHES_MAX) return 0;
            int more = refill(m, input, error);
            if (more < 0) return -1;
            if (more == 0) {
                merge_pop_input(m);
                input->idle = m->streams.growing;
                if (!input->idle) merge_drop_open_realloc(m, input);
                return 0;
            }
        }
        const struct ht_raw_record *record = &stream->batch[stream->batch_at];
        input->key = record->stamp > input->floor_key ? record->stamp : input->floor_key;
        if (input->key > limit) {
            merge_sift_first(m);
            return 0;
        }
        if (__builtin_expect(m->blocked_count != 0, 0)) {
            uint32_t late = over_waited(m, input->key);
            if (late < m->inputs) return force_input(m, late, error);
        }
        if (__builtin_expect(is_overtaken_due(m, input->key), 0)) return force_overtaken(m, error);
        if (__builtin_expect(input->key == record->stamp && merge_apply_common(m, input, record), 1)) {
            stream->batch_at++;
            continue;
        }
        enum merge_applied how = merge_apply(m, number, record, false);
        if (how == BLOCKED) {
            merge_pop_input(m);
            return 0;
        }
        if (how == HELD) {
            m->held = true;
            return 0;
        }
        if (is_passed(how)) pass_record(m, input, how);
        else if (how != APPLIED && how != KEPT)
            return ht_error_memory(error, m->log->path, "cannot follow the heap");
        stream->batch_at++;
        m->late_records += record->stamp < input->floor_key;
        if (m->woke) {
            // Woken inputs are older and now stand first; this one keeps its place in the heap.
            return 0;
        }
    }
}

// The clock's rate with 62 significant bits.
static void set_clock(struct merge *m) {
    double ns_per_stamp = ht_raw_ns_per_stamp(m->log), slack = (double)FORK_SLACK_NS / ns_per_stamp;
    int exponent;
    frexp(ns_per_stamp, &exponent);
    // Slower than one stamp in 2^60 ns, or faster than 2^64 in one: no clock, but a damaged header.
    int bits = exponent > 60 ? 2 : exponent < -64 ? 126 : 62 - exponent;
    m->ns_per_stamp = (uint64_t)fmin(ldexp(ns_per_stamp, bits), 9.2e18);
    m->ns_per_stamp_bits = (unsigned)bits;
    m->first_stamp = m->log->header.first_pair.stamp;
    m->fork_slack_stamps = slack < 9e18 ? (uint64_t)slack : UINT64_C(9000000000000000000);
    m->early_limit_stamps = m->fork_slack_stamps / (FORK_SLACK_NS / EARLY_LIMIT_NS);
    m->wait_limit_stamps = m->fork_slack_stamps / (FORK_SLACK_NS / WAIT_LIMIT_NS);
}

// Everything but the streams.
static int set_up(struct merge *m, struct ht_trace_writer *writer, struct ht_error *error) {
    set_clock(m);
    m->horizon = m->bytes_limit = UINT64_MAX;
    m->samples.writer = writer;
    m->samples.totals = &m->heap.totals;
    m->samples.has_tables = sample_line_has_tables(m->log);
    if (!heap_model_init(&m->heap, writer) || !map64_init(&m->waiters)) return no_memory(m, error);
    m->heap.holds_addresses = writer != NULL;
    m->heap.totals.began_late = m->log->header.sequence != 0;
    return 0;
}

bool merge_know_streams(struct merge *m) {
    size_t count = m->streams.count, inputs = count + 1;
    if (m->input && count == m->inputs) return true;
    struct input *input = realloc(m->input, inputs * sizeof *input);
    if (input) m->input = input;
    uint32_t *order = realloc(m->order, inputs * sizeof *order);
    if (order) m->order = order;
    uint32_t *blocked = realloc(m->blocked, inputs * sizeof *blocked);
    if (blocked) m->blocked = blocked;
    if (!input || !order || !blocked) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (i >= m->inputs) m->input[i] = (struct input){.thread = NO_THREAD, .idle = true};
        m->input[i].stream = &m->streams.stream[i];
    }
    m->inputs = (uint32_t)count;
    return true;
}

void merge_ready(struct merge *m, uint32_t number) {
    struct input *input = &m->input[number];
    uint64_t key = input->stream->first_stamp;
    assert(input->idle);
    input->idle = false;
    // All that is stamped before the horizon was merged without it.
    if (m->streams.growing && m->horizon) input->floor_key = m->horizon + 1;
    input->key = key > input->floor_key ? key : input->floor_key;
    merge_push_input(m, number);
}

// The streams of a log that is complete.
static int find_streams(struct merge *m, const struct fork_point *fork, struct ht_error *error) {
    if (streams_open(&m->streams, m->log, error)) return -1;
    if (fork && streams_cut_at_fork(&m->streams, fork, m->fork_slack_stamps, error)) return -1;
    if (!merge_know_streams(m)) return no_memory(m, error);
    for (uint32_t i = 0; i < m->inputs; i++)
        if (m->input[i].stream->chunks) merge_ready(m, i);
    return 0;
}

// What was live at the start belongs to the thread that begins: in a forked child there is no other.
int merge_inherit(struct merge *m, const struct live_blocks *inherited, struct ht_error *error) {
    if (!inherited || (!inherited->count && !inherited->settings.count) || !m->order_count) return 0;
    struct input *input = &m->input[m->order[0]];
    if (merge_know_thread(m, input, m->first_stamp) && live_blocks_give(inherited, &m->heap, input->thread))
        return 0;
    return no_memory(m, error);
}

// Is there something to do before the horizon? Then does a piece of it. Returns 1, 0 if there is nothing, or
// -1 with error.
static int run_some(struct merge *m, struct ht_error *error) {
    m->held = false;
    if (m->order_count && m->input[m->order[0]].key <= m->horizon) return run_first(m, error) ? -1 : !m->held;
    // Whatever comes next of a growing log is stamped later than the horizon.
    uint32_t late = over_waited(m, m->horizon);
    if (late < m->inputs) return force_input(m, late, error) ? -1 : 1;
    if (is_overtaken_due(m, m->horizon)) return force_overtaken(m, error) ? -1 : 1;
    return 0;
}

int merge_run(struct merge *m, const struct merge_progress *progress, struct ht_error *error) {
    int more = 1;
    while (more > 0) {
        more = run_some(m, error);
        if (progress->call && m->streams.bytes_read - m->bytes_reported >= PROGRESS_BYTES) {
            m->bytes_reported = m->streams.bytes_read;
            progress->call(progress->context, m->bytes_reported, m->streams.bytes_total,
                           m->heap.writer ? ht_trace_next_event(m->heap.writer) : m->heap.unwritten_events);
        }
        if (m->streams.bytes_read >= m->bytes_limit) return 0;
        // A full disk is reported at the end; there is no point in reading on until then.
        if (m->heap.writer && ht_trace_failed(m->heap.writer)) return 0;
        if (m->failed) return -1;
        if (m->heap.no_memory) return no_memory(m, error);
    }
    return more;
}

void merge_end(struct merge *m) {
    heap_model_free(&m->heap);
    map64_free(&m->waiters);
    streams_close(&m->streams);
    free(m->input);
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
        ht_error_memory(error, log->path, "cannot merge");
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
    m->streams.tick_stamps = ht_raw_tick_stamps(log);
    m->horizon = 0;
    return m;
}

uint64_t merge_position(const struct merge *m) {
    uint64_t position = m->horizon;
    if (m->order_count && m->input[m->order[0]].key <= position) {
        uint64_t key = m->input[m->order[0]].key;
        position = key ? key - 1 : 0;
    }
    if (m->blocked_count && m->input[m->blocked[0]].wait_stamp <= position) {
        uint64_t stamp = m->input[m->blocked[0]].wait_stamp;
        position = stamp ? stamp - 1 : 0;
    }
    return position;
}

enum { PLACES_MAX = 8 };  // no block begins so few bytes behind another

// Gives the block whose realloc is under way its address, or the next one, where another block lies there by now; or takes it
// again. False for want of memory.
static bool name_open_realloc(struct heap_model *heap, const struct open_realloc *open, bool named) {
    for (uint64_t address = open->address; address < open->address + PLACES_MAX; address++) {
        size_t place = heap_model_find(heap, address);
        uint32_t slot = heap_model_slot_at(heap, place);
        if (named && !slot) return map64_put(&heap->addresses, address, open->slot);
        if (!named && slot == open->slot) {
            heap_model_forget_at(heap, place);
            break;
        }
    }
    return true;
}

static bool name_open_reallocs(struct merge *m, bool named) {
    for (uint32_t i = 0; i < m->inputs; i++) {
        const struct open_realloc *open = &m->input[i].realloc;
        if (open->open && open->slot && !name_open_realloc(&m->heap, open, named)) return false;
    }
    return true;
}

bool merge_live_blocks(struct merge *m, struct live_blocks *blocks) {
    bool taken = name_open_reallocs(m, true) && live_blocks_take(blocks, &m->heap);
    name_open_reallocs(m, false);
    return taken;
}

void merge_stop_growing(struct merge *m) {
    for (uint32_t i = 0; i < m->inputs; i++)
        if (m->input[i].idle) merge_ready(m, i);
    m->streams.growing = false;
    m->horizon = UINT64_MAX;
}

struct merge *merge_begin(const struct ht_raw_log *log, struct ht_trace_writer *writer,
                          struct ht_error *error) {
    struct merge *m = new_merge(log, writer, error);
    if (!m || !find_streams(m, NULL, error)) return m;
    give_up(m);
    return NULL;
}

// Runs the whole merge. Returns it for its results, or NULL with error.
static struct merge *merge(const struct ht_raw_log *log, const struct live_blocks *inherited,
                           struct ht_trace_writer *writer, const struct fork_point *fork,
                           const struct merge_observer *observer, const struct merge_progress *progress,
                           struct ht_error *error) {
    struct merge *m = new_merge(log, writer, error);
    if (!m) return NULL;
    m->observer = observer;
    bool done = !find_streams(m, fork, error) && !merge_inherit(m, inherited, error) &&
                !merge_run(m, progress, error);
    // Holes read as chunks that were never begun, or as damage: only now is it known whether any was
    // read.
    if (!consumed_log_check(log, error) && done) return m;
    give_up(m);
    return NULL;
}

void merge_results(struct merge *m, struct merge_result *result) {
    sample_line_end(&m->samples);
    heap_model_fill_totals(&m->heap);
    m->heap.totals.damage = streams_damage(&m->streams, true);
    result->totals = m->heap.totals;
    result->threads = m->heap.threads;
    result->no_sites = !site_collector_table(&m->heap.sites, &result->sites);
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
                  const struct fork_point *fork, struct live_blocks *live, struct ht_raw_damage *damage,
                  const struct merge_progress *progress, struct ht_error *error) {
    struct merge *m = merge(log, inherited, NULL, fork, NULL, progress, error);
    if (!m) return -1;
    int status = live_blocks_take(live, &m->heap) ? 0 : no_memory(m, error);
    *damage = streams_damage(&m->streams, false);
    give_up(m);
    return status;
}

int merge_observe(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct merge_observer *observer, struct ht_raw_damage *damage,
                  const struct merge_progress *progress, struct ht_error *error) {
    struct merge *m = merge(log, inherited, NULL, NULL, observer, progress, error);
    if (!m) return -1;
    *damage = streams_damage(&m->streams, true);
    give_up(m);
    return 0;
}
