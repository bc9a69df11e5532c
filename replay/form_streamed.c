#include "form_streamed.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form_chunks.h"
#include "futex_word.h"

enum {
    POOL_BYTES_MIN = 4 << 20,
    POOL_BYTES_MAX = 64 << 20,
    SLOTS_PER_STREAM = 4,
    SLOTS_SPARE = 16,
    STACK_BYTES = 256 << 10
};

static const struct timespec look_again = {.tv_nsec = 10000000};

struct ht_decoder {
    pthread_t thread;
    struct ht_form_state *form;  // lent, with what follows in the places of its own
    struct ht_built_form told, *lent_built;
    struct ht_error error, *lent_error;
    struct ht_form *shared;
    uint32_t readers;  // of each chunk
    bool alternate;
    uint32_t slots, slot_units, first_slot_unit;
    uint32_t next_slot, slots_used;
    uint32_t left_seen;    // chunks_left when slots_used was true
    uint32_t *last_units;  // by stream
    _Atomic uint32_t abandoned;
    int failed;
};

static int failed_system(struct ht_form_state *form) {
    return ht_error_system(form->error, form->path, "shared memory for the decoded trace");
}

static uint64_t round_up(uint64_t bytes) {
    return (bytes + HT_CHUNK_UNIT_BYTES - 1) / HT_CHUNK_UNIT_BYTES * HT_CHUNK_UNIT_BYTES;
}

static uint64_t slot_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_chunk) + (form->chunk_words_max + HT_WORDS_PADDING) * sizeof(uint64_t));
}

static uint64_t header_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_form) + (form->streams_count + 1) * sizeof(struct ht_stream));
}

// Half of what a held form may have: the launcher's own tables need some, too.
static uint64_t pool_bytes(const struct ht_form_state *form) {
    uint64_t bytes = form->options->held_bytes_max / 2;
    return bytes < POOL_BYTES_MIN ? POOL_BYTES_MIN : bytes < POOL_BYTES_MAX ? bytes : POOL_BYTES_MAX;
}

// The pool's chunks are smaller than those of a held form, so that every stream can have some.
static void shrink_chunks(struct ht_form_state *form) {
    uint64_t slots_least = (uint64_t)SLOTS_PER_STREAM * (form->streams_count + 1) + SLOTS_SPARE;
    uint64_t words = pool_bytes(form) / slots_least / sizeof(uint64_t);
    words -= words < 64 ? 0 : sizeof(struct ht_chunk) / sizeof(uint64_t) + HT_WORDS_PADDING;
    if (words < form->chunk_words_max) form->chunk_words_max = (uint32_t)words;
    if (form->chunk_words_max < HT_CHUNK_WORDS_MIN) form->chunk_words_max = HT_CHUNK_WORDS_MIN;
}

int ht_form_stream_prepare(struct ht_form_state *form) {
    struct ht_built_form *built = form->built;
    struct ht_form *header = built->form;
    shrink_chunks(form);
    uint64_t slots = pool_bytes(form) / slot_bytes(form);
    uint64_t slots_least = (uint64_t)SLOTS_PER_STREAM * (form->streams_count + 1) + SLOTS_SPARE;
    if (slots < slots_least) slots = slots_least;
    uint64_t bytes = header_bytes(form) + slots * slot_bytes(form);
    int fd = memfd_create("heaptape-pool", 0);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
        failed_system(form);
        if (fd >= 0) close(fd);
        return -1;
    }
    struct ht_form *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        failed_system(form);
        close(fd);
        return -1;
    }
    memcpy(map, header, built->mapped_bytes);
    map->streamed = 1;
    map->bytes = bytes;
    free(header);
    built->form = map;
    built->mapped_bytes = bytes;
    built->fd = fd;
    return 0;
}

static struct ht_chunk *slot_chunk(const struct ht_decoder *decoder, uint32_t slot, uint32_t *unit) {
    *unit = decoder->first_slot_unit + slot * decoder->slot_units;
    return ht_form_chunk(decoder->shared, *unit);
}

