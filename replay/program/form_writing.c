// SPDX-License-Identifier: Apache-2.0
// The second pass: the streams, and the marks in them where the timed pass and the memory pass stop.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control_calls.h"
#include "form_births.h"
#include "form_blocks.h"
#include "form_operation.h"
#include "form_recorded.h"
#include "form_segments.h"
#include "form_state.h"
#include "form_touching.h"

enum {
    SAMPLES_LEAST = 10000,
    SAMPLE_STEP_BYTES_MIN = 4096,
    READINGS_MAX = 1 << 20,
    PAUSE_STEP_NS_MIN = 10000000,
    STEERED_SAMPLES_MAX = 2000
};

struct writing {
    struct ht_form_state *form;
    struct ht_touching touching;
    struct ht_births births;
    struct ht_similar similar;
    struct ht_live_blocks live;
    uint64_t step_above_bytes, sample_every;
    uint32_t timed_one_in;
    size_t points_room, reading_points_room;
    struct ht_random random;
    uint64_t pause_step_ns, time_ns;  // how far apart RSS is read in pauses; about where the trace is
    uint32_t pause_points, steered;
    struct ht_recorded_marks recorded;
    // Events from which on something besides the op is due: the next op to be timed, RSS to be read; and the
    // earliest of these and of a birth of which the trace knows more.
    uint64_t timed_event, sample_event, stop_event;
    // Of a group's process: the stops that have been written, and when the next is due.
    uint32_t stops_written;
    uint64_t group_event, group_ns;
};

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void set_stop(struct writing *writing) {
    uint64_t stop = writing->timed_event;
    if (writing->sample_event < stop) stop = writing->sample_event;
    stop = earlier(stop, ht_recorded_event(&writing->recorded));
    if (writing->births.next_event < stop) stop = writing->births.next_event;
    writing->stop_event = earlier(stop, writing->group_event);
}

static uint64_t timed_distance(struct writing *writing) {
    return 1 + ht_random_below(&writing->random, 2 * writing->timed_one_in - 1);
}

// About one op in timed_one_in, at random distances so that no pattern of the program is always hit.
static int mark_timed(struct writing *writing, struct ht_stream_state *stream, const struct ht_operation *op,
                      uint64_t bytes, uint64_t event) {
    struct ht_built_form *built = writing->form->built;
    if (event < writing->timed_event || op->function >= HT_CALLS_END) return 0;
    writing->timed_event = event + timed_distance(writing);
    uint32_t number = built->form->readings;
    if (ht_form_grow(writing->form, &built->reading_points, &writing->reading_points_room, (size_t)number + 1,
                     sizeof *built->reading_points)) {
        return -1;
    }
    const uint64_t most = (1ull << 56) - 1;
    built->reading_points[number] = (struct ht_reading_point){.bytes = (bytes < most ? bytes : most) & most,
                                                              .function = (uint8_t)op->function};
    built->form->readings++;
    ht_stream_put(stream, ht_word_mark(HT_MARK_TIMED, number));
    return 0;
}

static void step_above(struct writing *writing) {
    uint64_t step = writing->live.bytes / 1000;
    if (step < SAMPLE_STEP_BYTES_MIN) step = SAMPLE_STEP_BYTES_MIN;
    writing->step_above_bytes = writing->live.bytes + step;
}

// The first fork that is still to come counts, too, if meetings stand before it: they are due with it at the latest.
static void await_group_stop(struct writing *writing) {
    const struct ht_form_options *options = writing->form->options;
    writing->group_event = writing->group_ns = UINT64_MAX;
    for (uint32_t i = writing->stops_written; i < options->stops_count; i++) {
        const struct ht_form_stop *stop = &options->stops[i];
        if (stop->event == HT_STOP_BY_TIME) {
            writing->group_ns = earlier(writing->group_ns, stop->time_ns);
        } else {
            writing->group_event = stop->event;
            break;
        }
    }
}

static uint32_t stops_due(const struct writing *writing, uint64_t event, uint64_t time_ns) {
    const struct ht_form_options *options = writing->form->options;
    uint32_t due = writing->stops_written;
    if (event < writing->group_event && time_ns < writing->group_ns) return due;
    for (uint32_t i = due; i < options->stops_count; i++) {
        const struct ht_form_stop *stop = &options->stops[i];
        if (stop->event == HT_STOP_BY_TIME ? time_ns >= stop->time_ns : event >= stop->event) due = i + 1;
        else if (stop->event != HT_STOP_BY_TIME) break;
    }
    return due;
}

