// SPDX-License-Identifier: Apache-2.0
#include "trace_slice.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control_calls.h"
#include "heap_model.h"
#include "left_out_blocks.h"
#include "sample_line.h"
#include "site_table.h"
#include "slot_table.h"
#include "sorted.h"
#include "trace_json.h"

enum { NO_THREAD = UINT32_MAX };

// What a slot of the old trace holds.
struct old_block {
    uint64_t birth_event, bytes, born_ns;
    uint32_t site, maker;  // maker: the old number of the thread that made the object
    bool live, kept;
    bool left_out;  // with all calls on it
};

struct old_thread {
    uint64_t calls;       // seen so far, before the slice too
    uint32_t new_number;  // NO_THREAD: no event in the slice yet
};

struct slicing {
    const char *path;
    struct ht_trace_reader *reader;
    struct trace_range *range;
    const struct left_out_blocks *left_out;
    struct live_births live;  // where left_out asks what is live
    struct ht_trace_facts facts;
    struct ht_site_table sites;
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // of struct old_block
    struct old_thread *threads;
    uint32_t *old_number;    // of each new thread
    struct heap_model heap;  // its addresses are the old slots
    struct ht_trace_writer *writer;
    struct ht_control_settings settings;  // in force before the slice
    bool begun, has_inherited, over, over_by_event;
    bool drops_expected;  // the old trace is a slice by threads
    uint64_t first_event, end_event, inherits_event, base_ns, last_ns;
    uint64_t filled_until_ns;  // of a prelude: where the slice begins
    uint64_t end_ns;           // of the old trace; then the slice's, in the old trace's time
};

static int no_memory(const struct slicing *s, struct ht_error *error) {
    return ht_error_memory(error, s->path, "cannot slice");
}

static struct old_block *block_at(const struct slicing *s, uint32_t slot) {
    return (struct old_block *)s->blocks.items + slot;
}

// ---- residency: the rows of the old trace under the births' new numbers ----

static const struct ht_residency *residency_of(const struct slicing *s, uint64_t birth) {
    const struct ht_residency *rows = s->facts.residency;
    size_t row = HT_FIRST_FROM(rows, s->facts.residency_count, event, birth);
    return row < s->facts.residency_count && rows[row].event == birth ? &rows[row] : NULL;
}

static void put_step(struct slicing *s, uint64_t birth, uint64_t time_ns, struct ht_residency_step step) {
    step.event = birth;
    step.time_ns = time_ns;
    ht_trace_put_residency_step(s->writer, &step);
}

// The rows of what was seen at one time; returns the row behind them.
static size_t put_seen(struct slicing *s, size_t row, uint64_t birth, uint64_t time_ns) {
    const struct ht_residency_step *steps = s->facts.steps, *first = &steps[row];
    for (; row < s->facts.steps_count && steps[row].event == first->event &&
           steps[row].time_ns == first->time_ns && steps[row].pages == first->pages;
         row++)
        put_step(s, birth, time_ns, steps[row]);
    return row;
}

static bool is_step_of(const struct slicing *s, size_t row, uint64_t birth) {
    return row < s->facts.steps_count && s->facts.steps[row].event == birth;
}

// The first of the pages that were seen in runs, whose rows begin at that one.
static void put_first_seen(struct slicing *s, size_t row, uint64_t birth, uint64_t pages, uint64_t at_ns) {
    struct ht_residency_step step = s->facts.steps[row];
    uint64_t time_ns = step.time_ns, seen_pages = step.pages, left = pages;
    for (; left && is_step_of(s, row, step.event); row++) {
        step = s->facts.steps[row];
        if (step.time_ns != time_ns || step.pages != seen_pages) break;
        if (step.run_pages > left) step.run_pages = left;
        left -= step.run_pages;
        step.pages = pages;
        put_step(s, birth, at_ns, step);
    }
}

