// The second pass: the streams, and the marks in them where the timed pass and the memory pass stop.
#include <stdlib.h>

#include "form_operation.h"
#include "form_state.h"

enum { SAMPLES_PER_TRACE = 10000, SAMPLE_STEP_BYTES_MIN = 4096, PAUSE_STEP_NS_MIN = 10000000 };

struct writing {
    struct ht_form_state *form;
    size_t residency_at;
    uint64_t live_bytes, step_above_bytes, sample_every;
    size_t points_room;
    struct ht_random random;
    uint64_t events;                  // in the whole trace
    uint64_t pause_step_ns, time_ns;  // how far apart RSS is read in pauses; about where the trace is
    uint32_t pause_points, last_thread;
    // Events from which on something besides the op is due: the next op to be timed, RSS to be read, a block
    // whose residency is known; and the earliest of the three.
    uint64_t timed_event, sample_event, residency_event, stop_event;
};

static void put(struct ht_stream_state *stream, uint64_t word) { stream->words[stream->used++] = word; }

static int put_mark(struct ht_form_state *form, struct ht_mark **marks, size_t *count, size_t *room,
                    uint64_t word, uint64_t value) {
    if (ht_form_grow(form, (void **)marks, room, *count + 1, sizeof **marks)) return -1;
    (*marks)[(*count)++] = (struct ht_mark){.word = word, .value = value};
    return 0;
}

// How many pages of the block born by this event the program had resident in the end.
static uint64_t pages_of_birth(struct writing *writing, uint64_t event) {
    const struct ht_trace_facts *facts = &writing->form->facts;
    uint64_t pages = HT_PAGES_BY_RULE;
    if (event < writing->residency_event) return pages;
    while (writing->residency_at < facts->residency_count &&
           facts->residency[writing->residency_at].event <= event) {
        const struct ht_residency *birth = &facts->residency[writing->residency_at++];
        if (birth->event == event) pages = birth->pages_after;
    }
    writing->residency_event = writing->residency_at < facts->residency_count
                                   ? facts->residency[writing->residency_at].event
                                   : UINT64_MAX;
    return pages;
}

static void set_stop(struct writing *writing) {
    uint64_t stop = writing->timed_event;
    if (writing->sample_event < stop) stop = writing->sample_event;
    if (writing->residency_event < stop) stop = writing->residency_event;
    writing->stop_event = stop;
}

static void tell_time(struct ht_stream_state *stream, uint64_t time_ns) {
    if (!stream->begun) {
        stream->begun = true;
        stream->start_ns = time_ns;
    } else if (time_ns - stream->told_ns < HT_TIME_STEP_NS) {
        return;
    }
    stream->told_ns = time_ns;
    put(stream, ht_word_time(time_ns));
}

static uint64_t timed_distance(struct writing *writing) {
    return 1 + ht_random_below(&writing->random, 2 * writing->form->options->timed_one_in - 1);
}

// About one op in timed_one_in, at random distances so that no pattern of the program is always hit.
static int mark_timed(struct writing *writing, struct ht_stream_state *stream, unsigned function,
                      uint64_t event) {
    if (event < writing->timed_event || function >= HT_DROP) return 0;
    writing->timed_event = event + timed_distance(writing);
    return put_mark(writing->form, &stream->timed, &stream->timed_count, &stream->timed_room, stream->used,
                    function);
}

static void step_above(struct writing *writing) {
    uint64_t step = writing->live_bytes / 1000;
    if (step < SAMPLE_STEP_BYTES_MIN) step = SAMPLE_STEP_BYTES_MIN;
    writing->step_above_bytes = writing->live_bytes + step;
}

// RSS is to be read when the stream has come to where it ends now.
static int put_sample(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                      uint64_t time_ns) {
    struct ht_form_state *form = writing->form;
    struct ht_built_form *built = form->built;
    uint32_t number = built->form->samples++;
    if (ht_form_grow(form, (void **)&built->points, &writing->points_room, (size_t)number + 1,
                     sizeof *built->points)) {
        return -1;
    }
    built->points[number] = (struct ht_sample_point){time_ns, event, writing->live_bytes};
    return put_mark(form, &stream->samples, &stream->samples_count, &stream->samples_room, stream->used,
                    number);
}

