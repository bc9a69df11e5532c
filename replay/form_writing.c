// The second pass: the streams, and the marks in them where the timed pass and the memory pass stop.
#include <stdlib.h>

#include "form_operation.h"
#include "form_state.h"

enum { SAMPLES_PER_TRACE = 10000, SAMPLE_STEP_BYTES_MIN = 4096 };

struct writing {
    struct ht_form_state *form;
    size_t residency_at;
    uint64_t live_bytes, step_above_bytes, sample_every;
    size_t points_room;
    struct ht_random random;
    uint64_t until_timed;
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
    while (writing->residency_at < facts->residency_count &&
           facts->residency[writing->residency_at].event < event) {
        writing->residency_at++;
    }
    if (writing->residency_at == facts->residency_count ||
        facts->residency[writing->residency_at].event != event) {
        return HT_PAGES_BY_RULE;
    }
    return facts->residency[writing->residency_at].pages_after;
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

// About one op in timed_one_in, at random distances so that no pattern of the program is always hit.
static int mark_timed(struct writing *writing, struct ht_stream_state *stream, unsigned function) {
    uint32_t one_in = writing->form->options->timed_one_in;
    if (one_in == 0 || function >= HT_DROP) return 0;
    if (writing->until_timed-- > 0) return 0;
    writing->until_timed = ht_random_below(&writing->random, 2 * one_in - 1);
    return put_mark(writing->form, &stream->timed, &stream->timed_count, &stream->timed_room, stream->used,
                    function);
}

// RSS is read at every new maximum of live bytes (in steps of 0.1 %) and every so many events.
static int mark_sample(struct writing *writing, struct ht_stream_state *stream, uint64_t event,
                       uint64_t time_ns) {
    struct ht_form_state *form = writing->form;
    struct ht_built_form *built = form->built;
    bool higher = writing->live_bytes > writing->step_above_bytes;
    if (!higher && event % writing->sample_every && event + 1 != form->events) return 0;