// How many pages a block had at this moment between two samples: it is taken to have been filled as the program took CPU
// time, as a replay fills it; at once, where it took none.
static uint64_t pages_between(const struct slicing *s, const struct ht_residency_step *before,
                              const struct ht_residency_step *after, uint64_t at_ns) {
    double share = (double)(at_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
    if (s->facts.samples_count) {
        double begun_ns = ht_trace_cpu_ns_at(&s->facts, before->time_ns);
        double busy_ns = ht_trace_cpu_ns_at(&s->facts, after->time_ns) - begun_ns;
        share = busy_ns > 0 ? (ht_trace_cpu_ns_at(&s->facts, at_ns) - begun_ns) / busy_ns : 1;
    }
    return (uint64_t)((double)before->pages + ((double)after->pages - (double)before->pages) * share);
}

// What an inherited block has when the slice begins is there from its start: between two samples its share of them, if no
// runs were seen before; else it has what was seen last. seen: the first row of that, next: the row behind it.
static void put_inherited(struct slicing *s, const struct ht_residency_step *before, size_t seen, size_t next,
                          uint64_t new_birth) {
    struct ht_residency_step step = *before;
    if (before->run_pages) {
        put_seen(s, seen, new_birth, 0);
    } else if (is_step_of(s, next, before->event)) {
        const struct ht_residency_step *after = &s->facts.steps[next];
        step.pages = pages_between(s, before, after, s->base_ns);
        if (!after->run_pages || !step.pages) put_step(s, new_birth, 0, step);
        else put_first_seen(s, next, new_birth, step.pages, 0);
    } else if (before->pages) {
        put_step(s, new_birth, 0, step);
    }
}

// What a block has where a prelude ends; what it has later is the slice's.
static void put_last(struct slicing *s, struct ht_residency_step before, size_t next, uint64_t new_birth) {
    const struct ht_residency_step *after = &s->facts.steps[next];
    uint64_t at_ns = s->filled_until_ns - s->base_ns;
    if (before.run_pages) return;
    before.pages = pages_between(s, &before, after, s->filled_until_ns);
    if (!after->run_pages || !before.pages) put_step(s, new_birth, at_ns, before);
    else put_first_seen(s, next, new_birth, before.pages, at_ns);
}

// born_ns: when the block of `before` was born.
static void copy_steps(struct slicing *s, struct ht_residency_step before, uint64_t new_birth,
                       uint64_t born_ns) {
    const struct ht_residency_step *steps = s->facts.steps;
    size_t seen = HT_FIRST_FROM(steps, s->facts.steps_count, event, before.event), next = seen;
    for (; is_step_of(s, next, before.event) && steps[next].time_ns < s->base_ns; next++) {
        if (steps[next].time_ns != steps[seen].time_ns || steps[next].pages != steps[seen].pages) seen = next;
        before = steps[next];
    }
    // What was seen at the very time at which the slice begins says all by itself.
    bool seen_then = is_step_of(s, next, before.event) && steps[next].time_ns == s->base_ns;
    if (before.time_ns < s->base_ns && !seen_then) put_inherited(s, &before, seen, next, new_birth);
    before.time_ns = before.time_ns == UINT64_MAX ? born_ns : before.time_ns;
    while (is_step_of(s, next, before.event) && steps[next].time_ns <= s->filled_until_ns) {
        before = steps[next];
        next = put_seen(s, next, new_birth, before.time_ns - s->base_ns);
    }
    if (is_step_of(s, next, before.event)) put_last(s, before, next, new_birth);
}

// inherited: the block was born before the slice.
static void copy_residency(struct slicing *s, uint64_t old_birth, uint64_t new_birth, uint64_t born_ns,
                           bool inherited) {
    const struct ht_residency *row = residency_of(s, old_birth);
    uint64_t pages_before = row ? row->pages_before : 0;
    copy_steps(s,
               (struct ht_residency_step){
                   .event = old_birth, .time_ns = inherited ? born_ns : UINT64_MAX, .pages = pages_before},
               new_birth, born_ns);
    if (!row) return;
    // How much of an inherited block was resident when it was allocated says nothing about the slice.
    ht_trace_put_residency(s->writer,
                           &(struct ht_residency){.event = new_birth,
                                                  .pages_before = inherited ? 0 : pages_before,
                                                  .pages_after = row->pages_after,
                                                  .pages_spared = inherited ? 0 : row->pages_spared});
}

// ---- the beginning ----

struct born {
    uint64_t event;
    uint32_t slot;
};

static int earlier_first(const void *a, const void *b) {
    const struct born *left = a, *right = b;
    return (left->event > right->event) - (left->event < right->event);
}

// The new number of a thread; NO_THREAD for want of memory.
static uint32_t know_thread(struct slicing *s, uint32_t old, uint64_t time_ns) {
    struct old_thread *thread = &s->threads[old];
    if (thread->new_number != NO_THREAD) return thread->new_number;
    const struct ht_thread *facts = &s->facts.threads[old];
    uint32_t number = heap_model_add_thread(&s->heap, facts->tid, time_ns);
    if (number == NO_THREAD) return NO_THREAD;
    memcpy(s->heap.threads[number].name, facts->name, sizeof facts->name);
    s->old_number[number] = old;
    return thread->new_number = number;
}

// Which thread made each of the blocks, by its new number.
static bool know_makers(struct slicing *s, const struct born *born, struct live_blocks *live) {
    for (size_t i = 0; i < live->count; i++) {
        uint32_t known = s->heap.threads_count;
        live->thread[i] = know_thread(s, block_at(s, born[i].slot)->maker, 0);
        if (live->thread[i] == NO_THREAD) return false;
        if (s->heap.threads_count > known) s->heap.threads[known].first_event = i;
    }
    return true;
}

// Lets the slice begin with the blocks that are live now, each as an event of the thread that made it.
static bool inherit(struct slicing *s) {
    size_t count = 0;
    for (uint64_t slot = 1; (slot = slot_table_next(&s->blocks, slot)) < s->blocks.room; slot++) {
        const struct old_block *block = block_at(s, (uint32_t)slot);
        count += block->live && block->kept;
    }
    struct born *born = malloc((count + 1) * sizeof *born);
    struct live_blocks live = {.block = malloc((count + 1) * sizeof *live.block),
                               .site = malloc((count + 1) * sizeof *live.site),
                               .thread = malloc((count + 1) * sizeof *live.thread),
                               .count = count};
    bool made = born && live.block && live.site && live.thread;
    size_t at = 0;
    for (uint64_t slot = 1; made && (slot = slot_table_next(&s->blocks, slot)) < s->blocks.room; slot++) {
        const struct old_block *block = block_at(s, (uint32_t)slot);
        if (block->live && block->kept) born[at++] = (struct born){block->birth_event, (uint32_t)slot};
    }
    if (made && count) qsort(born, count, sizeof *born, earlier_first);
    for (size_t i = 0; made && i < count; i++) {
        const struct old_block *block = block_at(s, born[i].slot);
        live.block[i] = (struct live_block){born[i].slot, block->bytes};
        live.site[i] = block->site;
    }
    made = made && know_makers(s, born, &live) && live_blocks_give(&live, &s->heap, 0);
    for (size_t i = 0; made && i < count; i++)
        if (live.block[i].bytes >= HT_LARGE_BLOCK_BYTES)
            copy_residency(s, born[i].event, i, block_at(s, born[i].slot)->born_ns, true);
    free(born);
    live_blocks_free(&live);
    return made;
}

static void begin(struct slicing *s, uint64_t event, uint64_t time_ns) {
    s->begun = true;
    s->first_event = event;
    uint64_t unit = ht_trace_time_unit_ns(s->reader);
    s->base_ns = s->range->from_ns / unit * unit;
    if (s->range->from_event && s->range->from_event == event) s->base_ns = time_ns;
}

// The new number of a kept thread in the slice; NO_THREAD for want of memory. The first one brings what is live.
static uint32_t enter_thread(struct slicing *s, uint32_t old, uint64_t time_ns) {
    bool first = !s->has_inherited;
    if (first && !inherit(s)) return NO_THREAD;
    if (first) s->inherits_event = s->end_event;
    s->has_inherited = true;
    uint32_t number = know_thread(s, old, time_ns);
    if (first && number != NO_THREAD) heap_model_put_settings(&s->heap, &s->settings, number);
    return number;
}

// ---- one event ----

struct old_event {
    uint64_t number, time_ns, size, extra, bytes;
    uint32_t slot;
    uint8_t op;
    uint32_t thread, site;
};

static bool make(struct slicing *s, const struct old_event *event, uint32_t thread, uint8_t op,
                 uint64_t time_ns) {
    uint64_t number = ht_trace_next_event(s->writer);
    uint32_t slot = heap_model_make(&s->heap, event->slot, event->bytes, thread);
    if (!slot) return false;
    if (event->bytes >= HT_LARGE_BLOCK_BYTES) copy_residency(s, event->number, number, event->time_ns, false);
    heap_model_event(&s->heap, op, thread, time_ns, slot, event->size, event->extra);
    return true;
}

static void end(struct slicing *s, const struct old_event *event, uint32_t thread, uint8_t op,
                uint64_t time_ns) {
    size_t place = heap_model_find(&s->heap, event->slot);
    uint32_t slot = heap_model_slot_at(&s->heap, place);
    assert(slot);
    heap_model_event(&s->heap, op, thread, time_ns, slot, event->size, event->extra);
    heap_model_drop_birth(&s->heap, slot);
    heap_model_forget_at(&s->heap, place);
    heap_model_end(&s->heap, slot, thread);
}

static bool resize(struct slicing *s, const struct old_event *event, uint32_t thread, uint64_t time_ns) {
    uint64_t number = ht_trace_next_event(s->writer);
    uint32_t slot = heap_model_slot_at(&s->heap, heap_model_find(&s->heap, event->slot));
    assert(slot);
    heap_model_drop_birth(&s->heap, slot);
    if (!heap_model_place(&s->heap, event->slot, slot, event->bytes)) return false;
    if (event->bytes >= HT_LARGE_BLOCK_BYTES) copy_residency(s, event->number, number, event->time_ns, false);
    heap_model_event(&s->heap, event->op, thread, time_ns, slot, event->size, event->extra);
    return true;
}

// A kept thread's event. in_slice: the block that it names is in the slice. False for want of memory.
static bool emit(struct slicing *s, const struct old_event *event, uint32_t thread, bool in_slice,
                 uint64_t time_ns) {
    const struct ht_op_shape shape = s->shape[event->op];
    enum ht_function function = (enum ht_function)ht_op_function(event->op);
    s->heap.totals.anomalies += function == HT_DROP && !s->drops_expected;
    if (shape.makes_object) {
        s->heap.totals.foreign_frees += ht_op_variant(event->op) == HT_FOREIGN;
        return make(s, event, thread, event->op, time_ns);
    }
    if (shape.query) {
        uint32_t slot = in_slice ? heap_model_slot_at(&s->heap, heap_model_find(&s->heap, event->slot)) : 0;
        if (slot) heap_model_event(&s->heap, event->op, thread, time_ns, slot, event->size, event->extra);
        else s->heap.totals.foreign_queries += !shape.control;
        return true;
    }
    if (shape.slot && in_slice) {
        if (!shape.ends_object) return resize(s, event, thread, time_ns);
        end(s, event, thread, event->op, time_ns);
        return true;
    }
    if (!shape.slot) {
        s->heap.totals.foreign_frees += ht_op_variant(event->op) == HT_FOREIGN;
        heap_model_event(&s->heap, event->op, thread, time_ns, 0, event->size, event->extra);
        return true;
    }
    // The block is not in the slice: the same as one from before the recording.
    bool released = ht_op_variant(event->op) == HT_RELEASED;
    s->heap.totals.foreign_frees += !released;
    if (!shape.ends_object) return make(s, event, thread, ht_op(function, HT_FOREIGN), time_ns);
    uint8_t op = ht_op(function, released ? HT_FAILED : HT_FOREIGN);
    heap_model_event(&s->heap, op, thread, time_ns, 0, event->size, event->extra);
    return true;
}

// A left-out thread has taken a block of the slice's away.
static void drop(struct slicing *s, const struct old_event *event, uint64_t time_ns) {
    // Before the first kept event nothing has been inherited yet: then there is nothing to drop.
    if (!s->has_inherited) return;
    uint32_t slot = heap_model_slot_at(&s->heap, heap_model_find(&s->heap, event->slot));
    assert(slot);
    end(s, event, s->heap.slots.state[slot].owner, ht_op(HT_DROP, HT_PLAIN), time_ns);
}

// Checks the block that the event names. Returns what is wrong with the event, or NULL.
static const char *check_block(const struct slicing *s, const struct old_event *event, bool *in_slice) {
    const struct ht_op_shape shape = s->shape[event->op];
    *in_slice = false;
    if (event->thread >= s->facts.threads_count)
        return ht_found("expected a thread that the threads section has", event->thread);
    if (event->time_ns < s->last_ns) return ht_found("expected times in order", event->time_ns);
    if (!shape.slot) return NULL;
    const struct old_block *block = block_at(s, event->slot);
    if (shape.makes_object == block->live)
        return ht_found(block->live ? "expected an allocation into a free slot"
                                    : "expected a slot with a live object",
                        event->slot);
    *in_slice = block->live && block->kept;
    return NULL;
}

// Keeps the old trace's blocks up to date.
static void follow(struct slicing *s, const struct old_event *event, bool kept) {
    const struct ht_op_shape shape = s->shape[event->op];
    s->threads[event->thread].calls += ht_op_is_call(event->op);
    s->last_ns = event->time_ns;
    s->end_event = event->number + 1;
    if (shape.control && !shape.slot && !s->has_inherited) {
        const struct ht_control_call call = ht_control_of(event->size, event->extra);
        ht_control_settings_note(&s->settings, &call);
    }
    if (!shape.slot || shape.query) return;
    // A block that a kept thread resizes, and that was none of the slice's, is made by it.
    const struct old_block *before = block_at(s, event->slot);
    uint32_t maker = shape.makes_object || !before->kept ? event->thread : before->maker;
    *block_at(s, event->slot) = (struct old_block){.birth_event = event->number,
                                                   .bytes = event->bytes,
                                                   .born_ns = event->time_ns,
                                                   .site = event->site,
                                                   .maker = maker,
                                                   .live = !shape.ends_object,
                                                   .kept = kept};
}

// A block that is left out, and every call on it, is as if it had never been. Calls without a block, such as those that
// failed, are with those that --only does not name.
static bool leaves_out(struct slicing *s, const struct old_event *event) {
    const struct ht_op_shape shape = s->shape[event->op];
    if (!shape.slot) return s->left_out->only && !shape.control;
    if (!shape.makes_object) return block_at(s, event->slot)->left_out;
    return left_out_blocks_have(s->left_out, event->bytes, event->thread, event->time_ns,
                                live_births_have(&s->live, event->number));
}

static void leave_out(struct slicing *s, const struct old_event *event) {
    follow(s, event, false);
    if (s->shape[event->op].slot) block_at(s, event->slot)->left_out = !s->shape[event->op].ends_object;
}

static int bad_event(const struct slicing *s, size_t section, const struct old_event *event,
                     const char *expected, struct ht_error *error) {
    return ht_error_input(error, s->path, ht_trace_section(s->reader, section)->offset,
                          "event %" PRIu64 ": %s", event->number, expected);
}

// One of the slice's own: by a kept thread, or the end of a kept thread's block. False for want of memory.
static bool take_inside(struct slicing *s, const struct old_event *event, bool kept, bool in_slice) {
    if (!s->begun) begin(s, event->number, event->time_ns);
    uint64_t time_ns = event->time_ns - s->base_ns;
    bool nothing = ht_op_function(event->op) == HT_DROP && !in_slice;
    uint32_t thread = NO_THREAD;
    if (kept && !nothing && (thread = enter_thread(s, event->thread, time_ns)) == NO_THREAD) return false;
    follow(s, event, kept);
    s->heap.site = kept ? event->site : 0;
    if (kept && !nothing) return emit(s, event, thread, in_slice, time_ns);
    if (!kept && in_slice && !s->shape[event->op].query) drop(s, event, time_ns);
    return true;
}

static int take_event(struct slicing *s, size_t section, const struct old_event *event,
                      struct ht_error *error) {
    bool kept = trace_range_wants(s->range, event->thread), in_slice;
    const char *wrong = check_block(s, event, &in_slice);
    if (wrong) return bad_event(s, section, event, wrong, error);
    // Time begins with the first event of the range, even if that is left out.
    if (!s->begun && ht_op_function(event->op) != HT_INHERIT &&
        trace_range_begun(s->range, event->number, event->time_ns))
        begin(s, event->number, event->time_ns);
    if (leaves_out(s, event)) {
        leave_out(s, event);
        return 0;
    }
    // What the old trace inherited, the slice inherits, wherever it begins.
    if (ht_op_function(event->op) == HT_INHERIT ||
        !trace_range_begun(s->range, event->number, event->time_ns)) {
        follow(s, event, kept);
        return 0;
    }
    if (!take_inside(s, event, kept, in_slice)) return no_memory(s, error);
    const struct old_thread *thread = &s->threads[event->thread];
    const struct ht_thread *facts = &s->facts.threads[event->thread];
    if (facts->ended && thread->calls == facts->calls && thread->new_number != NO_THREAD)
        slots_thread_ended(&s->heap.slots, thread->new_number);
    return 0;
}

// ---- the pass ----

static int take_section(struct slicing *s, size_t i, struct ht_error *error) {
    struct ht_events events;
    if (ht_trace_events(s->reader, i, &events, error)) return -1;
    if (!slot_table_reach(&s->blocks, events.slot, events.rows)) return no_memory(s, error);
    for (uint32_t row = 0; row < events.rows; row++) {
        struct old_event event = {.number = events.first_event + row,
                                  .time_ns = events.time_ns[row],
                                  .size = events.size[row],
                                  .extra = events.extra[row],
                                  .bytes = events.size[row],
                                  .slot = events.slot[row],
                                  .op = events.op[row],
                                  .thread = events.thread[row],
                                  .site = events.site ? events.site[row] : 0};
        if (event.site > s->sites.sites_count) event.site = 0;
        if (trace_range_over(s->range, event.number, event.time_ns)) {
            s->over = true;
            s->over_by_event = event.number >= s->range->to_event;
            return 0;
        }
        unsigned function = ht_op_function(event.op);
        if (function == HT_CALLOC || function == HT_REALLOCARRAY) event.bytes *= event.extra;
        if (take_event(s, i, &event, error)) return -1;
    }
    return 0;
}

// A slice by time ends when it was asked to, however long before that its last call is; at the latest with the trace.
static void find_end(struct slicing *s) {
    if (s->over) s->end_ns = s->over_by_event ? s->last_ns : s->range->to_ns;
    if (s->end_ns > s->range->to_ns) s->end_ns = s->range->to_ns;
    if (s->end_ns < s->last_ns) s->end_ns = s->last_ns;
    uint64_t *duration_ns = &s->heap.totals.duration_ns;
    if (s->end_ns - s->base_ns > *duration_ns) *duration_ns = s->end_ns - s->base_ns;
}

static int pass(struct slicing *s, const struct slice_progress *progress, struct ht_error *error) {
    uint64_t total = ht_trace_records(s->reader), done = 0;
    for (size_t i = 0; i < ht_trace_sections(s->reader) && !s->over; i++) {
        if (ht_trace_section(s->reader, i)->kind != HT_SECTION_EVENTS) continue;
        s->over = trace_range_section_over(s->range, s->reader, i);
        s->over_by_event = s->over && ht_trace_section(s->reader, i)->first_event >= s->range->to_event;
        if (s->over || ht_trace_failed(s->writer)) break;
        if (take_section(s, i, error)) return -1;
        done += ht_trace_section(s->reader, i)->rows;
        if (progress->call) progress->call(progress->context, done, total);
    }
    return 0;
}

static void put_sample(struct slicing *s, struct ht_sample sample, uint64_t base_cpu) {
    uint64_t first = s->heap.totals.inherited_objects + s->settings.count;
    uint64_t last = first + s->end_event - s->first_event;
    sample.event = sample.event > s->first_event ? first + sample.event - s->first_event : first;
    if (sample.event > last) sample.event = last;
    sample.time_ns -= s->base_ns;
    sample.cpu_ns -= sample.cpu_ns < base_cpu ? sample.cpu_ns : base_cpu;
    sample_line_count(&s->heap.totals, &sample);
    ht_trace_put_sample(s->writer, &sample);
}

// What the process held between two samples is what it held at the first of them.
static struct ht_sample moved_to(struct ht_sample sample, uint64_t time_ns, uint64_t event, uint64_t cpu_ns) {
    sample.time_ns = time_ns;
    sample.event = event;
    sample.cpu_ns = cpu_ns;
    sample.own_fresh = 0;
    return sample;
}

// Those of the slice, which begins and ends with one. What the process as a whole was measured to take says nothing about
// some of its threads or blocks.
static void copy_samples(struct slicing *s) {
    struct merge_totals *totals = &s->heap.totals;
    if (s->range->threads || s->left_out->given) return;
    totals->began_late = true;
    uint64_t base_cpu = (uint64_t)ht_trace_cpu_ns_at(&s->facts, s->base_ns);
    uint64_t end_cpu = (uint64_t)ht_trace_cpu_ns_at(&s->facts, s->end_ns);
    const struct ht_sample *last = NULL;
    for (size_t i = 0; i < s->facts.samples_count; i++) {
        const struct ht_sample *sample = &s->facts.samples[i];
        bool before = sample->event < s->first_event || sample->time_ns < s->base_ns;
        if (!before && s->over && (sample->event > s->end_event || sample->time_ns >= s->end_ns)) break;
        if (!before && last && (last->event < s->first_event || last->time_ns < s->base_ns) &&
            sample->time_ns > s->base_ns)
            put_sample(s, moved_to(*last, s->base_ns, s->first_event, base_cpu), base_cpu);
        if (!before) put_sample(s, *sample, base_cpu);
        last = sample;
    }
    bool begun = last && last->event >= s->first_event && last->time_ns >= s->base_ns;
    if (last && !begun) put_sample(s, moved_to(*last, s->base_ns, s->first_event, base_cpu), base_cpu);
    if (last && s->over && (!begun || last->time_ns < s->end_ns))
        put_sample(s, moved_to(*last, s->end_ns, s->end_event, end_cpu), base_cpu);
    if (end_cpu > base_cpu && end_cpu - base_cpu > totals->cpu_ns) totals->cpu_ns = end_cpu - base_cpu;
}

static void end_threads(struct slicing *s) {
    for (uint32_t i = 0; i < s->heap.threads_count; i++) {
        const struct ht_thread *old = &s->facts.threads[s->old_number[i]];
        struct ht_thread *thread = &s->heap.threads[i];
        if (!old->ended || s->threads[s->old_number[i]].calls != old->calls) continue;
        if (s->over && old->end_ns > s->end_ns) continue;
        thread->ended = true;
        if (old->end_ns > s->base_ns && old->end_ns - s->base_ns > thread->end_ns)
            thread->end_ns = old->end_ns - s->base_ns;
    }
}

// The slice's table has the sites that its events name.
static void put_sites(struct slicing *s) {
    const struct site_collector *collected = &s->heap.sites;
    struct ht_site *used = calloc(collected->used_count + 1, sizeof *used);
    if (collected->used_count && used) {
        for (size_t i = 0; i < collected->used_count; i++) used[i] = s->sites.sites[collected->used[i] - 1];
        free(s->sites.sites);
        s->sites.sites = used;
        s->sites.sites_count = s->sites.sites_room = collected->used_count;
        ht_trace_put_site_table(s->writer, &s->sites);
    } else {
        free(used);
    }
}

static void fill_result(struct slicing *s, struct slice_result *result) {
    *result = (struct slice_result){.totals = s->heap.totals,
                                    .threads = s->heap.threads,
                                    .old_number = s->old_number,
                                    .first_event = s->first_event,
                                    .end_event = s->end_event,
                                    .inherits_event = s->inherits_event,
                                    .base_ns = s->base_ns,
                                    .whole_end = !s->over};
    s->heap.threads = NULL;
    s->old_number = NULL;
}

static int find_old_end(struct slicing *s, struct ht_error *error) {
    json_t *totals = trace_json_read_totals(s->reader, error);
    if (!totals) return -1;
    json_int_t ns = json_integer_value(json_object_get(totals, "duration_ns"));
    s->end_ns = ns > 0 ? (uint64_t)ns : 0;
    json_decref(totals);
    return 0;
}

static int set_up(struct slicing *s, struct ht_error *error) {
    for (unsigned op = 0; op < 256; op++) s->shape[op] = ht_op_shape((uint8_t)op);
    s->blocks = slot_table_of(sizeof(struct old_block));
    if (trace_json_drops_expected(s->reader, &s->drops_expected, error)) return -1;
    if (ht_trace_facts(s->reader, &s->facts, error)) return -1;
    if (ht_trace_site_table(s->reader, &s->sites, error)) return -1;
    if (find_old_end(s, error)) return -1;
    size_t threads = s->facts.threads_count;
    if (trace_range_know_threads(s->range, (uint32_t)threads, s->path, error)) return -1;
    if (s->left_out->given && !s->left_out->any_thread && s->left_out->thread >= threads)
        return trace_range_no_thread(s->left_out->thread, (uint32_t)threads, s->path, error);
    s->threads = malloc((threads + 1) * sizeof *s->threads);
    s->old_number = malloc((threads + 1) * sizeof *s->old_number);
    if (!s->threads || !s->old_number || !heap_model_init(&s->heap, s->writer)) return no_memory(s, error);
    for (size_t i = 0; i < threads; i++) s->threads[i] = (struct old_thread){.new_number = NO_THREAD};
    return 0;
}

int trace_slice(struct ht_trace_reader *reader, const struct slice_request *request,
                struct ht_trace_writer *writer, struct slice_result *result, struct ht_error *error) {
    const struct left_out_blocks *left_out = request->left_out;
    struct slicing s = {.path = request->path,
                        .reader = reader,
                        .range = request->range,
                        .left_out = left_out,
                        .writer = writer};
    int status = set_up(&s, error);
    if (request->of_prelude) s.sites.sites_count = 0;
    s.filled_until_ns = request->of_prelude ? request->prelude_end_ns : UINT64_MAX;
    if (!status && left_out->only_live)
        status = live_births_find(&s.live, reader, s.path, left_out->live_at_ns, error);
    if (!status) status = pass(&s, &request->progress, error);
    heap_model_fill_totals(&s.heap);
    if (!status && s.heap.sites.no_memory) status = no_memory(&s, error);
    if (!status) {
        find_end(&s);
        put_sites(&s);
        copy_samples(&s);
        end_threads(&s);
        fill_result(&s, result);
    }
    free(s.heap.threads);
    heap_model_free(&s.heap);
    slot_table_free(&s.blocks);
    live_births_free(&s.live);
    free(s.threads);
    free(s.old_number);
    ht_trace_facts_free(&s.facts);
    ht_site_table_free(&s.sites);
    return status;
}

void slice_result_free(struct slice_result *result) {
    free(result->threads);
    free(result->old_number);
}
