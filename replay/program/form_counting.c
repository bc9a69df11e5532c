// SPDX-License-Identifier: Apache-2.0
// The first pass: each thread's number of events, and the dependencies of slots between threads.
#include "form_sections.h"
#include "form_state.h"
#include "ops.h"

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