// RSS is read at every new maximum of live bytes (in steps of 0.1 %) and every so many events.
static int mark_sample(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                       uint64_t time_ns) {
    bool higher = writing->live_bytes > writing->step_above_bytes;
    if (!higher && event < writing->sample_event) return 0;
    if (higher) step_above(writing);
    if (event >= writing->sample_event) {
        uint64_t next = (event / writing->sample_every + 1) * writing->sample_every;
        writing->sample_event = next < writing->events ? next : writing->events - 1;
    }
    return put_sample(writing, stream, event, time_ns);
}

// In a pause nothing is called, but an allocator's background thread may give memory back.
static int mark_pause(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                      uint64_t until_ns) {
    uint64_t at_ns = writing->time_ns + writing->pause_step_ns;
    if (until_ns > writing->time_ns) writing->time_ns = until_ns;
    for (; stream->begun && at_ns < until_ns && writing->pause_points < HT_PAUSE_POINTS_MAX;
         at_ns += writing->pause_step_ns) {
        writing->pause_points++;
        if (at_ns < stream->told_ns) continue;
        stream->told_ns = at_ns;
        put(stream, ht_word_time(at_ns));
        if (put_sample(writing, stream, event, at_ns)) return -1;
    }
    return 0;
}

static void wait_for_slot(struct ht_stream_state *stream, struct ht_slot_state *state, uint32_t thread,
                          uint32_t slot) {
    if (state->last_thread != HT_NOBODY && state->last_thread != thread) {
        put(stream, ht_word(HT_WORD_WAIT, slot, state->handovers & INT32_MAX));
    }
    state->last_thread = thread;
}

// Follows what is live; returns what was expected instead, if the trace can't be replayed.
static const char *follow_slot(struct writing *writing, const struct ht_operation *op,
                               const struct ht_op_shape *shape) {
    struct ht_built_form *built = writing->form->built;
    struct ht_slot_state *state = &writing->form->slots[op->slot];
    bool live = state->bytes != HT_NOT_LIVE;
    if (shape->makes_object && live) return "an allocation into a free slot expected";
    if (!shape->makes_object && !live) return "a slot with a live object expected";
    if (live) writing->live_bytes -= state->bytes;
    if (shape->ends_object) {
        state->bytes = HT_NOT_LIVE;
        return NULL;
    }
    if (op->bytes > INT64_MAX) return "a size below 2^63 expected";
    state->bytes = op->bytes;
    writing->live_bytes += op->bytes;
    if (writing->live_bytes > built->live_peak_bytes) built->live_peak_bytes = writing->live_bytes;
    return NULL;
}

// A failed call is not repeated, and what was allocated before recording began is not there to be freed.
static bool skipped(struct ht_built_form *built, const struct ht_op_shape *shape, uint8_t op) {
    if (ht_op_variant(op) == HT_FAILED) {
        built->failed_skipped++;
        return true;
    }
    if (ht_op_variant(op) == HT_FOREIGN && !shape->makes_object) {
        built->foreign_skipped++;
        return true;
    }
    return false;
}

// A drop, which stands for a free that was not seen, is replayed but was no call.
static void count_calls(struct ht_built_form *built, unsigned function, uint64_t calls) {
    if (function >= HT_DROP) return;
    built->calls[function] += calls;
    built->calls_total += calls;
}

static inline bool hands_over(const struct ht_form_state *form, uint64_t event) {
    return form->publishing && form->publishing[event / 64] >> event % 64 & 1;
}

