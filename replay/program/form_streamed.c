// SPDX-License-Identifier: Apache-2.0
#include "form_streamed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form_segments.h"
#include "machine_memory.h"
#include "raw_calls.h"
#include "talk.h"

enum { POOL_BYTES_MAX = 64 << 20, SEGMENTS_PER_STREAM = 4, SEGMENTS_SPARE = 16 };

static uint64_t round_up(uint64_t bytes) {
    return (bytes + HT_SEGMENT_UNIT_BYTES - 1) / HT_SEGMENT_UNIT_BYTES * HT_SEGMENT_UNIT_BYTES;
}

// Bytes of a segment of the pool, and of what comes before the first.
static uint64_t pool_segment_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_segment) +
                    (form->segment_words_max + HT_WORDS_PADDING) * sizeof(uint64_t));
}

static uint64_t pool_header_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_form) + (form->streams_count + 1) * sizeof(struct ht_stream));
}

static uint64_t segments_least(const struct ht_form_state *form) {
    return (uint64_t)SEGMENTS_PER_STREAM * (form->streams_count + 1) + SEGMENTS_SPARE;
}

// Half of what a held form may have: the launcher's own tables need some, too. And a quarter of what there is
// now, because the child is to have some.
static uint64_t bytes_wanted(const struct ht_form_state *form) {
    if (form->options->pool_bytes) return form->options->pool_bytes;
    uint64_t bytes = form->options->held_bytes_max / 2, left = ht_memory_available_bytes() / 4;
    if (left < bytes) bytes = left;
    return bytes < POOL_BYTES_MAX ? bytes : POOL_BYTES_MAX;
}

// Segments are smaller than those of a held form, so that every stream can have some. Returns what header and
// pool take where the pool is to have so many bytes, which is more than asked for where that is too little.
static uint64_t lay_out(struct ht_form_state *form, uint32_t words_max, uint64_t pool_bytes) {
    uint64_t words = pool_bytes / segments_least(form) / sizeof(uint64_t);
    words -= words < 64 ? words : sizeof(struct ht_segment) / sizeof(uint64_t) + HT_WORDS_PADDING;
    form->segment_words_max = words < words_max ? (uint32_t)words : words_max;
    if (form->segment_words_max < HT_SEGMENT_WORDS_MIN) form->segment_words_max = HT_SEGMENT_WORDS_MIN;
    uint64_t segments = pool_bytes / pool_segment_bytes(form);
    if (segments < segments_least(form)) segments = segments_least(form);
    return pool_header_bytes(form) + segments * pool_segment_bytes(form);
}