static uint32_t slots_free(struct ht_decoder *decoder) {
    uint32_t left = atomic_load(&decoder->shared->chunks_left);
    decoder->slots_used -= left - decoder->left_seen;
    decoder->left_seen = left;
    return decoder->slots - decoder->slots_used;
}

static int take_slot(struct ht_decoder *decoder, struct ht_chunk **chunk, uint32_t *unit) {
    for (uint32_t tried = 0; tried < decoder->slots; tried++) {
        *chunk = slot_chunk(decoder, decoder->next_slot, unit);
        decoder->next_slot = (decoder->next_slot + 1) % decoder->slots;
        if (atomic_load(&(*chunk)->readers) == 0) {
            decoder->slots_used++;
            return 0;
        }
    }
    assert(!"a free slot");
    return -1;
}

static void name_next(struct ht_decoder *decoder, uint32_t stream, uint32_t unit) {
    uint32_t last = decoder->last_units[stream];
    _Atomic uint32_t *next = last ? &ht_form_chunk(decoder->shared, last)->next_unit
                                  : &ht_form_streams(decoder->shared)[stream].first_unit;
    decoder->last_units[stream] = unit;
    atomic_store(next, unit);
    ht_futex_wake_shared(next);
}

static int put_chunk(struct ht_decoder *decoder, uint32_t stream, const struct ht_chunk *chunk) {
    struct ht_chunk *to;
    uint32_t unit;
    if (take_slot(decoder, &to, &unit)) return -1;
    to->words = chunk->words;
    atomic_store(&to->next_unit, 0);
    atomic_store(&to->readers, decoder->readers);
    memcpy(to + 1, chunk + 1, (chunk->words + HT_WORDS_PADDING) * sizeof(uint64_t));
    name_next(decoder, stream, unit);
    return 0;
}

// Links all that is begun. The caller knows that there are slots for it.
static int link_begun(struct ht_form_state *form) {
    for (uint32_t i = 0; i <= form->streams_count; i++) {
        struct ht_stream_state *stream = &form->streams[i];
        if (!stream->used) continue;
        ht_form_seal(stream);
        if (put_chunk(form->sink_state, i, stream->chunk)) return -1;
    }
    return 0;
}

static int await_slots(struct ht_decoder *decoder, uint32_t wanted) {
    while (slots_free(decoder) < wanted) {
        if (atomic_load(&decoder->abandoned)) return -1;
        ht_futex_wait_shared(&decoder->shared->chunks_left, decoder->left_seen, &look_again);
    }
    return 0;
}

static void set_filling(struct ht_decoder *decoder, bool yes) {
    atomic_store(&decoder->shared->filling, yes);
    if (!yes) ht_futex_wake_shared(&decoder->shared->filling);
}

// So many slots are kept for link_begun: one for each stream. Between two links more than these are free.
static uint32_t reserve(const struct ht_form_state *form) { return form->streams_count + 1; }

static int link_chunk(struct ht_form_state *form, uint32_t stream, const struct ht_chunk *chunk) {
    struct ht_decoder *decoder = form->sink_state;
    if (atomic_load(&decoder->abandoned) || put_chunk(decoder, stream, chunk)) return -1;
    if (slots_free(decoder) > reserve(form)) return 0;
    // Whoever must make room may need any of what is begun (see replay_feed.c).
    if (link_begun(form)) return -1;
    atomic_store(&decoder->shared->complete_ns, form->at_ns);
    set_filling(decoder, false);
    uint32_t wanted = decoder->alternate ? decoder->slots - reserve(form) : decoder->slots / 4;
    if (await_slots(decoder, reserve(form) + 1 > wanted ? reserve(form) + 1 : wanted)) return -1;
    set_filling(decoder, decoder->alternate);
    return 0;
}

