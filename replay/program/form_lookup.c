// SPDX-License-Identifier: Apache-2.0
#include "form_lookup.h"

#include <stdlib.h>

#include "form_state.h"

struct lookup {
    struct ht_form_state *form;
    struct ht_found_call *calls;
    size_t count;
    uint64_t *passed;  // by stream: its calls so far
    uint64_t *wanted;  // by stream: its next call that is searched, or UINT64_MAX
};

static void set_wanted(struct lookup *lookup, uint32_t stream) {
    lookup->wanted[stream] = UINT64_MAX;
    for (size_t i = 0; i < lookup->count; i++) {
        const struct ht_call_place *place = &lookup->calls[i].place;
        if (place->stream == stream && place->call >= lookup->passed[stream] &&
            place->call < lookup->wanted[stream]) {
            lookup->wanted[stream] = place->call;
        }
    }
}

static void take(struct lookup *lookup, uint32_t stream, const struct ht_events *events, uint32_t row) {
    for (size_t i = 0; i < lookup->count; i++) {
        struct ht_found_call *call = &lookup->calls[i];
        if (call->place.stream != stream || call->place.call != lookup->passed[stream]) continue;
        call->found = true;
        call->event = (events->first_event + row) / lookup->form->copies;
        call->size = events->size[row];
        call->extra = events->extra[row];
        call->thread = events->thread[row];
        call->op = events->op[row];
    }
}

static int visit_section(void *context, const struct ht_section_place *place,
                         const struct ht_events *events) {
    struct lookup *lookup = context;
    struct ht_form_state *form = lookup->form;
    (void)place;
    for (uint32_t i = 0; i < events->rows; i++) {
        uint8_t op = events->op[i];
        if (!ht_form_replays(form, op) || form->shape[op].control) continue;
        bool inherited = ht_op_function(op) == HT_INHERIT;
        uint32_t stream = inherited ? form->streams_count : ht_form_stream_of(form, events->thread[i]);
        bool here = lookup->passed[stream] == lookup->wanted[stream];
        if (here) take(lookup, stream, events, i);
        lookup->passed[stream]++;
        if (here) set_wanted(lookup, stream);
    }
    return 0;
}

int ht_form_look_up(const struct ht_built_form *built, struct ht_found_call *calls, size_t count,
                    struct ht_error *error) {
    struct ht_form_state *form = built->state;
    struct ht_error *borrowed_error = form->error;
    uint32_t streams = form->streams_count + 1;
    struct lookup lookup = {.form = form, .calls = calls, .count = count};
    lookup.passed = calloc(streams, sizeof *lookup.passed);
    lookup.wanted = calloc(streams, sizeof *lookup.wanted);
    int failed = -1;
    form->error = error;
    if (lookup.passed && lookup.wanted) {
        for (uint32_t i = 0; i < streams; i++) set_wanted(&lookup, i);
        failed = ht_form_each_section(form, visit_section, &lookup);
    } else {
        ht_error_memory(error, form->path, "searching events");
    }
    form->error = borrowed_error;
    free(lookup.passed);
    free(lookup.wanted);
    return failed;
}
