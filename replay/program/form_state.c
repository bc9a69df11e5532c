// SPDX-License-Identifier: Apache-2.0
#include "form_state.h"

#include <assert.h>
#include <inttypes.h>

#include "grow.h"
#include "ops.h"

int ht_form_grow(struct ht_form_state *form, void *place, size_t *room, size_t needed, size_t element_bytes) {
    if (ht_grow(place, room, needed, element_bytes)) return 0;
    return ht_error_memory(form->error, form->path, "decoding the trace");
}

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected) {
    return ht_error_input(form->error, form->path, place->offset, "event %" PRIu64 ": %s",
                          event / form->copies, expected);
}

// Copies of a trace that one thread replays interleaved: after each event of the first copy the same one of
// the others, on slots of their own.

enum { PORTION_ROWS = 4096 };

// So much of a section at a time.
struct portion {
    uint8_t op[PORTION_ROWS];
    uint32_t thread[PORTION_ROWS], slot[PORTION_ROWS];
    uint64_t time_ns[PORTION_ROWS], size[PORTION_ROWS], extra[PORTION_ROWS];
};

// Row `to` becomes the event of row `from`, for this copy. Slot 0 (free(NULL)) is everybody's.
static void put(struct portion *portion, uint32_t to, const struct ht_events *events, uint32_t from,
                uint32_t copies, uint32_t copy) {
    uint32_t slot = events->slot[from];
    portion->op[to] = events->op[from];
    portion->thread[to] = events->thread[from];
    portion->time_ns[to] = events->time_ns[from];
    portion->slot[to] = slot ? slot * copies + copy : 0;
    portion->size[to] = events->size[from];
    portion->extra[to] = events->extra[from];
}

// Calls the visitor with the section's events, each as often as there are copies, in portions. Their numbers
// and the slots' are those of the trace times the copies, so that the rest of the builder need not know.
static int visit_copies(struct ht_form_state *form, const struct ht_section_place *place,
                        const struct ht_events *events, ht_section_visitor *visit, void *context) {
    static_assert((int)HT_SCALE_MAX <= (int)PORTION_ROWS, "an event's copies fit into one portion");
    struct portion portion;
    uint32_t copies = form->copies, events_at_once = PORTION_ROWS / copies;
    for (uint32_t from = 0; from < events->rows; from += events_at_once) {
        uint32_t end = events->rows - from < events_at_once ? events->rows : from + events_at_once, rows = 0;
        for (uint32_t i = from; i < end; i++) {
            for (uint32_t copy = 0; copy < copies; copy++) put(&portion, rows++, events, i, copies, copy);
        }
        struct ht_events copied = {.rows = rows,
                                   .first_event = (events->first_event + from) * copies,
                                   .op = portion.op,
                                   .thread = portion.thread,
                                   .time_ns = portion.time_ns,
                                   .slot = portion.slot,
                                   .size = portion.size,
                                   .extra = portion.extra};
        int stop = visit(context, place, &copied);
        if (stop) return stop;
    }
    return 0;
}

// What was expected instead of this section, or NULL if its events can be replayed.
static const char *what_is_wrong(const struct ht_form_state *form, const struct ht_events *events) {
    uint64_t times = 0, last_event = events->first_event + events->rows - 1;
    uint32_t slot = 0, thread = 0;
    for (uint32_t i = 0; i < events->rows; i++) {
        times |= events->time_ns[i];
        if (events->slot[i] > slot) slot = events->slot[i];
        if (events->thread[i] > thread) thread = events->thread[i];
    }
    if (times >= HT_TIME_LIMIT_NS) return ht_found("expected times within 73 years of the start", times);
    if (slot >= HT_SLOTS_LIMIT) return ht_found("expected slots up to 536870911 (replay's limit)", slot);
    if (slot >= HT_SLOTS_LIMIT / form->copies)
        return ht_found("expected fewer slots for so many copies (--scale)", slot);
    if (form->options->of_prelude) return NULL;
    if (!ht_slot_is_due(slot, last_event)) return ht_found("expected slot numbers without a gap", slot);
    return ht_thread_is_due(thread, last_event) ? NULL
                                                : ht_found("expected thread numbers without a gap", thread);
}
static_assert((HT_TIME_LIMIT_NS & (HT_TIME_LIMIT_NS - 1)) == 0,
              "a time beyond the limit shows in the or of all");

int ht_form_each_section(struct ht_form_state *form, ht_section_visitor *visit, void *context) {
    uint64_t events_before = 0;
    for (size_t i = 0; i < ht_trace_sections(form->reader); i++) {
        const struct ht_section_place *place = ht_trace_section(form->reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(form->reader, i, &events, form->error)) return -1;
        assert(events.first_event * form->copies == events_before &&
               events.rows == place->rows);  // the reader has seen to it
        const char *wrong = what_is_wrong(form, &events);
        if (wrong) return ht_error_input(form->error, form->path, place->offset, "%s", wrong);
        events_before += (uint64_t)events.rows * form->copies;
        int stop = form->copies > 1 ? visit_copies(form, place, &events, visit, context)
                                    : visit(context, place, &events);
        if (stop) return stop;
    }
    return 0;
}

// The first pass: each thread's number of events, and the dependencies of slots between threads.

