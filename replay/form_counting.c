// The first pass: each thread's number of events, and the handovers of slots from thread to thread.
#include <assert.h>

#include "form_state.h"

static int know_slot(struct ht_form_state *form, uint32_t slot) {
    if (ht_form_grow(form, (void **)&form->slots, &form->slots_room, (size_t)slot + 1, sizeof *form->slots)) {
        return -1;
    }
    while (form->slots_count <= slot) form->slots[form->slots_count++].last_thread = HT_NOBODY;
    return 0;
}

static int count_event(struct ht_form_state *form, uint32_t thread, uint32_t slot,
                       const struct ht_op_shape *shape, uint64_t event) {
    if (ht_form_grow(form, (void **)&form->streams, &form->streams_room, (size_t)thread + 1,
                     sizeof *form->streams)) {
        return -1;
    }
    if (thread >= form->streams_count) form->streams_count = thread + 1;
    form->streams[thread].events++;
    if (ht_form_grow(form, (void **)&form->publishing, &form->publishing_room, event / 64 + 1,
                     sizeof *form->publishing)) {
        return -1;
    }
    if (!shape->slot) return 0;
    if (know_slot(form, slot)) return -1;
    struct ht_slot_state *state = &form->slots[slot];
    if (state->last_thread != HT_NOBODY && state->last_thread != thread) {
        form->publishing[state->last_event / 64] |= 1ull << state->last_event % 64;
    }
    state->last_thread = thread;
    state->last_event = event;
    return 0;
}

// What was expected instead, or NULL if the event can be replayed.
static const char *what_is_wrong(const struct ht_form_state *form, const struct ht_op_shape *shape,
                                 const struct ht_events *events, uint32_t i) {
    uint64_t event = events->first_event + i;
    uint32_t slot = events->slot[i];
    assert(shape->valid && event == form->events);  // the reader has seen to it
    if (shape->slot && (slot == 0 || slot >= HT_SLOTS_LIMIT)) {
        return "a slot from 1 to 536870911 expected (replay's limit)";
    }
    if (!ht_slot_is_due(slot, event)) return "a slot that the events so far account for expected";
    if (!ht_thread_is_due(events->thread[i], event))
        return "a thread that the events so far account for expected";
    return events->time_ns[i] >= HT_TIME_LIMIT_NS ? "a time within 73 years of the start expected" : NULL;
}

static int count_section(void *context, const struct ht_section_place *place,
                         const struct ht_events *events) {
    struct ht_form_state *form = context;
    for (uint32_t i = 0; i < events->rows; i++) {
        const struct ht_op_shape *shape = &form->shape[events->op[i]];
        uint64_t event = events->first_event + i;
        uint32_t slot = events->slot[i];
        const char *expected = what_is_wrong(form, shape, events, i);
        if (expected) return ht_form_bad_event(form, place, event, expected);
        // What is inherited is there before any thread begins: it is nobody's, and nobody waits for it.
        if (ht_op_function(events->op[i]) == HT_INHERIT) {
            if (form->inherited != form->events)
                return ht_form_bad_event(form, place, event,
                                         "inherited blocks before the first call expected");
            if (know_slot(form, slot)) return -1;
            form->inherited++;
        } else if (count_event(form, ht_form_stream_of(form, events->thread[i]), slot, shape, event)) {
            return -1;
        }
        form->events++;
    }
    return 0;
}

int ht_form_count(struct ht_form_state *form) { return ht_form_each_section(form, count_section, form); }
