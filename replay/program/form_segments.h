// SPDX-License-Identifier: Apache-2.0
// What is written of a stream, segment by segment.
#ifndef HEAPTAPE_FORM_SEGMENTS_H
#define HEAPTAPE_FORM_SEGMENTS_H

#include <assert.h>

#include "form_state.h"

// What one event can become at most: its time, a wait, a mark, an op of four words, a publication, a mark.
// A stream ends in the time of its end, and a segment in its END mark.
enum {
    HT_EVENT_WORDS_MAX = 9,
    HT_END_WORDS = 2,
    HT_SEGMENT_WORDS_MIN = 56,
    HT_SEGMENT_WORDS_MAX = 32 * 1024
};

static inline uint64_t *ht_stream_words(struct ht_stream_state *stream) {
    return (uint64_t *)(stream->segment + 1);
}

static inline void ht_stream_put(struct ht_stream_state *stream, uint64_t word) {
    assert(stream->used < stream->room);
    ht_stream_words(stream)[stream->used++] = word;
}

static inline void ht_stream_put_time(struct ht_stream_state *stream, uint64_t time_ns) {
    if (!stream->begun) {
        stream->begun = true;
        stream->start_ns = time_ns;
    } else if (time_ns < stream->given_ns || time_ns - stream->given_ns < HT_TIME_STEP_NS) {
        return;
    }
    stream->given_ns = time_ns;
    ht_stream_put(stream, ht_word_time(time_ns));
}

// The stream goes on from here after another one has run: a place that is after all that were given so far.
static inline void ht_stream_put_turn(struct ht_form_state *form, uint32_t number, uint64_t time_ns) {
    struct ht_stream_state *stream = &form->streams[number];
    if (number == form->turn) {
        ht_stream_put_time(stream, time_ns);
    } else {
        form->turn = number;
        stream->given_ns = time_ns > form->turn_ns ? time_ns : form->turn_ns + 1;
        if (!stream->begun) stream->start_ns = stream->given_ns;
        stream->begun = true;
        ht_stream_put(stream, ht_word_time(stream->given_ns));
    }
    if (stream->given_ns > form->turn_ns) form->turn_ns = stream->given_ns;
}

// Room for one more event and the stream's end. Returns 0, or -1 with error, as do the following.
int ht_form_make_room(struct ht_form_state *form, uint32_t stream);

// Ends what has been written of the stream: it is a segment now, and nothing is begun.
void ht_form_seal(struct ht_stream_state *stream);

// So many more of the stream's events have been written; with the last, the stream ends.
int ht_form_events_written(struct ht_form_state *form, uint32_t stream, uint64_t events);
int ht_form_end_stream(struct ht_form_state *form, uint32_t stream);

#endif