// The stops before this event, each in a turn of its own.
static int mark_group_stops(struct writing *writing, uint32_t number, uint64_t event, uint64_t time_ns) {
    struct ht_form_state *form = writing->form;
    const struct ht_form_options *options = form->options;
    uint32_t due = stops_due(writing, event, time_ns);
    while (writing->stops_written < due) {
        const struct ht_form_stop *stop = &options->stops[writing->stops_written];
        uint32_t by =
            stop->thread < form->streams_count && form->streams[stop->thread].events ? stop->thread : number;
        uint64_t at_ns = stop->time_ns < time_ns ? stop->time_ns : time_ns;
        if (ht_touching_until(&writing->touching, at_ns) || ht_form_make_room(form, by)) return -1;
        ht_stream_put_turn(form, by, at_ns);
        ht_stream_put(&form->streams[by], ht_word_mark(HT_MARK_SAMPLE, writing->stops_written++));
    }
    await_group_stop(writing);
    return ht_form_make_room(form, number);
}

// RSS is to be read when the stream has come to where it ends now.
static int put_sample(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                      uint64_t time_ns) {
    struct ht_form_state *form = writing->form;
    struct ht_built_form *built = form->built;
    if (form->options->of_group) return 0;
    uint32_t number = built->form->samples++;
    if (ht_form_grow(form, &built->points, &writing->points_room, (size_t)number + 1,
                     sizeof *built->points)) {
        return -1;
    }
    built->points[number] =
        (struct ht_sample_point){time_ns, event / form->copies, writing->live.bytes, built->form->readings};
    ht_stream_put(stream, ht_word_mark(HT_MARK_SAMPLE, number));
    return 0;
}

// RSS is read at every new maximum of live bytes (in steps of 0.1 %) and every so many events.
static int mark_sample(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                       uint64_t time_ns) {
    bool higher = writing->live.bytes > writing->step_above_bytes;
    if (!higher && event < writing->sample_event) return 0;
    if (higher) step_above(writing);
    if (event >= writing->sample_event) {
        uint64_t next = (event / writing->sample_every + 1) * writing->sample_every;
        writing->sample_event = earlier(next, writing->form->last_event);
    }
    return put_sample(writing, stream, event, time_ns);
}

// RSS is read between two events, too. In a pause nothing is called, but an allocator's background thread may
// give memory back, and the program may fill its blocks. And where the recorder took a sample before the event of
// the second number.
static int mark_between(struct writing *writing, uint32_t number, uint64_t event, uint64_t before_event,
                        uint64_t until_ns) {
    struct ht_stream_state *stream = &writing->form->streams[number];
    uint64_t from_ns = writing->time_ns, pause_ns = from_ns + writing->pause_step_ns;
    if (until_ns > writing->time_ns) writing->time_ns = until_ns;
    while (stream->begun) {
        bool pauses = pause_ns < until_ns && writing->pause_points < HT_PAUSE_POINTS_MAX;
        uint64_t at_ns = ht_recorded_ns(&writing->recorded, before_event, from_ns, writing->time_ns);
        if (!pauses && at_ns == UINT64_MAX) break;
        if (pauses && pause_ns < at_ns) {
            at_ns = pause_ns;
            writing->pause_points++;
            pause_ns += writing->pause_step_ns;
            if (at_ns < stream->given_ns) continue;
        } else {
            ht_recorded_pass(&writing->recorded);
            if (at_ns < stream->given_ns) at_ns = stream->given_ns;
        }
        if (ht_touching_until(&writing->touching, at_ns)) return -1;
        writing->form->at_ns = at_ns;
        stream->given_ns = at_ns;
        ht_stream_put(stream, ht_word_time(at_ns));
        if (put_sample(writing, stream, event, at_ns) || ht_form_make_room(writing->form, number)) return -1;
    }
    if (ht_touching_until(&writing->touching, until_ns)) return -1;
    if (until_ns > writing->form->at_ns) writing->form->at_ns = until_ns;
    return 0;
}