static void *map(int fd, uint64_t bytes) {
    if (ftruncate(fd, (off_t)bytes)) return MAP_FAILED;
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

// The largest pool that can be had. *bytes: what it takes, or would.
static void *map_what_fits(struct ht_form_state *form, int fd, uint64_t *bytes) {
    uint32_t words_max = form->segment_words_max;
    uint64_t least = lay_out(form, words_max, 0), pool_bytes = bytes_wanted(form);
    *bytes = least;
    errno = ENOMEM;
    if (least > ht_memory_available_bytes()) return MAP_FAILED;
    for (;; pool_bytes /= 2) {
        *bytes = lay_out(form, words_max, pool_bytes);
        void *mapped = map(fd, *bytes);
        if (mapped != MAP_FAILED || errno != ENOMEM || *bytes == least) return mapped;
    }
}

static int failed(struct ht_form_state *form, int fd, uint64_t bytes) {
    char text[32], threads[HT_NUMBER_OF_BYTES];
    ht_error_system(form->error, form->path, "%s of shared memory for the decoded trace, with %s",
                    ht_bytes(text, (double)bytes), ht_number_of(threads, form->streams_count, "thread"));
    if (fd >= 0) close(fd);
    return -1;
}

// The child writes into the pool, but its size is for nobody to change.
int ht_pool_prepare(struct ht_form_state *form) {
    struct ht_built_form *built = form->built;
    uint64_t bytes = 0;
    int fd = memfd_create("heaptape-pool", MFD_ALLOW_SEALING);
    void *mapped = fd < 0 ? MAP_FAILED : map_what_fits(form, fd, &bytes);
    if (mapped == MAP_FAILED) return failed(form, fd, bytes);
    uint64_t header_bytes = pool_header_bytes(form);
    struct ht_form *header = calloc(1, header_bytes);
    if (!header || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        free(header);
        munmap(mapped, bytes);
        return failed(form, fd, bytes);
    }
    memcpy(header, built->form, built->mapped_bytes);
    free(built->form);
    header->streamed = 1;
    header->bytes = bytes;
    built->form = header;
    built->pool = mapped;
    built->mapped_bytes = bytes;
    built->fd = fd;
    return 0;
}

enum { STACK_BYTES = 256 << 10 };

static const struct timespec poll_again = {.tv_nsec = 10000000};

struct ht_decoder {
    pthread_t thread;
    struct ht_form_state *form;  // borrowed, with what follows in the places of its own
    struct ht_built_form decoded, *borrowed_built;
    struct ht_error error, *borrowed_error;
    struct ht_form *shared;  // which the child can write: nothing that is read there is believed
    uint32_t readers;        // of each segment
    bool alternate;
    uint32_t segments, segment_units, first_segment_unit;
    uint32_t next_segment, segments_used;
    uint32_t left_seen;    // segments_left when segments_used was true
    uint32_t *last_units;  // by stream
    _Atomic uint32_t abandoned;
    int failed;
};

static struct ht_segment *pool_segment(const struct ht_decoder *decoder, uint32_t segment, uint32_t *unit) {
    *unit = decoder->first_segment_unit + segment * decoder->segment_units;
    return ht_form_segment(decoder->shared, *unit);
}

static int damaged(struct ht_decoder *decoder) {
    if (decoder->error.status) return -1;
    errno = 0;
    return ht_error_system(&decoder->error, decoder->form->path, "the child overwrote the decoded trace");
}

// Learns how many segments have been left. Returns 0, or -1 with error.
static int check_left(struct ht_decoder *decoder) {
    uint32_t left = atomic_load(&decoder->shared->segments_left), more = left - decoder->left_seen;
    if (more > decoder->segments_used) return damaged(decoder);
    decoder->segments_used -= more;
    decoder->left_seen = left;
    return 0;
}

static uint32_t segments_free(const struct ht_decoder *decoder) {
    return decoder->segments - decoder->segments_used;
}

static int take_segment(struct ht_decoder *decoder, struct ht_segment **segment, uint32_t *unit) {
    for (uint32_t tried = 0; tried < decoder->segments; tried++) {
        *segment = pool_segment(decoder, decoder->next_segment, unit);
        decoder->next_segment = (decoder->next_segment + 1) % decoder->segments;
        if (atomic_load(&(*segment)->readers) == 0) {
            decoder->segments_used++;
            return 0;
        }
    }
    return damaged(decoder);
}

static void name_next(struct ht_decoder *decoder, uint32_t stream, uint32_t unit) {
    uint32_t last = decoder->last_units[stream];
    _Atomic uint32_t *next = last ? &ht_form_segment(decoder->shared, last)->next_unit
                                  : &ht_form_streams(decoder->shared)[stream].first_unit;
    decoder->last_units[stream] = unit;
    atomic_store(next, unit);
    ht_futex_wake_shared(next);
}

static int put_segment(struct ht_decoder *decoder, uint32_t stream, const struct ht_segment *segment) {
    struct ht_segment *to = NULL;
    uint32_t unit = 0;
    if (take_segment(decoder, &to, &unit)) return -1;
    to->words = segment->words;
    atomic_store(&to->next_unit, 0);
    atomic_store(&to->readers, decoder->readers);
    memcpy(to + 1, segment + 1, (segment->words + HT_WORDS_PADDING) * sizeof(uint64_t));
    name_next(decoder, stream, unit);
    return 0;
}

// Links all that is begun. The caller knows that there are segments for it.
static int link_begun(struct ht_form_state *form) {
    for (uint32_t i = 0; i <= form->streams_count; i++) {
        struct ht_stream_state *stream = &form->streams[i];
        if (!stream->used) continue;
        ht_form_seal(stream);
        if (put_segment(form->sink_state, i, stream->segment)) return -1;
    }
    return 0;
}

static int await_segments(struct ht_decoder *decoder, uint32_t wanted) {
    while (segments_free(decoder) < wanted) {
        if (atomic_load(&decoder->abandoned) || check_left(decoder)) return -1;
        if (segments_free(decoder) >= wanted) break;
        ht_futex_wait_shared(&decoder->shared->segments_left, decoder->left_seen, &poll_again);
    }
    return 0;
}

static void set_filling(struct ht_decoder *decoder, bool yes) {
    atomic_store(&decoder->shared->filling, yes);
    if (!yes) ht_futex_wake_shared(&decoder->shared->filling);
}

// So many segments are kept for link_begun: one for each stream. Between two links more than these are free.
static uint32_t reserve(const struct ht_form_state *form) { return form->streams_count + 1; }

static int link_segment(struct ht_form_state *form, uint32_t stream, const struct ht_segment *segment) {
    struct ht_decoder *decoder = form->sink_state;
    if (atomic_load(&decoder->abandoned) || put_segment(decoder, stream, segment) || check_left(decoder))
        return -1;
    if (segments_free(decoder) > reserve(form)) return 0;
    // The code that makes room may need any of what is begun (see replay_feed.c).
    if (link_begun(form)) return -1;
    atomic_store(&decoder->shared->complete_ns, form->at_ns);
    set_filling(decoder, false);
    uint32_t wanted = decoder->alternate ? decoder->segments - reserve(form) : decoder->segments / 4;
    if (await_segments(decoder, reserve(form) + 1 > wanted ? reserve(form) + 1 : wanted)) return -1;
    set_filling(decoder, decoder->alternate);
    return 0;
}

static int end_stream(struct ht_form_state *form, uint32_t stream) {
    name_next(form->sink_state, stream, HT_SEGMENT_NONE);
    return 0;
}

// Threads that have little to do should not wait for theirs until a segment is full.
static int tick(struct ht_form_state *form) {
    struct ht_decoder *decoder = form->sink_state;
    if (atomic_load(&decoder->abandoned) || check_left(decoder)) return -1;
    if (segments_free(decoder) <= 2 * reserve(form)) return 0;
    if (link_begun(form)) return -1;
    atomic_store(&decoder->shared->complete_ns, form->at_ns);
    return 0;
}

static const struct ht_form_sink sink = {.link = link_segment, .end = end_stream, .tick = tick};

// What is decoded again must be what was decoded before: the child has room for that much.
static int compare_with_first(struct ht_decoder *decoder) {
    const struct ht_form *first = decoder->borrowed_built->form, *again = decoder->decoded.form;
    char text[HT_NUMBER_OF_BYTES];
    if (first->operations == again->operations && first->samples == again->samples &&
        first->readings == again->readings)
        return 0;
    return ht_error_input(&decoder->error, decoder->form->path, 0,
                          "expected the same trace as in the first reading, with %s to "
                          "replay, found %" PRIu64,
                          ht_number_of(text, first->operations, "call"), again->operations);
}

static void *decode(void *argument) {
    struct ht_decoder *decoder = argument;
    decoder->failed = ht_form_write(decoder->form);
    if (!decoder->failed) decoder->failed = compare_with_first(decoder);
    if (decoder->failed) atomic_store(&decoder->shared->broken, 1);
    set_filling(decoder, false);
    return NULL;
}

// Everything of the run before is gone, whatever that child did to it.
static void reset(struct ht_decoder *decoder) {
    struct ht_form *shared = decoder->shared;
    uint32_t unit;
    memcpy(shared, decoder->borrowed_built->form, pool_header_bytes(decoder->form));
    for (uint32_t i = 0; i < decoder->segments; i++)
        atomic_store(&pool_segment(decoder, i, &unit)->readers, 0);
    set_filling(decoder, decoder->alternate);
}

// What the decoding counts goes into a header of its own: the shared one is being read.
static int borrow(struct ht_decoder *decoder, const struct ht_built_form *built) {
    struct ht_form_state *form = built->state;
    uint64_t header_bytes = pool_header_bytes(form), segment_bytes = pool_segment_bytes(form);
    decoder->form = form;
    decoder->shared = built->pool;
    decoder->borrowed_built = form->built;
    decoder->borrowed_error = form->error;
    decoder->segment_units = (uint32_t)(segment_bytes / HT_SEGMENT_UNIT_BYTES);
    decoder->first_segment_unit = (uint32_t)(header_bytes / HT_SEGMENT_UNIT_BYTES);
    decoder->segments = (uint32_t)((built->mapped_bytes - header_bytes) / segment_bytes);
    decoder->last_units = calloc(form->streams_count + 1, sizeof(uint32_t));
    decoder->decoded = (struct ht_built_form){.fd = -1, .form = malloc(header_bytes)};
    if (!decoder->last_units || !decoder->decoded.form) return -1;
    memcpy(decoder->decoded.form, built->form, header_bytes);
    form->built = &decoder->decoded;
    form->error = &decoder->error;
    form->sink = &sink;
    form->sink_state = decoder;
    return 0;
}

static void return_borrowed(struct ht_decoder *decoder) {
    decoder->form->built = decoder->borrowed_built;
    decoder->form->error = decoder->borrowed_error;
    free(decoder->decoded.form);
    free(decoder->decoded.points);
    free(decoder->decoded.reading_points);
    free(decoder->last_units);
    free(decoder);
}

// A small stack, because address space may be limited.
static int start_thread(struct ht_decoder *decoder) {
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed) return failed;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    failed = pthread_create(&decoder->thread, &attributes, decode, decoder);
    pthread_attr_destroy(&attributes);
    return failed;
}

struct ht_decoder *ht_decoder_start(const struct ht_built_form *built, uint32_t readers, bool alternate,
                                    struct ht_error *error) {
    struct ht_decoder *decoder = calloc(1, sizeof *decoder);
    assert(built->form->streamed && readers > 0);
    if (!decoder) {
        ht_error_memory(error, built->state->path, "decoding the trace");
        return NULL;
    }
    decoder->readers = readers;
    decoder->alternate = alternate;
    errno = ENOMEM;
    int failed = borrow(decoder, built);
    if (!failed) {
        reset(decoder);
        failed = errno = start_thread(decoder);
    }
    if (!failed) return decoder;
    ht_error_system(error, built->state->path, "decoding the trace");
    return_borrowed(decoder);
    return NULL;
}

int ht_decoder_stop(struct ht_decoder *decoder, struct ht_error *error) {
    atomic_store(&decoder->abandoned, 1);
    ht_futex_wake_shared(&decoder->shared->segments_left);
    pthread_join(decoder->thread, NULL);
    // Abandoned it fails without an error, which is none.
    int failed = decoder->failed && decoder->error.status ? -1 : 0;
    if (failed) *error = decoder->error;
    return_borrowed(decoder);
    return failed;
}
