// SPDX-License-Identifier: Apache-2.0
#include "form_sections.h"

#include <assert.h>

#include "form_copies.h"

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
        int stop = form->copies > 1 ? ht_form_visit_copies(form, place, &events, visit, context)
                                    : visit(context, place, &events);
        if (stop) return stop;
    }
    return 0;
}