// What is left of the trace behind its last call, unless the thread that made it has ended.
static int mark_end(struct writing *writing, uint32_t number, uint64_t event) {
    const struct ht_form_state *form = writing->form;
    bool known = !form->options->one_thread && number < form->facts.threads_count;
    if (event != form->last_event || (known && form->facts.threads[number].ended)) return 0;
    uint64_t end_ns = form->options->end_ns;
    bool fills = writing->touching.due_ns <= end_ns;
    if (mark_between(writing, number, event, form->events, end_ns)) return -1;
    return fills ? put_sample(writing, &form->streams[number], event, end_ns) : 0;
}

// The trace's last event is not replayed: its thread, the only one, yet comes to its time and then to the end.
static int mark_skipped_end(struct writing *writing, uint32_t number, uint64_t event, uint64_t time_ns) {
    struct ht_form_state *form = writing->form;
    struct ht_stream_state *stream = &form->streams[number];
    if (event != form->last_event || !stream->begun) return 0;
    if (mark_between(writing, number, event, event, time_ns)) return -1;
    if (form->options->in_order) ht_stream_put_turn(form, number, time_ns);
    else ht_stream_put_time(stream, time_ns);
    return mark_sample(writing, stream, event, time_ns) || mark_end(writing, number, event) ? -1 : 0;
}

static void wait_for_slot(struct ht_stream_state *stream, struct ht_slot_state *state, uint32_t thread,
                          uint32_t slot) {
    if (state->last_thread != HT_NOBODY && state->last_thread != thread) {
        ht_stream_put(stream, ht_word_order(slot, state->dependencies & HT_DEPENDENCY_NUMBER, 0));
    }
    state->last_thread = thread;
}

static bool skipped(const struct ht_form_state *form, uint8_t op) {
    if (ht_form_replays(form, op)) return false;
    if (ht_op_variant(op) == HT_FAILED) form->built->failed_skipped++;
    else form->built->foreign_skipped++;
    return true;
}

// A drop, which stands for a free that was not seen, is replayed but was no call.
static void count_call(struct ht_built_form *built, unsigned function) {
    if (function >= HT_CALLS_END) return;
    built->calls[function]++;
    built->calls_total++;
}

static inline bool hands_over(const struct ht_form_state *form, uint64_t event) {
    return form->publishing && form->publishing[event / 64] >> event % 64 & 1;
}

// How much of a new block is touched at once: all that ever is, or, where the trace knows how it was filled,
// what was resident then. What another thread gets may be gone by the time of a later portion.
static bool is_filled_later(const struct writing *writing, const struct ht_birth *birth,
                            const struct ht_operation *op, bool private, bool inherited, uint64_t time_ns,
                            uint64_t *pages) {
    *pages = birth->pages_after;
    if (birth->steps == birth->steps_end) return false;
    if (*pages == HT_PAGES_BY_RULE) *pages = writing->form->facts.steps[birth->steps_end - 1].pages;
    if (!private || op->bytes < HT_BLOCK_LARGE_BYTES) return false;
    *pages = ht_touching_at_once(&writing->touching, birth, time_ns, inherited);
    return true;
}

static void fill_as_similar(const struct ht_similar *similar, struct ht_operation *op) {
    op->pages = earlier(op->pages, ht_similar_pages(similar, op));
}

// What an allocator may obey in replay; HT_STEERS: nothing that one does.
static enum ht_steer steer_of(const struct ht_control_call *call) {
    if (!ht_control_changes(call)) return HT_STEERS;
    static const enum ht_steer steers[HT_CTL_NUMBERS] = {
        [HT_CTL_MALLOPT] = HT_STEER_MALLOPT,
        [HT_CTL_TRIM] = HT_STEER_TRIM,
        [HT_CTL_MI_COLLECT] = HT_STEER_MI_COLLECT,
        [HT_CTL_RELEASE_FREE_MEMORY] = HT_STEER_RELEASE_FREE_MEMORY,
        [HT_CTL_RELEASE_TO_SYSTEM] = HT_STEER_RELEASE_TO_SYSTEM,
        [HT_CTL_ARENA_PURGE] = HT_STEER_ARENA_PURGE,
        [HT_CTL_ARENA_DECAY] = HT_STEER_ARENA_DECAY,
        [HT_CTL_ARENA_DIRTY_DECAY] = HT_STEER_ARENA_DIRTY_DECAY,
        [HT_CTL_ARENA_MUZZY_DECAY] = HT_STEER_ARENA_MUZZY_DECAY,
        [HT_CTL_DIRTY_DECAY] = HT_STEER_DIRTY_DECAY,
        [HT_CTL_MUZZY_DECAY] = HT_STEER_MUZZY_DECAY,
        [HT_CTL_BACKGROUND_THREAD] = HT_STEER_BACKGROUND_THREAD,
        [HT_CTL_TCACHE_FLUSH] = HT_STEER_TCACHE_FLUSH};
    return steers[call->number];
}