int ht_form_know_slots(struct ht_form_state *form, const struct ht_events *events, uint64_t fresh) {
    uint32_t highest = 0;
    for (uint32_t i = 0; i < events->rows; i++)
        if (events->slot[i] > highest) highest = events->slot[i];
    if (highest < form->slots_count) return 0;
    if (ht_form_grow(form, &form->slots, &form->slots_room, (size_t)highest + 1, sizeof *form->slots)) {
        return -1;
    }
    while (form->slots_count <= highest) {
        form->slots[form->slots_count++] =
            (struct ht_slot_state){.last_event = fresh, .last_thread = HT_NOBODY};
    }
    return 0;
}

static int know_stream(struct ht_form_state *form, uint32_t thread) {
    if (thread < form->streams_count) return 0;
    if (ht_form_grow(form, &form->streams, &form->streams_room, (size_t)thread + 1, sizeof *form->streams)) {
        return -1;
    }
    form->streams_count = thread + 1;
    return 0;
}

static void count_event(struct ht_form_state *form, uint32_t thread, uint32_t slot, uint64_t event) {
    form->streams[thread].events_all++;
    if (!slot) return;
    struct ht_slot_state *state = &form->slots[slot];
    if (state->last_thread != thread && state->last_thread != HT_NOBODY) {
        form->publishing[state->last_event / 64] |= 1ull << state->last_event % 64;
    }
    state->last_thread = thread;
    state->last_event = event;
}

static int count_section(void *context, const struct ht_section_place *place,
                         const struct ht_events *events) {
    enum { AHEAD = 16 };
    struct ht_form_state *form = context;
    (void)place;
    if (ht_form_know_slots(form, events, 0) ||
        ht_form_grow(form, &form->publishing, &form->publishing_room,
                     (events->first_event + events->rows) / 64 + 1, sizeof *form->publishing)) {
        return -1;
    }
    for (uint32_t i = 0; i < events->rows; i++) {
        if (i + AHEAD < events->rows) __builtin_prefetch(&form->slots[events->slot[i + AHEAD]], 1);
        // What is inherited is there before any thread begins: it is nobody's, and nobody waits for it.
        if (ht_op_function(events->op[i]) == HT_INHERIT) {
            form->inherited++;
            continue;
        }
        if (know_stream(form, events->thread[i])) return -1;
        if (ht_form_replays(form, events->op[i])) form->last_event = events->first_event + i;
        count_event(form, events->thread[i], events->slot[i], events->first_event + i);
    }
    return 0;
}

// Stops (by 1) behind the section where the inherited blocks end: they come before every call.
static int count_inherited(void *context, const struct ht_section_place *place,
                           const struct ht_events *events) {
    struct ht_form_state *form = context;
    (void)place;
    uint32_t i = 0;
    while (i < events->rows && ht_op_function(events->op[i]) == HT_INHERIT) i++;
    form->inherited += i;
    return i < events->rows;
}

static int count_one_stream(struct ht_form_state *form) {
    if (ht_form_each_section(form, count_inherited, form) < 0 || know_stream(form, 0)) return -1;
    form->streams[0].events_all = form->events - form->inherited;
    form->last_event = form->events - 1;  // the stream is there until then
    return 0;
}

int ht_form_count(struct ht_form_state *form) {
    // Known from the index. No pass over the trace changes it: one may be given up half way, and the next is to
    // find the same trace.
    form->events = ht_trace_records(form->reader) * form->copies;
    bool one = form->options->one_thread || form->facts.threads_count == 1;
    if (one ? count_one_stream(form) : ht_form_each_section(form, count_section, form)) return -1;
    // One more for what is inherited.
    if (ht_form_grow(form, &form->streams, &form->streams_room, (size_t)form->streams_count + 1,
                     sizeof *form->streams)) {
        return -1;
    }
    form->streams[form->streams_count].events_all = form->inherited;
    return 0;
}

// ---- odd calls ----

// Nobody's posix_memalign serves any.
static const struct {
    enum ht_function function;
    enum ht_oddity oddity;
    enum ht_odd_function asked;
} odd_kinds[HT_ODD_CALLS_MAX] = {
    {HT_ALIGNED_ALLOC, HT_ODD_SIZE, HT_ODD_ALIGNED_ALLOC},
    {HT_ALIGNED_ALLOC, HT_ODD_ALIGNMENT, HT_ODD_ALIGNED_ALLOC},
    {HT_MEMALIGN, HT_ODD_ALIGNMENT, HT_ODD_MEMALIGN},
};

static int count_odd(void *context, const struct ht_section_place *place, const struct ht_events *events) {
    struct ht_counted_odd_call *odd = ((struct ht_form_state *)context)->built->odd;
    (void)place;
    for (uint32_t i = 0; i < events->rows; i++) {
        unsigned function = ht_op_function(events->op[i]);
        if (ht_op_variant(events->op[i]) == HT_FAILED) continue;
        for (unsigned k = 0; k < HT_ODD_CALLS_MAX; k++) {
            if (odd_kinds[k].function != (enum ht_function)function) continue;
            uint64_t alignment = events->extra[i], size = events->size[i];
            odd[k].of++;
            if (ht_oddity_of(function, alignment, size) != odd_kinds[k].oddity) continue;
            if (!odd[k].count++)
                odd[k].first = (struct ht_odd_call){
                    .function = odd_kinds[k].asked, .alignment = alignment, .size = size};
        }
    }
    return 0;
}

int ht_form_count_odd(struct ht_form_state *form) { return ht_form_each_section(form, count_odd, form); }