static int end_stream(struct ht_form_state *form, uint32_t stream) {
    name_next(form->sink_state, stream, HT_CHUNK_NONE);
    return 0;
}

// Threads that have little to do should not wait for theirs until a chunk is full.
static int tick(struct ht_form_state *form) {
    struct ht_decoder *decoder = form->sink_state;
    if (atomic_load(&decoder->abandoned)) return -1;
    if (slots_free(decoder) <= 2 * reserve(form)) return 0;
    if (link_begun(form)) return -1;
    atomic_store(&decoder->shared->complete_ns, form->at_ns);
    return 0;
}

static const struct ht_form_sink sink = {.link = link_chunk, .end = end_stream, .tick = tick};

static void *decode(void *argument) {
    struct ht_decoder *decoder = argument;
    decoder->failed = ht_form_write(decoder->form);
    if (decoder->failed) atomic_store(&decoder->shared->broken, 1);
    set_filling(decoder, false);
    return NULL;
}

// Everything of the run before is gone.
static void reset(struct ht_decoder *decoder) {
    struct ht_form *shared = decoder->shared;
    for (uint32_t i = 0; i <= shared->streams; i++) atomic_store(&ht_form_streams(shared)[i].first_unit, 0);
    for (uint32_t i = 0; i < decoder->slots; i++) {
        uint32_t unit;
        atomic_store(&slot_chunk(decoder, i, &unit)->readers, 0);
    }
    atomic_store(&shared->chunks_left, 0);
    atomic_store(&shared->complete_ns, 0);
    atomic_store(&shared->broken, 0);
    set_filling(decoder, decoder->alternate);
}

// What the decoding tells goes into a header of its own: the shared one is being read.
static int lend(struct ht_decoder *decoder, const struct ht_built_form *built) {
    struct ht_form_state *form = built->state;
    decoder->form = form;
    decoder->shared = built->form;
    decoder->lent_built = form->built;
    decoder->lent_error = form->error;
    decoder->slot_units = (uint32_t)(slot_bytes(form) / HT_CHUNK_UNIT_BYTES);
    decoder->first_slot_unit = (uint32_t)(header_bytes(form) / HT_CHUNK_UNIT_BYTES);
    decoder->slots = (uint32_t)((built->mapped_bytes - header_bytes(form)) / slot_bytes(form));
    decoder->last_units = calloc(form->streams_count + 1, sizeof(uint32_t));
    decoder->told = (struct ht_built_form){.fd = -1, .form = malloc(header_bytes(form))};
    if (!decoder->last_units || !decoder->told.form) return -1;
    memcpy(decoder->told.form, built->form, header_bytes(form));
    form->built = &decoder->told;
    form->error = &decoder->error;
    form->sink = &sink;
    form->sink_state = decoder;
    return 0;
}

static void give_back(struct ht_decoder *decoder) {
    decoder->form->built = decoder->lent_built;
    decoder->form->error = decoder->lent_error;
    free(decoder->told.form);
    free(decoder->told.points);
    free(decoder->told.reading_points);
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
        errno = ENOMEM;
        ht_error_system(error, built->state->path, "decoding the trace");
        return NULL;
    }
    decoder->readers = readers;
    decoder->alternate = alternate;
    errno = ENOMEM;
    int failed = lend(decoder, built);
    if (!failed) {
        reset(decoder);
        failed = errno = start_thread(decoder);
    }
    if (!failed) return decoder;
    ht_error_system(error, built->state->path, "decoding the trace");
    give_back(decoder);
    return NULL;
}

int ht_decoder_stop(struct ht_decoder *decoder, struct ht_error *error) {
    atomic_store(&decoder->abandoned, 1);
    ht_futex_wake_shared(&decoder->shared->chunks_left);
    pthread_join(decoder->thread, NULL);
    // Abandoned it fails without an error, which is none.
    int failed = decoder->failed && decoder->error.status ? -1 : 0;
    if (failed) *error = decoder->error;
    give_back(decoder);
    return failed;
}