// A call by which the program controls its allocator, and what RSS is after it.
static int write_control(struct writing *writing, const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    uint32_t thread = ht_form_stream_of(form, events->thread[i]);
    struct ht_stream_state *stream = &form->streams[thread];
    const struct ht_control_call call = ht_control_of_event(events->op[i], events->size[i], events->extra[i]);
    enum ht_steer steer = steer_of(&call);
    if (mark_between(writing, thread, event, event, time_ns)) return -1;
    if (form->options->in_order) ht_stream_put_turn(form, thread, time_ns);
    else ht_stream_put_time(stream, time_ns);
    if (event % form->copies == 0) ht_control_counts_add(&form->built->controls, &call, 1);
    if (steer != HT_STEERS) {
        ht_stream_put(stream, ht_word(HT_WORD_WIDE, 0, HT_WIDE_STEER));
        ht_stream_put(stream, steer);
        ht_stream_put(stream, (uint64_t)call.first);
        ht_stream_put(stream, (uint64_t)call.second);
        if (writing->steered++ < STEERED_SAMPLES_MAX && put_sample(writing, stream, event, time_ns))
            return -1;
    }
    return mark_sample(writing, stream, event, time_ns) || mark_end(writing, thread, event) ? -1 : 0;
}

static bool gives_back(uint64_t advice) { return advice == MADV_DONTNEED || advice == MADV_FREE; }

// madvise of bytes of a block, and what RSS is after it.
static int write_advice(struct writing *writing, const struct ht_section_place *place,
                        const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    uint32_t thread = ht_form_stream_of(form, events->thread[i]), number = events->slot[i];
    struct ht_stream_state *stream = &form->streams[thread];
    struct ht_slot_state *slot = &form->slots[number];
    uint64_t offset = ht_advice_offset(events->extra[i]), bytes = events->size[i];
    const struct ht_control_call call = ht_control_of_event(events->op[i], events->size[i], events->extra[i]);
    if (mark_between(writing, thread, event, event, time_ns)) return -1;
    if (slot->bytes == HT_NOT_LIVE)
        return ht_form_bad_event(form, place, event, ht_found("expected a slot with a live object", number));
    // What another thread gets may be gone by the time of a later portion.
    if (hands_over(form, event) && ht_touching_end(&writing->touching, number)) return -1;
    if (offset > slot->bytes) offset = slot->bytes;
    if (bytes > slot->bytes - offset) bytes = slot->bytes - offset;
    if (form->options->in_order) ht_stream_put_turn(form, thread, time_ns);
    else ht_stream_put_time(stream, time_ns);
    wait_for_slot(stream, slot, thread, number);
    if (event % form->copies == 0) ht_control_counts_add(&form->built->controls, &call, 1);
    ht_stream_put(stream, ht_word(HT_WORD_WIDE, number, HT_WIDE_ADVISE));
    ht_stream_put(stream, bytes);
    ht_stream_put(stream, offset);
    ht_stream_put(stream, (uint64_t)call.first);
    if (hands_over(form, event))
        ht_stream_put(stream, ht_word_order(number, ++slot->dependencies & HT_DEPENDENCY_NUMBER, 1));
    if (gives_back((uint64_t)call.first))
        ht_live_give_back(&writing->live, number, bytes / HT_TOUCH_PAGE_BYTES);
    else if (call.first == HT_ADVICE_WRITTEN)
        ht_live_touch(&writing->live, number, bytes / HT_TOUCH_PAGE_BYTES);
    if (writing->steered++ < STEERED_SAMPLES_MAX && put_sample(writing, stream, event, time_ns)) return -1;
    return mark_sample(writing, stream, event, time_ns) || mark_end(writing, thread, event) ? -1 : 0;
}

