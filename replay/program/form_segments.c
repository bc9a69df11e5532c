// SPDX-License-Identifier: Apache-2.0
#include "form_segments.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "form_state.h"

void ht_form_seal(struct ht_stream_state *stream) {
    ht_stream_put(stream, ht_word_mark(HT_MARK_END, 0));
    stream->segment->words = stream->used;
    stream->used = 0;
}

// Links what the stream has written so far, if anything.
static int link_segment(struct ht_form_state *form, uint32_t number) {
    struct ht_stream_state *stream = &form->streams[number];
    if (!stream->used) return 0;
    ht_form_seal(stream);
    return form->sink->link(form, number, stream->segment);
}

// A segment grows to its full size before it is linked, so that
// streams of few events stay small.
int ht_form_make_room(struct ht_form_state *form, uint32_t number) {
    struct ht_stream_state *stream = &form->streams[number];
    uint32_t most = form->segment_words_max;
    if (stream->used + HT_EVENT_WORDS_MAX + HT_END_WORDS <= stream->room) return 0;
    if (stream->room == most && link_segment(form, number)) return -1;
    if (stream->room == most) return 0;
    uint32_t room = stream->room ? stream->room * 4 : HT_SEGMENT_WORDS_MIN;
    if (room > most) room = most;
    size_t bytes = sizeof(struct ht_segment) + (room + HT_WORDS_PADDING) * sizeof(uint64_t);
    struct ht_segment *moved = realloc(stream->segment, bytes);
    if (!moved) return ht_error_memory(form->error, form->path, "decoding the trace");
    if (!stream->room) *moved = (struct ht_segment){0};
    memset((uint64_t *)(moved + 1) + stream->used, 0,
           (room - stream->used + HT_WORDS_PADDING) * sizeof(uint64_t));
    stream->segment = moved;
    stream->room = room;
    return 0;
}

int ht_form_end_stream(struct ht_form_state *form, uint32_t number) {
    struct ht_stream_state *state = &form->streams[number];
    struct ht_stream *stream = ht_form_streams(form->built->form) + number;
    bool known = !form->options->one_thread && number < form->facts.threads_count;
    const struct ht_thread *ended =
        known && form->facts.threads[number].ended ? &form->facts.threads[number] : NULL;
    // The end is a place in trace time too: what the allocator keeps for the thread goes then, not before. A
    // trace may have an end before the last op; time never goes back.
    if (state->begun && ended && ended->end_ns > state->given_ns && ended->end_ns >= form->at_ns &&
        ended->end_ns < HT_TIME_LIMIT_NS) {
        ht_stream_put(state, ht_word_time(ended->end_ns));
    }
    stream->stays = !ended;
    stream->start_ns = state->start_ns;
    stream->operations = state->operations;
    form->built->form->operations += state->operations;
    if (link_segment(form, number)) return -1;
    free(state->segment);
    state->segment = NULL;
    state->room = 0;
    return form->sink->end(form, number);
}

int ht_form_events_written(struct ht_form_state *form, uint32_t number, uint64_t events) {
    struct ht_stream_state *stream = &form->streams[number];
    assert(stream->events >= events);
    stream->events -= events;
    return stream->events ? 0 : ht_form_end_stream(form, number);
}