static int write_event(struct writing *writing, const struct ht_section_place *place,
                       const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    const struct ht_op_shape *shape = &form->shape[events->op[i]];
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    uint32_t thread = ht_form_stream_of(form, events->thread[i]);
    struct ht_stream_state *stream = &form->streams[thread];
    if (skipped(form->built, shape, events->op[i])) return 0;
    struct ht_slot_state *slot = shape->slot ? &form->slots[events->slot[i]] : NULL;
    struct ht_operation op = ht_operation_of(events, i, slot ? slot->bytes : 0);
    if (!op.frees) op.pages = pages_of_birth(writing, event);
    const char *expected = slot ? follow_slot(writing, &op, shape) : NULL;
    if (expected) return ht_form_bad_event(form, place, event, expected);
    if (mark_pause(writing, stream, event, time_ns)) return -1;
    tell_time(stream, time_ns);
    if (slot) wait_for_slot(stream, slot, thread, op.slot);
    if (mark_timed(writing, stream, op.function, event)) return -1;
    stream->used += ht_operation_put(&op, stream->words + stream->used);
    stream->operations++;
    count_calls(form->built, op.function, 1);
    if (hands_over(form, event)) {
        put(stream, ht_word(HT_WORD_PUBLISH, op.slot, ++slot->handovers & INT32_MAX));
    }
    return mark_sample(writing, stream, event, time_ns);
}

// An allocation outside the streams. Once all are there, RSS is read as the first stream begins.
static int write_inherited(struct writing *writing, const struct ht_section_place *place,
                           const struct ht_events *events, uint32_t i) {
    struct ht_form_state *form = writing->form;
    uint64_t event = events->first_event + i;
    if (form->built->inherited_objects != event)
        return ht_form_bad_event(form, place, event, "inherited blocks before the first call expected");
    struct ht_operation op = ht_operation_of(events, i, 0);
    op.pages = pages_of_birth(writing, event);
    const char *expected = follow_slot(writing, &op, &form->shape[events->op[i]]);
    if (expected) return ht_form_bad_event(form, place, event, expected);
    form->inherited_used += ht_operation_put(&op, form->inherited_words + form->inherited_used);
    form->built->inherited_objects++;
    if (event + 1 < form->inherited) return 0;
    step_above(writing);
    return put_sample(writing, &form->streams[0], event, events->time_ns[i]);
}

// What write_common changes with every event, kept in registers.
struct common {
    uint64_t *word;
    uint64_t live_bytes, peak_bytes, step_above_bytes;
    uint64_t mallocs, callocs, frees, reallocs;
};

// Writes one malloc, calloc, realloc or free of less than 4 GiB. False: it is no such call, or one that the
// long way must judge, and nothing has been done.
static inline bool write_small(struct common *common, struct ht_slot_state *slot, uint8_t op, uint32_t number,
                               uint64_t size, uint64_t count) {
    bool live = slot->bytes != HT_NOT_LIVE;
    if (op == ht_op(HT_FREE, HT_PLAIN)) {
        if (!live) return false;
        common->live_bytes -= slot->bytes;
        slot->bytes = HT_NOT_LIVE;
        *common->word++ = ht_word(HT_WORD_FREE, number, 0);
        common->frees++;
        return true;
    }
    if (op == ht_op(HT_CALLOC, HT_PLAIN)) {
        if (size > UINT32_MAX || count > UINT32_MAX) return false;
    } else {
        count = 1;
    }
    uint64_t bytes = size * count, live_bytes = common->live_bytes + bytes;
    if (bytes > UINT32_MAX || live_bytes > common->step_above_bytes) return false;
    if (op == ht_op(HT_MALLOC, HT_PLAIN) && !live) {
        *common->word++ = ht_word(HT_WORD_MALLOC, number, (uint32_t)bytes);
        common->mallocs++;
    } else if (op == ht_op(HT_CALLOC, HT_PLAIN) && !live) {
        *common->word++ = ht_word(HT_WORD_CALLOC, number, (uint32_t)size);
        *common->word++ = count;
        common->callocs++;
    } else if (op == ht_op(HT_REALLOC, HT_PLAIN) && live && bytes) {
        live_bytes -= slot->bytes;
        *common->word++ = ht_word(HT_WORD_REALLOC, number, (uint32_t)bytes);
        *common->word++ = slot->bytes;
        common->reallocs++;
    } else {
        return false;
    }
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
    struct common common = {.word = stream->words + stream->used,
                            .live_bytes = writing->live_bytes,
                            .peak_bytes = built->live_peak_bytes,
                            .step_above_bytes = writing->step_above_bytes};
    if (!stream->begun || writing->stop_event <= events->first_event + i) return i;
    uint64_t until = writing->stop_event - events->first_event;
    for (uint32_t end = until < events->rows ? (uint32_t)until : events->rows; i < end; i++) {
        struct ht_slot_state *slot = &form->slots[events->slot[i]];
        __builtin_prefetch(&form->slots[events->slot[i + AHEAD < end ? i + AHEAD : i]], 1);
        bool others = slot->last_thread != thread && slot->last_thread != HT_NOBODY;
        if (ht_form_stream_of(form, events->thread[i]) != thread || others ||
            events->time_ns[i] - stream->told_ns >= HT_TIME_STEP_NS ||
            hands_over(form, events->first_event + i) ||
            !write_small(&common, slot, events->op[i], events->slot[i], events->size[i], events->extra[i])) {
            break;
        }
        slot->last_thread = thread;
    }
    count_calls(built, HT_MALLOC, common.mallocs);
    count_calls(built, HT_CALLOC, common.callocs);
    count_calls(built, HT_FREE, common.frees);
    count_calls(built, HT_REALLOC, common.reallocs);
    stream->operations += common.mallocs + common.callocs + common.frees + common.reallocs;
    stream->used = (uint64_t)(common.word - stream->words);
    writing->live_bytes = common.live_bytes;
    built->live_peak_bytes = common.peak_bytes;
    return i;
}