static int write_event(struct writing *writing, const struct ht_section_place *place,
                       const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    const struct ht_op_shape *shape = &form->shape[events->op[i]];
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    uint32_t thread = ht_form_stream_of(form, events->thread[i]);
    struct ht_stream_state *stream = &form->streams[thread];
    if (skipped(form, events->op[i])) return mark_skipped_end(writing, thread, event, time_ns);
    if (shape->control && shape->slot) return write_advice(writing, place, events, i);
    if (shape->control) return write_control(writing, events, i);
    if (mark_between(writing, thread, event, event, time_ns)) return -1;
    struct ht_slot_state *slot = shape->slot ? &form->slots[events->slot[i]] : NULL;
    struct ht_operation op = ht_operation_of(events, i, slot ? slot->bytes : 0);
    struct ht_birth birth = {0};
    bool filled_later = false;
    if (!op.frees && !shape->query) {
        birth = ht_births_of(&writing->births, event);
        ht_birth_leave_spared(&birth, &op);
        filled_later =
            is_filled_later(writing, &birth, &op, !hands_over(form, event), false, time_ns, &op.pages);
        if (ht_similar_is_known(&birth, &op)) ht_similar_learn(&writing->similar, &op, birth.pages_after);
        else if (birth.steps == birth.steps_end) fill_as_similar(&writing->similar, &op);
    }
    if (slot && !shape->query && ht_touching_end(&writing->touching, op.slot)) return -1;
    if (ht_live_make_room(&writing->live, &op)) return -1;
    if (!shape->query && ht_live_know(&writing->live, &op, &birth)) return -1;
    uint64_t former_bytes = slot && slot->bytes != HT_NOT_LIVE ? slot->bytes : 0;
    const char *expected = slot ? ht_live_follow(&writing->live, &op, shape) : NULL;
    if (expected) return ht_form_bad_event(form, place, event, expected);
    if (form->options->in_order) ht_stream_put_turn(form, thread, time_ns);
    else ht_stream_put_time(stream, time_ns);
    if (slot) wait_for_slot(stream, slot, thread, op.slot);
    if (mark_timed(writing, stream, &op, op.frees || shape->query ? former_bytes : op.bytes, event))
        return -1;
    stream->used += (uint32_t)ht_operation_put(&op, ht_stream_words(stream) + stream->used);
    stream->operations++;
    count_call(form->built, op.function);
    if (hands_over(form, event)) {
        ht_stream_put(stream, ht_word_order(op.slot, ++slot->dependencies & HT_DEPENDENCY_NUMBER, 1));
    }
    if (filled_later &&
        ht_touching_begin(&writing->touching, &birth, op.slot, thread, op.bytes, time_ns, op.pages))
        return -1;
    return mark_sample(writing, stream, event, time_ns) || mark_end(writing, thread, event) ? -1 : 0;
}

// An allocation before the threads' streams, in one of its own. Once all are there, RSS is read. What is
// filled later is filled by the only thread, if there is but one.
static int write_inherited(struct writing *writing, const struct ht_section_place *place,
                           const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    if (form->built->inherited_objects != event)
        return ht_form_bad_event(form, place, event, "expected inherited blocks before the first call");
    struct ht_operation op = ht_operation_of(events, i, 0);
    struct ht_stream_state *stream = &form->streams[form->streams_count];
    struct ht_birth birth = ht_births_of(&writing->births, event);
    bool filled_later =
        is_filled_later(writing, &birth, &op, form->streams_count == 1, true, time_ns, &op.pages);
    if (ht_live_make_room(&writing->live, &op)) return -1;
    const char *expected = ht_live_follow(&writing->live, &op, &form->shape[events->op[i]]);
    if (expected) return ht_form_bad_event(form, place, event, expected);
    // After a prelude it is there.
    if (!form->options->before)
        stream->used += (uint32_t)ht_operation_put(&op, ht_stream_words(stream) + stream->used);
    form->built->inherited_objects++;
    if (filled_later &&
        ht_touching_begin(&writing->touching, &birth, op.slot, 0, op.bytes, time_ns, op.pages))
        return -1;
    if (event + 1 < form->inherited) return 0;
    step_above(writing);
    return put_sample(writing, stream, event, time_ns);
}

