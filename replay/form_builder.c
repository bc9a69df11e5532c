// The passes over a trace, the memory that the form lives in, and its header.
#include "form_builder.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form_state.h"

// The most words that one event can become: time, wait, an op of four, publish. The memfd is sparse, so
// what is not used costs nothing. A stream has more: the times at which RSS is read in pauses, the
// time of its end, and a spare one.
enum {
    WORDS_PER_EVENT_MAX = 7,
    WORDS_PER_ALLOCATION_MAX = 4,
    WORDS_PER_STREAM = 2 + HT_PAUSE_POINTS_MAX + HT_WORDS_PADDING,
    PAGE_BYTES = 4096
};

int ht_form_grow(struct ht_form_state *form, void **array, size_t *room, size_t needed,
                 size_t element_bytes) {
    if (needed <= *room) return 0;
    size_t bigger = *room ? *room * 2 : 256;
    if (bigger < needed) bigger = needed;
    char *moved = realloc(*array, bigger * element_bytes);
    if (!moved) {
        errno = ENOMEM;
        return ht_error_system(form->error, form->path, "decoding the trace");
    }
    memset(moved + *room * element_bytes, 0, (bigger - *room) * element_bytes);
    *array = moved;
    *room = bigger;
    return 0;
}

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected) {
    return ht_error_input(form->error, form->path, place->offset, "event %" PRIu64 ": %s", event, expected);
}

// What was expected instead of this section, or NULL if its events can be replayed.
static const char *what_is_wrong(const struct ht_events *events) {
    uint64_t times = 0, last_event = events->first_event + events->rows - 1;
    uint32_t slot = 0, thread = 0;
    for (uint32_t i = 0; i < events->rows; i++) {
        times |= events->time_ns[i];
        if (events->slot[i] > slot) slot = events->slot[i];
        if (events->thread[i] > thread) thread = events->thread[i];
    }
    if (times >= HT_TIME_LIMIT_NS) return "times within 73 years of the start expected";
    if (slot >= HT_SLOTS_LIMIT) return "slots up to 536870911 expected (replay's limit)";
    if (!ht_slot_is_due(slot, last_event)) return "slots that the events so far account for expected";
    return ht_thread_is_due(thread, last_event) ? NULL
                                                : "threads that the events so far account for expected";
}
static_assert((HT_TIME_LIMIT_NS & (HT_TIME_LIMIT_NS - 1)) == 0,
              "a time beyond the limit shows in the or of all");

int ht_form_each_section(struct ht_form_state *form, ht_section_visitor *visit, void *context) {
    form->events = 0;
    for (size_t i = 0; i < ht_trace_sections(form->reader); i++) {
        const struct ht_section_place *place = ht_trace_section(form->reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(form->reader, i, &events, form->error)) return -1;
        assert(events.first_event == form->events &&
               events.rows == place->rows);  // the reader has seen to it
        const char *wrong = what_is_wrong(&events);
        if (wrong) return ht_error_input(form->error, form->path, place->offset, "%s", wrong);
        form->events += events.rows;
        int stop = visit(context, place, &events);
        if (stop) return stop;
    }
    return 0;
}

static uint64_t round_to_page(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static uint64_t header_bytes(const struct ht_form_state *form) {
    return round_to_page(sizeof(struct ht_form) + form->streams_count * sizeof(struct ht_stream));
}

static uint64_t stream_bytes(const struct ht_stream_state *stream) {
    return round_to_page((stream->events * WORDS_PER_EVENT_MAX + WORDS_PER_STREAM) * sizeof(uint64_t));
}

static uint64_t inherited_bytes(const struct ht_form_state *form) {
    return round_to_page((form->inherited * WORDS_PER_ALLOCATION_MAX + HT_WORDS_PADDING) * sizeof(uint64_t));
}

// The memfd, with a region for what is inherited, and one for each stream.
static int make_memory(struct ht_form_state *form) {
    struct ht_built_form *built = form->built;
    uint64_t bytes = header_bytes(form) + inherited_bytes(form);
    for (uint32_t i = 0; i < form->streams_count; i++) bytes += stream_bytes(&form->streams[i]);
    built->fd = memfd_create("heaptape-form", 0);
    if (built->fd < 0 || ftruncate(built->fd, (off_t)bytes)) {
        return ht_error_system(form->error, form->path, "shared memory for the decoded trace");
    }
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, built->fd, 0);
    if (map == MAP_FAILED) return ht_error_system(form->error, form->path, "mapping the decoded trace");
    form->base = map;
    form->base_bytes = bytes;
    built->form = map;
    built->mapped_bytes = bytes;
    uint64_t offset = header_bytes(form);
    form->inherited_words = (uint64_t *)(form->base + offset);
    offset += inherited_bytes(form);
    for (uint32_t i = 0; i < form->streams_count; i++) {
        form->streams[i].words = (uint64_t *)(form->base + offset);
        offset += stream_bytes(&form->streams[i]);
    }
    return 0;
}