static int write_section(void *context, const struct ht_section_place *place,
                         const struct ht_events *events) {
    struct writing *writing = context;
    struct ht_form_state *form = writing->form;
    if (ht_form_know_slots(form, events, HT_NOT_LIVE)) return -1;
    for (uint32_t i = 0; i < events->rows;) {
        if (ht_form_stream_of(form, events->thread[i]) >= form->streams_count)
            return ht_form_bad_event(form, place, events->first_event + i,
                                     "a thread that the threads section lists expected");
        uint32_t next = write_common(writing, events, i);
        if (next > i) {
            i = next;
            continue;
        }
        bool inherited = ht_op_function(events->op[i]) == HT_INHERIT;
        if ((inherited ? write_inherited : write_event)(writing, place, events, i++)) return -1;
        set_stop(writing);
    }
    writing->last_thread = ht_form_stream_of(form, events->thread[events->rows - 1]);
    return 0;
}

// What is left of the trace behind its last call, unless the thread that made it has ended.
static int mark_end(struct writing *writing) {
    struct ht_form_state *form = writing->form;
    uint32_t thread = writing->last_thread;
    bool known = !form->options->one_thread && thread < form->facts.threads_count;
    if (known && form->facts.threads[thread].ended) return 0;
    return mark_pause(writing, &form->streams[thread], form->events - 1, form->options->end_ns);
}

int ht_form_write(struct ht_form_state *form) {
    const struct ht_trace_facts *facts = &form->facts;
    struct writing writing = {.form = form,
                              .events = form->events,
                              .sample_every = form->events / SAMPLES_PER_TRACE + 1,
                              .random = {form->options->seed},
                              .pause_step_ns = form->options->end_ns / HT_PAUSE_POINTS_MAX,
                              .residency_event =
                                  facts->residency_count ? facts->residency[0].event : UINT64_MAX,
                              .timed_event = UINT64_MAX};
    for (uint32_t i = 0; i < form->slots_count; i++) {
        form->slots[i] = (struct ht_slot_state){.bytes = HT_NOT_LIVE, .last_thread = HT_NOBODY};
    }
    if (form->options->timed_one_in) writing.timed_event = timed_distance(&writing) - 1;
    if (writing.pause_step_ns < PAUSE_STEP_NS_MIN) writing.pause_step_ns = PAUSE_STEP_NS_MIN;
    if (form->options->end_ns == 0) writing.pause_points = HT_PAUSE_POINTS_MAX;  // not known: none
    set_stop(&writing);
    return ht_form_each_section(form, write_section, &writing) ? -1 : mark_end(&writing);
}