// What write_common changes with every event, kept in registers.
struct common {
    uint64_t *word;
    uint64_t live_bytes, peak_bytes, step_above_bytes;
    uint8_t *alignment_bits;
    size_t alignment_room;
    uint64_t *calls;  // by function
};

static inline void put_common(struct common *common, uint8_t op, uint64_t word) {
    *common->word++ = word;
    common->calls[op]++;
}

// Of plain calls, whose op is the function's number.
static inline bool is_common_free(uint8_t op) {
    return op == HT_FREE || op == HT_DELETE || op == HT_DELETE_ARRAY;
}
static inline bool is_common_new(uint8_t op) { return op == HT_MALLOC || op == HT_NEW || op == HT_NEW_ARRAY; }

// Writes one malloc, calloc, realloc, free, new, delete or query of a block that is not large. False: it is no such
// call, or one that the long way must judge, and nothing has been done.
static inline bool write_small(struct common *common, struct ht_slot_state *slot, uint8_t op, uint32_t number,
                               uint64_t size, uint64_t count) {
    bool live = slot->bytes != HT_NOT_LIVE;
    bool sized = op == HT_DELETE_SIZED;
    if (is_common_free(op) || sized) {
        if (!live || slot->bytes >= HT_BLOCK_LARGE_BYTES) return false;
        bool aligned = number < common->alignment_room && common->alignment_bits[number];
        if (sized && (aligned || !size || size != slot->bytes)) return false;
        common->live_bytes -= slot->bytes;
        put_common(common, op,
                   ht_word(HT_WORD_FREE, number, ht_arg(ht_free_kind_of(op, sized), slot->bytes)));
        slot->bytes = HT_NOT_LIVE;
        return true;
    }
    if (op == HT_USABLE_SIZE) {
        if (!live) return false;
        common->word += ht_operation_put(
            &(struct ht_operation){.call = HT_WIDE_QUERY, .slot = number, .pages = HT_PAGES_BY_RULE},
            common->word);
        common->calls[op]++;
        return true;
    }
    if (op == HT_CALLOC) {
        if (size > UINT32_MAX || count > UINT32_MAX) return false;
    } else {
        count = 1;
    }
    uint64_t bytes = size * count, live_bytes = common->live_bytes + bytes;
    if (bytes >= HT_BLOCK_LARGE_BYTES || live_bytes > common->step_above_bytes) return false;
    if (is_common_new(op) && !live) {
        put_common(common, op, ht_word(HT_WORD_MALLOC, number, ht_arg(ht_new_kind_of(op), bytes)));
    } else if (op == HT_CALLOC && !live) {
        put_common(common, op, ht_word(HT_WORD_CALLOC, number, (uint32_t)size));
        *common->word++ = count;
    } else if (op == HT_REALLOC && live && bytes && slot->bytes < HT_BLOCK_LARGE_BYTES) {
        live_bytes -= slot->bytes;
        put_common(common, op, ht_word(HT_WORD_REALLOC, number, (uint32_t)bytes));
        *common->word++ = slot->bytes;
    } else {
        return false;
    }
    if (number < common->alignment_room) common->alignment_bits[number] = 0;
    slot->bytes = bytes;
    common->live_bytes = live_bytes;
    if (live_bytes > common->peak_bytes) common->peak_bytes = live_bytes;
    return true;
}