// Appends to the memfd, which grows; pages behind base are reached through the file.
static int append(struct ht_form_state *form, const void *data, size_t bytes, uint64_t *offset) {
    const char *at = data;
    uint64_t to = *offset = form->base_bytes;
    form->base_bytes += round_to_page(bytes);
    int failed = ftruncate(form->built->fd, (off_t)form->base_bytes);
    while (bytes && !failed) {
        ssize_t written = pwrite(form->built->fd, at, bytes, (off_t)to);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            failed = -1;
        } else {
            at += written;
            to += (uint64_t)written;
            bytes -= (size_t)written;
        }
    }
    return failed ? ht_error_system(form->error, form->path, "shared memory for the decoded trace") : 0;
}

static int finish_stream(struct ht_form_state *form, uint32_t i) {
    struct ht_stream_state *state = &form->streams[i];
    struct ht_stream *stream = (struct ht_stream *)(form->base + form->built->form->streams_offset) + i;
    bool known = !form->options->one_thread && i < form->facts.threads_count;
    const struct ht_thread *ended = known && form->facts.threads[i].ended ? &form->facts.threads[i] : NULL;
    stream->stays = !ended;
    // The end is a place in trace time too: what the allocator keeps for the thread goes then, not before.
    if (state->begun && ended && ended->end_ns > state->told_ns && ended->end_ns < HT_TIME_LIMIT_NS) {
        state->words[state->used++] = ht_word_time(ended->end_ns);
    }
    stream->words_offset = (uint64_t)((char *)state->words - form->base);
    stream->words_count = state->used;
    stream->start_ns = state->start_ns;
    stream->operations = state->operations;
    stream->timed_count = state->timed_count;
    stream->sample_count = state->samples_count;
    form->built->form->operations += state->operations;
    if (append(form, state->timed, state->timed_count * sizeof(struct ht_mark), &stream->timed_offset)) {
        return -1;
    }
    return append(form, state->samples, state->samples_count * sizeof(struct ht_mark),
                  &stream->sample_offset);
}

// The recorded program's initial thread runs on the child's: allocators treat it as something special
// (glibc's main arena), and a program with one thread must stay one.
static uint32_t initial_stream(const struct ht_form_state *form) {
    if (form->streams_count == 1) return 0;
    for (uint32_t i = 0; i < form->streams_count && i < form->facts.threads_count; i++) {
        if (form->options->initial_tid && form->facts.threads[i].tid == form->options->initial_tid) return i;
    }
    return HT_NO_STREAM;
}

static int finish(struct ht_form_state *form) {
    struct ht_form *header = form->built->form;
    header->streams_offset = sizeof(struct ht_form);
    for (uint32_t i = 0; i < form->streams_count; i++) {
        if (finish_stream(form, i)) return -1;
    }
    header->inherited_offset = (uint64_t)((char *)form->inherited_words - form->base);
    header->inherited_words = form->inherited_used;
    header->streams = form->streams_count;
    header->initial_stream = initial_stream(form);
    header->slots = form->slots_count ? form->slots_count : 1;  // 0, which free(NULL) frees, is always there
    header->bytes = form->base_bytes;
    header->magic = HT_FORM_MAGIC;
    return 0;
}

static int build(struct ht_form_state *form) {
    for (unsigned op = 0; op < 256; op++) form->shape[op] = ht_op_shape((uint8_t)op);
    if (ht_trace_facts(form->reader, &form->facts, form->error) || ht_form_count(form)) return -1;
    // Without a call there is no stream.
    bool calls = form->events > form->inherited;
    if (calls && (make_memory(form) || ht_form_write(form) || finish(form))) return -1;
    if (calls && form->built->form->operations) return 0;
    return ht_error_input(form->error, form->path, ht_trace_valid_bytes(form->reader),
                          "at least one call that can be replayed expected");
}

int ht_form_build(struct ht_trace_reader *reader, const char *path, const struct ht_form_options *options,
                  struct ht_built_form *built, struct ht_error *error) {
    struct ht_form_state form = {
        .reader = reader, .path = path, .options = options, .built = built, .error = error};
    *built = (struct ht_built_form){.fd = -1};
    int failed = build(&form);
    for (uint32_t i = 0; i < form.streams_count; i++) {
        free(form.streams[i].timed);
        free(form.streams[i].samples);
    }
    free(form.streams);
    free(form.slots);
    free(form.publishing);
    ht_trace_facts_free(&form.facts);
    if (failed) ht_form_free(built);
    return failed;
}

void ht_form_free(struct ht_built_form *built) {
    if (built->form) munmap(built->form, built->mapped_bytes);
    if (built->fd >= 0) close(built->fd);
    free(built->points);
    *built = (struct ht_built_form){.fd = -1};
}
