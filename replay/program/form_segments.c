// SPDX-License-Identifier: Apache-2.0
#include "form_segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

// A form that is held: all of it in a memfd that grows, segment by segment, up to a limit. Beyond that
// nothing is kept, and the form will have to be streamed; the figures of the trace are complete all the same.

struct held {
    int fd;
    uint64_t bytes, bytes_max;
    bool overflowed;
    uint32_t *first_units;  // by stream, 0 while there is none
    uint32_t *last_units;
};

static int failed(struct ht_form_state *form) {
    return ht_error_system(form->error, form->path, "shared memory for the decoded trace");
}

static int write_at(struct ht_form_state *form, const void *data, size_t bytes, uint64_t offset) {
    const struct held *held = form->sink_state;
    const char *at = data;
    while (bytes) {
        ssize_t written = pwrite(held->fd, at, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return failed(form);
        at += written;
        offset += (uint64_t)written;
        bytes -= (size_t)written;
    }
    return 0;
}

static uint64_t round_up(uint64_t bytes) {
    return (bytes + HT_SEGMENT_UNIT_BYTES - 1) / HT_SEGMENT_UNIT_BYTES * HT_SEGMENT_UNIT_BYTES;
}

// Names the segment that follows in a stream: in the segment before, or as the stream's first.
static int name_next(struct ht_form_state *form, uint32_t stream, uint32_t unit) {
    struct held *held = form->sink_state;
    uint32_t last = held->last_units[stream];
    held->last_units[stream] = unit;
    if (!last) {
        held->first_units[stream] = unit;
        return 0;
    }
    return write_at(form, &unit, sizeof unit,
                    (uint64_t)last * HT_SEGMENT_UNIT_BYTES + offsetof(struct ht_segment, next_unit));
}

static int hold_segment(struct ht_form_state *form, uint32_t stream, const struct ht_segment *segment) {
    struct held *held = form->sink_state;
    size_t bytes = sizeof *segment + (segment->words + HT_WORDS_PADDING) * sizeof(uint64_t);
    uint64_t offset = held->bytes;
    if (held->overflowed) return 0;
    if (offset + bytes > held->bytes_max ||
        round_up(offset + bytes) / HT_SEGMENT_UNIT_BYTES >= HT_SEGMENT_NONE) {
        held->overflowed = true;
        return ftruncate(held->fd, 0) ? failed(form) : 0;
    }
    held->bytes = round_up(offset + bytes);
    if (write_at(form, segment, bytes, offset)) return -1;
    return name_next(form, stream, (uint32_t)(offset / HT_SEGMENT_UNIT_BYTES));
}

static int end_stream(struct ht_form_state *form, uint32_t stream) {
    const struct held *held = form->sink_state;
    return held->overflowed ? 0 : name_next(form, stream, HT_SEGMENT_NONE);
}

static const struct ht_form_sink sink = {.link = hold_segment, .end = end_stream};

// From here on nobody can change it, not even a child that means to: it is what all runs to come replay, and
// the launcher reads it. Before Linux 6.7 a sealed file can be mapped by descriptors alone that never could
// write.
static int seal(struct held *held) {
    char path[32];
    if (fcntl(held->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", held->fd);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -1;
    close(held->fd);
    held->fd = fd;
    return 0;
}

static int finish(struct ht_form_state *form, struct held *held) {
    struct ht_built_form *built = form->built;
    struct ht_form *header = built->form;
    struct ht_stream *streams = ht_form_streams(header);
    for (uint32_t i = 0; i <= form->streams_count; i++) streams[i].first_unit = held->first_units[i];
    header->bytes = held->bytes;
    uint64_t header_bytes = built->mapped_bytes;
    if (ftruncate(held->fd, (off_t)held->bytes) || write_at(form, header, header_bytes, 0) || seal(held))
        return failed(form);
    void *map = mmap(NULL, held->bytes, PROT_READ, MAP_SHARED, held->fd, 0);
    if (map == MAP_FAILED) return failed(form);
    free(header);
    built->form = map;
    built->mapped_bytes = held->bytes;
    built->fd = held->fd;
    held->fd = -1;
    return 0;
}

static int hold(struct ht_form_state *form, struct held *held) {
    held->fd = memfd_create("heaptape-form", MFD_ALLOW_SEALING);
    held->first_units = calloc(form->streams_count + 1, sizeof(uint32_t));
    held->last_units = calloc(form->streams_count + 1, sizeof(uint32_t));
    if (held->fd < 0 || !held->first_units || !held->last_units) return failed(form);
    form->sink = &sink;
    form->sink_state = held;
    if (ht_form_write(form)) return -1;
    return held->overflowed ? 1 : finish(form, held);
}

int ht_form_hold(struct ht_form_state *form) {
    uint64_t most = form->options->held_bytes_max;
    struct held held = {.bytes = round_up(form->built->mapped_bytes), .bytes_max = most ? most : UINT64_MAX};
    int outcome = hold(form, &held);
    if (held.fd >= 0) close(held.fd);
    free(held.first_units);
    free(held.last_units);
    return outcome;
}