// Writes events from row i on for as long as each is such a call on a slot that no other thread had last,
// with nothing else due: nearly all of a trace. Returns the row that it stopped at.
static uint32_t write_common(struct writing *writing, const struct ht_events *events, uint32_t i) {
    enum { AHEAD = 16 };
    struct ht_form_state *form = writing->form;
    struct ht_built_form *built = form->built;
    uint32_t thread = ht_form_stream_of(form, events->thread[i]);
    struct ht_stream_state *stream = &form->streams[thread];
    if (!stream->segment || (form->options->in_order && thread != form->turn)) return i;
    uint64_t *const limit = ht_stream_words(stream) + stream->room - (HT_EVENT_WORDS_MAX + HT_END_WORDS);
    struct common common = {.word = ht_stream_words(stream) + stream->used,
                            .live_bytes = writing->live.bytes,
                            .peak_bytes = built->live_peak_bytes,
                            .alignment_bits = form->alignment_bits,
                            .alignment_room = form->alignment_room,
                            .step_above_bytes = writing->step_above_bytes,
                            .calls = built->calls};
    const uint32_t first = i;
    if (!stream->begun || writing->stop_event <= events->first_event + i) return i;
    uint64_t until = earlier(writing->stop_event - events->first_event, events->rows);
    // The last call of a thread that has blocks to fill is not for here.
    if (stream->fillings) until = earlier(until, i + (stream->events - stream->fillings - 1));
    uint64_t until_ns = earlier(stream->given_ns + HT_TIME_STEP_NS, writing->touching.due_ns);
    until_ns = earlier(until_ns, writing->group_ns);
    for (uint32_t end = (uint32_t)until; i < end; i++) {
        struct ht_slot_state *slot = &form->slots[events->slot[i]];
        __builtin_prefetch(&form->slots[events->slot[i + AHEAD < end ? i + AHEAD : i]], 1);
        bool others = slot->last_thread != thread && slot->last_thread != HT_NOBODY;
        if (common.word > limit) break;
        if (ht_form_stream_of(form, events->thread[i]) != thread || others ||
            events->time_ns[i] >= until_ns || hands_over(form, events->first_event + i) ||
            !write_small(&common, slot, events->op[i], events->slot[i], events->size[i], events->extra[i])) {
            break;
        }
        slot->last_thread = thread;
    }
    built->calls_total += i - first;
    stream->operations += i - first;
    stream->used = (uint32_t)(common.word - ht_stream_words(stream));
    writing->live.bytes = common.live_bytes;
    built->live_peak_bytes = common.peak_bytes;
    return i;
}

// A thread that ends fills no block any more.
static int end_of_thread(struct writing *writing, uint32_t number) {
    const struct ht_form_state *form = writing->form;
    const struct ht_stream_state *stream = &form->streams[number];
    bool known = !form->options->one_thread && number < form->facts.threads_count;
    if (!stream->fillings || stream->events > stream->fillings + 1) return 0;
    return known && form->facts.threads[number].ended ? ht_touching_end_stream(&writing->touching, number)
                                                      : 0;
}

// The time of the next word to be written: the event's, or that of a portion or of a mark in the pause before
// it. In a streamed form a thread without words learns that all before this time are there.
static uint64_t next_word_ns(const struct writing *writing, const struct ht_stream_state *stream,
                             uint64_t event, uint64_t event_ns) {
    uint64_t step_ns = writing->pause_step_ns, mark_ns = writing->time_ns + step_ns;
    uint64_t next_ns = earlier(writing->touching.due_ns, event_ns);
    if (!stream->begun) return next_ns;
    next_ns = earlier(next_ns, ht_recorded_ns(&writing->recorded, event, writing->time_ns, event_ns));
    if (writing->pause_points == HT_PAUSE_POINTS_MAX) return next_ns;
    if (mark_ns < stream->given_ns) mark_ns += (stream->given_ns - mark_ns + step_ns - 1) / step_ns * step_ns;
    return mark_ns < next_ns ? mark_ns : next_ns;
}

static int write_section(void *context, const struct ht_section_place *place,
                         const struct ht_events *events) {
    struct writing *writing = context;
    struct ht_form_state *form = writing->form;
    if (ht_form_know_slots(form, events, HT_NOT_LIVE)) return -1;
    for (uint32_t i = 0; i < events->rows;) {
        bool inherited = ht_op_function(events->op[i]) == HT_INHERIT;
        uint32_t number = inherited ? form->streams_count : ht_form_stream_of(form, events->thread[i]);
        if (!inherited && number >= form->streams_count)
            return ht_form_bad_event(
                form, place, events->first_event + i,
                ht_found("expected a thread that the threads section lists", events->thread[i]));
        uint32_t next = inherited ? i : write_common(writing, events, i);
        if (next == i) {
            form->at_ns =
                next_word_ns(writing, &form->streams[number], events->first_event + i, events->time_ns[i]);
            if (ht_form_make_room(form, number)) return -1;
            if (!inherited && mark_group_stops(writing, number, events->first_event + i, events->time_ns[i]))
                return -1;
            if ((inherited ? write_inherited : write_event)(writing, place, events, i)) return -1;
            set_stop(writing);
            next = i + 1;
            if (!inherited && end_of_thread(writing, number)) return -1;
        }
        if (ht_form_events_written(form, number, next - i)) return -1;
        i = next;
    }
    return form->sink->tick ? form->sink->tick(form) : 0;
}

static void begin(struct ht_form_state *form) {
    struct ht_built_form *built = form->built;
    struct ht_form *header = built->form;
    *built = (struct ht_built_form){.fd = built->fd,
                                    .form = header,
                                    .pool = built->pool,
                                    .mapped_bytes = built->mapped_bytes,
                                    .state = built->state,
                                    .before = form->options->before};
    header->operations = header->samples = header->readings = 0;
    form->at_ns = form->turn_ns = 0;
    form->turn = HT_NO_STREAM;
    for (uint32_t i = 0; i < form->slots_count; i++) {
        form->slots[i] = (struct ht_slot_state){.bytes = HT_NOT_LIVE, .last_thread = HT_NOBODY};
    }
    if (form->alignment_bits) memset(form->alignment_bits, 0, form->alignment_room);
    if (form->untouched_pages) memset(form->untouched_pages, 0, form->untouched_room * sizeof(uint32_t));
    if (form->zeroed_pages) memset(form->zeroed_pages, 0, form->zeroed_room * sizeof(uint32_t));
    if (form->unmeasured_pages) memset(form->unmeasured_pages, 0, form->unmeasured_room * sizeof(uint32_t));
    for (uint32_t i = 0; i <= form->streams_count; i++) {
        struct ht_stream_state *stream = &form->streams[i];
        free(stream->segment);
        *stream = (struct ht_stream_state){.events_all = stream->events_all, .events = stream->events_all};
    }
}

// Threads of which the trace knows no call have nothing to do.
static int end_idle_streams(struct ht_form_state *form) {
    for (uint32_t i = 0; i <= form->streams_count; i++) {
        if (!form->streams[i].events && ht_form_end_stream(form, i)) return -1;
    }
    return 0;
}

static struct writing new_writing(struct ht_form_state *form) {
    uint64_t one_in = form->options->timed_one_in, samples = form->options->samples;
    if (one_in && form->events / READINGS_MAX > one_in) one_in = form->events / READINGS_MAX;
    struct writing writing = {.form = form,
                              .live = {.form = form},
                              .sample_every =
                                  form->events / (samples > SAMPLES_LEAST ? samples : SAMPLES_LEAST) + 1,
                              .random = {form->options->seed},
                              .timed_one_in = (uint32_t)one_in,
                              .pause_step_ns = form->options->end_ns / HT_PAUSE_POINTS_MAX,
                              .timed_event = UINT64_MAX};
    ht_births_init(&writing.births, form);
    ht_recorded_init(&writing.recorded, form);
    if (writing.timed_one_in) writing.timed_event = timed_distance(&writing) - 1;
    if (writing.pause_step_ns < PAUSE_STEP_NS_MIN) writing.pause_step_ns = PAUSE_STEP_NS_MIN;
    if (form->options->end_ns == 0) writing.pause_points = HT_PAUSE_POINTS_MAX;  // not known: none
    ht_touching_init(&writing.touching, form);
    await_group_stop(&writing);
    set_stop(&writing);
    return writing;
}

int ht_form_write(struct ht_form_state *form) {
    struct writing writing = new_writing(form);
    writing.touching.touched = ht_live_touch;
    writing.touching.context = &writing.live;
    begin(form);
    int failed = end_idle_streams(form) || ht_form_each_section(form, write_section, &writing) ||
                 ht_touching_end_all(&writing.touching, form->options->end_ns);
    ht_touching_free(&writing.touching);
    if (failed) return -1;
    form->built->form->slots =
        form->slots_count ? form->slots_count : 1;  // 0, of free(NULL), is always there
    return 0;
}
