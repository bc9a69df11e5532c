// Two passes over the events. The first counts each thread's events and finds the ops after which a slot goes
// over to another thread; the second writes the streams.
#include "form_builder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "random_numbers.h"

// The most words that one event can become: time, wait, an op of four, publish. The memfd is sparse, so
// what is not used costs nothing.
enum { WORDS_PER_EVENT_MAX = 7, SAMPLES_PER_TRACE = 10000, SAMPLE_STEP_BYTES_MIN = 4096, PAGE_BYTES = 4096 };
#define NOBODY UINT32_MAX
#define NOT_LIVE UINT64_MAX

struct slot_state {
    uint64_t size;        // of the live block, or NOT_LIVE
    uint64_t last_event;  // the op on it that came last
    uint32_t last_thread;
    uint32_t handovers;
};

struct stream_state {
    uint64_t events;
    uint64_t *words;
    uint64_t used;
    uint64_t told_ns;  // place told last
    bool begun;
    struct ht_mark *timed, *samples;
    size_t timed_count, timed_room, samples_count, samples_room;
    uint64_t operations, start_ns, last_ns;
};

struct builder {
    struct ht_trace_reader *reader;
    const char *path;
    const struct ht_form_options *options;
    struct ht_built_form *built;
    struct ht_error *error;
    struct ht_trace_facts facts;
    struct ht_op_shape shape[256];
    struct slot_state *slots;
    uint32_t slots_count;
    size_t slots_room;
    struct stream_state *streams;
    uint32_t streams_count;
    size_t streams_room;
    uint64_t *publishing;  // a bit per event: the op's slot goes to another thread next
    uint64_t events;
    size_t publishing_room;
    char *base;  // of the memfd's mapping
    uint64_t base_bytes;
    // The second pass.
    size_t residency_at;
    uint64_t live_bytes, step_above_bytes, sample_every;
    size_t points_room;
    struct ht_random random;
    uint64_t until_timed;
};

static int out_of_memory(struct builder *b) {
    errno = ENOMEM;
    return ht_error_system(b->error, b->path, "decoding the trace");
}

// Makes room for one more; elements added are zero. Returns false without memory.
static bool grow(void **array, size_t *room, size_t needed, size_t element_bytes) {
    if (needed <= *room) return true;
    size_t bigger = *room ? *room * 2 : 256;
    if (bigger < needed) bigger = needed;
    char *moved = realloc(*array, bigger * element_bytes);
    if (!moved) return false;
    memset(moved + *room * element_bytes, 0, (bigger - *room) * element_bytes);
    *array = moved;
    *room = bigger;
    return true;
}

static uint32_t stream_of(const struct builder *b, uint32_t thread) { return b->options->one_thread ? 0 : thread; }

// ---- First pass: counts and handovers.

static int count_event(struct builder *b, uint32_t thread, uint32_t slot, const struct ht_op_shape *shape,
                       uint64_t event) {
    if (!grow((void **)&b->streams, &b->streams_room, (size_t)thread + 1, sizeof *b->streams)) return out_of_memory(b);
    if (thread >= b->streams_count) b->streams_count = thread + 1;
    b->streams[thread].events++;
    if (!grow((void **)&b->publishing, &b->publishing_room, event / 64 + 1, sizeof *b->publishing)) {
        return out_of_memory(b);
    }
    if (!shape->slot) return 0;
    if (!grow((void **)&b->slots, &b->slots_room, (size_t)slot + 1, sizeof *b->slots)) return out_of_memory(b);
    while (b->slots_count <= slot) b->slots[b->slots_count++].last_thread = NOBODY;
    struct slot_state *state = &b->slots[slot];
    if (state->last_thread != NOBODY && state->last_thread != thread) {
        b->publishing[state->last_event / 64] |= 1ull << state->last_event % 64;
    }
    state->last_thread = thread;
    state->last_event = event;
    return 0;
}

static int bad_event(struct builder *b, const struct ht_section_place *place, uint64_t event, const char *expected) {
    return ht_error_input(b->error, b->path, place->offset, "event %" PRIu64 ": %s", event, expected);
}

static int count_section(struct builder *b, const struct ht_section_place *place, const struct ht_events *events) {
    for (uint32_t i = 0; i < events->rows; i++) {
        const struct ht_op_shape *shape = &b->shape[events->op[i]];
        uint64_t event = events->first_event + i;
        uint32_t slot = events->slot[i];
        if (!shape->valid) return bad_event(b, place, event, "a function of the malloc family expected");
        if (event != b->events) return bad_event(b, place, event, "events in unbroken order expected");
        if (shape->slot && (slot == 0 || slot >= HT_SLOTS_LIMIT)) {
            return bad_event(b, place, event, "a slot from 1 to 536870911 expected (replay's limit)");
        }
        if (events->time_ns[i] >= HT_TIME_LIMIT_NS) {
            return bad_event(b, place, event, "a time within 73 years of the start expected");
        }
        if (count_event(b, stream_of(b, events->thread[i]), slot, shape, event)) return -1;
        b->events++;
    }
    return 0;
}

static int each_section(struct builder *b, int (*visit)(struct builder *, const struct ht_section_place *,
                                                        const struct ht_events *)) {
    for (size_t i = 0; i < ht_trace_sections(b->reader); i++) {
        const struct ht_section_place *place = ht_trace_section(b->reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(b->reader, i, &events, b->error) || visit(b, place, &events)) return -1;
    }
    return 0;
}

// ---- Between the passes: the memfd, with a region for each stream.

static uint64_t round_to_page(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static int make_memory(struct builder *b) {
    uint64_t offset = round_to_page(sizeof(struct ht_form) + b->streams_count * sizeof(struct ht_stream));
    for (uint32_t i = 0; i < b->streams_count; i++) {
        offset += round_to_page((b->streams[i].events * WORDS_PER_EVENT_MAX + 2 + HT_WORDS_PADDING) * sizeof(uint64_t));
    }
    b->base_bytes = offset;
    b->built->fd = memfd_create("heaptape-form", 0);
    if (b->built->fd < 0 || ftruncate(b->built->fd, (off_t)offset)) {
        return ht_error_system(b->error, b->path, "shared memory for the decoded trace");
    }
    b->base = mmap(NULL, offset, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, b->built->fd, 0);
    if (b->base == MAP_FAILED) return ht_error_system(b->error, b->path, "mapping the decoded trace");
    b->built->form = (struct ht_form *)b->base;
    b->built->mapped_bytes = offset;
    offset = round_to_page(sizeof(struct ht_form) + b->streams_count * sizeof(struct ht_stream));
    for (uint32_t i = 0; i < b->streams_count; i++) {
        b->streams[i].words = (uint64_t *)(b->base + offset);
        offset += round_to_page((b->streams[i].events * WORDS_PER_EVENT_MAX + 2 + HT_WORDS_PADDING) * sizeof(uint64_t));
    }
    return 0;
}

// ---- Second pass: the streams.

static void put(struct stream_state *stream, uint64_t word) { stream->words[stream->used++] = word; }

static int put_mark(struct builder *b, struct ht_mark **marks, size_t *count, size_t *room, uint64_t word,
                    uint64_t value) {
    if (!grow((void **)marks, room, *count + 1, sizeof **marks)) return out_of_memory(b);
    (*marks)[(*count)++] = (struct ht_mark){.word = word, .value = value};
    return 0;
}

// One event, made ready to be put.
struct op {
    bool frees;
    enum ht_wide call;  // if not
    unsigned function;
    uint32_t slot;
    uint64_t size;   // of the call: calloc's element size
    uint64_t extra;  // count, alignment or former size
    uint64_t bytes;  // what the block holds afterwards
    uint64_t pages;  // known to have been resident, or HT_PAGES_BY_RULE
};

static uint64_t fit_alignment(uint64_t alignment) {
    uint64_t fitting = sizeof(void *);  // posix_memalign's least, and powers of two only
    while (fitting < alignment && fitting < 1ull << 62) fitting *= 2;
    return fitting;
}

static uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static void make_allocation(struct op *op, uint64_t extra, long page_bytes) {
    switch (op->function) {
    case HT_CALLOC:
        op->call = HT_WIDE_CALLOC;
        op->extra = extra;
        op->bytes = product(op->size, extra);
        break;
    case HT_POSIX_MEMALIGN:
    case HT_ALIGNED_ALLOC:
    case HT_MEMALIGN:
    case HT_NEW_ALIGNED:
    case HT_NEW_ARRAY_ALIGNED:
        // All as posix_memalign: memalign, valloc and pvalloc of some allocators are the C library's.
        op->call = HT_WIDE_ALIGNED;
        op->extra = fit_alignment(extra);
        break;
    case HT_PVALLOC:
        op->size = op->bytes = op->size > UINT64_MAX - (uint64_t)page_bytes
                                   ? op->size
                                   : (op->size + (uint64_t)page_bytes - 1) / (uint64_t)page_bytes * (uint64_t)page_bytes;
        op->call = HT_WIDE_ALIGNED;
        op->extra = (uint64_t)page_bytes;
        break;
    case HT_VALLOC:
        op->call = HT_WIDE_ALIGNED;
        op->extra = (uint64_t)page_bytes;
        break;
    default: op->call = HT_WIDE_MALLOC; break;  // malloc, operator new, a block live at the start
    }
}

static void make_realloc(struct op *op, unsigned variant, uint64_t count, uint64_t former) {
    if (op->function == HT_REALLOCARRAY) op->size = op->bytes = product(op->size, count);
    if (variant == HT_RELEASED) {
        op->frees = true;  // by what it did when recorded, whatever this allocator makes of size 0
        return;
    }
    if (variant == HT_NULL || variant == HT_FOREIGN) {
        op->call = HT_WIDE_REALLOC_NULL;
        return;
    }
    op->call = HT_WIDE_REALLOC;
    op->extra = former;
    if (op->size == 0) op->size = 1;  // it returned a block; some allocators would free it
}

static uint64_t pages_of_birth(struct builder *b, uint64_t event) {
    const struct ht_trace_facts *facts = &b->facts;
    while (b->residency_at < facts->residency_count && facts->residency[b->residency_at].event < event) {
        b->residency_at++;
    }
    if (b->residency_at == facts->residency_count || facts->residency[b->residency_at].event != event) {
        return HT_PAGES_BY_RULE;
    }
    return facts->residency[b->residency_at].pages_after;
}

static void put_op(struct stream_state *stream, const struct op *op) {
    static const enum ht_word_op narrow[] = {HT_WORD_MALLOC, HT_WORD_CALLOC, HT_WORD_REALLOC};
    static_assert(HT_WIDE_MALLOC == 0 && HT_WIDE_CALLOC == 1 && HT_WIDE_REALLOC == 2, "the calls in narrow");
    if (op->frees) {
        put(stream, ht_word(HT_WORD_FREE, op->slot, 0));
    } else if (op->call > HT_WIDE_REALLOC || op->size > UINT32_MAX || op->pages != HT_PAGES_BY_RULE) {
        put(stream, ht_word(HT_WORD_WIDE, op->slot, op->call));
        put(stream, op->size);
        put(stream, op->extra);
        put(stream, op->pages);
    } else {
        put(stream, ht_word(narrow[op->call], op->slot, (uint32_t)op->size));
        if (op->call != HT_WIDE_MALLOC) put(stream, op->extra);
    }
}

static void tell_time(struct stream_state *stream, uint64_t time_ns) {
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
static int mark_timed(struct builder *b, struct stream_state *stream, unsigned function) {
    if (b->options->timed_one_in == 0 || function >= HT_DROP) return 0;
    if (b->until_timed-- > 0) return 0;
    b->until_timed = ht_random_below(&b->random, 2 * b->options->timed_one_in - 1);
    return put_mark(b, &stream->timed, &stream->timed_count, &stream->timed_room, stream->used, function);
}

// RSS is read at every new maximum of live bytes (in steps of 0.1 %) and every so many events.
static int mark_sample(struct builder *b, struct stream_state *stream, uint64_t event, uint64_t time_ns) {
    struct ht_built_form *built = b->built;
    bool higher = b->live_bytes > b->step_above_bytes;
    if (!higher && event % b->sample_every && event + 1 != b->events) return 0;
    if (higher) {
        uint64_t step = b->live_bytes / 1000;
        b->step_above_bytes = b->live_bytes + (step > SAMPLE_STEP_BYTES_MIN ? step : SAMPLE_STEP_BYTES_MIN);
    }
    uint32_t number = built->form->samples++;
    if (!grow((void **)&built->points, &b->points_room, (size_t)number + 1, sizeof *built->points)) {
        return out_of_memory(b);
    }
    built->points[number] = (struct ht_sample_point){time_ns, event, b->live_bytes};
    return put_mark(b, &stream->samples, &stream->samples_count, &stream->samples_room, stream->used, number);
}

static void wait_for_slot(struct stream_state *stream, struct slot_state *state, uint32_t thread, uint32_t slot) {
    if (state->last_thread != NOBODY && state->last_thread != thread) {
        put(stream, ht_word(HT_WORD_WAIT, slot, state->handovers & INT32_MAX));
    }
    state->last_thread = thread;
}

// Follows what is live; returns what was expected instead, if the trace can't be replayed.
static const char *follow_slot(struct builder *b, const struct op *op, const struct ht_op_shape *shape) {
    struct slot_state *state = &b->slots[op->slot];
    bool live = state->size != NOT_LIVE;
    if (shape->makes_object && live) return "an allocation into a free slot expected";
    if (!shape->makes_object && !live) return "a slot with a live object expected";
    if (live) b->live_bytes -= state->size;
    if (shape->ends_object) {
        state->size = NOT_LIVE;
    } else {
        if (op->bytes > INT64_MAX) return "a size below 2^63 expected";
        state->size = op->bytes;
        b->live_bytes += op->bytes;
        if (b->live_bytes > b->built->live_peak_bytes) b->built->live_peak_bytes = b->live_bytes;
    }
    return NULL;
}

static bool skipped(struct builder *b, const struct ht_op_shape *shape, uint8_t op) {
    if (ht_op_variant(op) == HT_FAILED) {
        b->built->failed_skipped++;
        return true;
    }
    if (ht_op_variant(op) == HT_FOREIGN && !shape->makes_object) {
        b->built->foreign_skipped++;
        return true;
    }
    return false;
}

static struct op read_op(struct builder *b, const struct ht_events *events, uint32_t i) {
    uint8_t code = events->op[i];
    struct op op = {.function = ht_op_function(code), .slot = events->slot[i], .pages = HT_PAGES_BY_RULE};
    enum ht_kind kind = ht_functions[op.function].kind;
    op.size = op.bytes = events->size[i];
    bool release = op.function == HT_DROP || kind == HT_KIND_FREE;
    if (release) {
        op.frees = true;
        op.size = op.bytes = 0;
    } else if (kind == HT_KIND_REALLOC) {
        make_realloc(&op, ht_op_variant(code), events->extra[i], b->slots[op.slot].size);
    } else {
        make_allocation(&op, events->extra[i], sysconf(_SC_PAGESIZE));
    }
    if (!release) op.pages = pages_of_birth(b, events->first_event + i);
    return op;
}

static int write_event(struct builder *b, const struct ht_section_place *place, const struct ht_events *events,
                       uint32_t i) {
    struct ht_built_form *built = b->built;
    const struct ht_op_shape *shape = &b->shape[events->op[i]];
    uint64_t event = events->first_event + i, time_ns = events->time_ns[i];
    uint32_t thread = stream_of(b, events->thread[i]);
    struct stream_state *stream = &b->streams[thread];
    built->duration_ns = stream->last_ns = time_ns;
    if (skipped(b, shape, events->op[i])) return 0;
    struct op op = read_op(b, events, i);
    const char *expected = shape->slot ? follow_slot(b, &op, shape) : NULL;
    if (expected) return bad_event(b, place, event, expected);
    tell_time(stream, time_ns);
    if (shape->slot) wait_for_slot(stream, &b->slots[op.slot], thread, op.slot);
    if (mark_timed(b, stream, op.function)) return -1;
    put_op(stream, &op);
    stream->operations++;
    if (op.function < HT_DROP) {
        built->calls[op.function]++;
        built->calls_total++;
    } else {
        built->pseudo++;
    }
    if (b->publishing[event / 64] >> event % 64 & 1) {
        put(stream, ht_word(HT_WORD_PUBLISH, op.slot, ++b->slots[op.slot].handovers & INT32_MAX));
    }
    return mark_sample(b, stream, event, time_ns);
}

static int write_section(struct builder *b, const struct ht_section_place *place, const struct ht_events *events) {
    for (uint32_t i = 0; i < events->rows; i++) {
        if (write_event(b, place, events, i)) return -1;
    }
    return 0;
}

static void prepare_second_pass(struct builder *b) {
    for (uint32_t i = 0; i < b->slots_count; i++) {
        b->slots[i] = (struct slot_state){.size = NOT_LIVE, .last_thread = NOBODY};
    }
    b->sample_every = b->events / SAMPLES_PER_TRACE + 1;
    b->random.state = b->options->seed;
    if (b->options->timed_one_in) b->until_timed = ht_random_below(&b->random, 2 * b->options->timed_one_in - 1);
}

// ---- Afterwards: the marks, behind the streams, and the header.

// Appends to the memfd, which grows; pages behind base are reached through the file.
static int append(struct builder *b, const void *data, size_t bytes, uint64_t *offset) {
    const char *at = data;
    *offset = b->base_bytes;
    b->base_bytes += round_to_page(bytes);
    if (ftruncate(b->built->fd, (off_t)b->base_bytes)) return ht_error_system(b->error, b->path, "shared memory");
    uint64_t to = *offset;
    while (bytes) {
        ssize_t put_bytes = pwrite(b->built->fd, at, bytes, (off_t)to);
        if (put_bytes < 0 && errno == EINTR) continue;
        if (put_bytes <= 0) return ht_error_system(b->error, b->path, "shared memory");
        at += put_bytes;
        to += (uint64_t)put_bytes;
        bytes -= (size_t)put_bytes;
    }
    return 0;
}

static int finish_stream(struct builder *b, uint32_t i) {
    struct stream_state *state = &b->streams[i];
    struct ht_stream *stream = (struct ht_stream *)(b->base + b->built->form->streams_offset) + i;
    const struct ht_thread *thread = !b->options->one_thread && i < b->facts.threads_count ? &b->facts.threads[i] : NULL;
    stream->stays = !thread || !thread->ended;
    uint64_t end_ns = thread && thread->ended ? thread->end_ns : 0;
    // The end is a place in trace time too: what the allocator keeps for the thread goes then, not before.
    if (state->begun && end_ns > state->told_ns && end_ns < HT_TIME_LIMIT_NS) put(state, ht_word_time(end_ns));
    stream->words_offset = (uint64_t)((char *)state->words - b->base);
    stream->words_count = state->used;
    stream->start_ns = state->start_ns;
    stream->operations = state->operations;
    stream->timed_count = state->timed_count;
    stream->sample_count = state->samples_count;
    b->built->form->operations += state->operations;
    if (append(b, state->timed, state->timed_count * sizeof(struct ht_mark), &stream->timed_offset)) return -1;
    return append(b, state->samples, state->samples_count * sizeof(struct ht_mark), &stream->sample_offset);
}

// The recorded program's initial thread runs on the child's: allocators treat it as something special
// (glibc's main arena), and a program with one thread must stay one.
static uint32_t initial_stream(const struct builder *b) {
    if (b->streams_count == 1) return 0;
    for (uint32_t i = 0; i < b->streams_count && i < b->facts.threads_count; i++) {
        if (b->options->initial_tid && b->facts.threads[i].tid == b->options->initial_tid) return i;
    }
    return HT_NO_STREAM;
}

static int finish_form(struct builder *b) {
    struct ht_form *form = b->built->form;
    for (uint32_t i = 0; i < b->streams_count; i++) {
        if (finish_stream(b, i)) return -1;
    }
    form->streams = b->streams_count;
    form->initial_stream = initial_stream(b);
    form->slots = b->slots_count;
    form->bytes = b->base_bytes;
    form->magic = HT_FORM_MAGIC;
    return 0;
}

static int build(struct builder *b) {
    for (unsigned op = 0; op < 256; op++) b->shape[op] = ht_op_shape((uint8_t)op);
    if (ht_trace_facts(b->reader, &b->facts, b->error)) return -1;
    if (each_section(b, count_section)) return -1;
    if (b->events == 0) {
        return ht_error_input(b->error, b->path, ht_trace_valid_bytes(b->reader), "at least one event expected");
    }
    if (make_memory(b)) return -1;
    b->built->form->streams_offset = sizeof(struct ht_form);
    prepare_second_pass(b);
    if (each_section(b, write_section)) return -1;
    return finish_form(b);
}

int ht_form_build(struct ht_trace_reader *reader, const char *path, const struct ht_form_options *options,
                  struct ht_built_form *built, struct ht_error *error) {
    struct builder b = {.reader = reader, .path = path, .options = options, .built = built, .error = error};
    *built = (struct ht_built_form){.fd = -1};
    int failed = build(&b);
    for (uint32_t i = 0; i < b.streams_count; i++) {
        free(b.streams[i].timed);
        free(b.streams[i].samples);
    }
    free(b.streams);
    free(b.slots);
    free(b.publishing);
    ht_trace_facts_free(&b.facts);
    if (failed) ht_form_free(built);
    return failed;
}

void ht_form_free(struct ht_built_form *built) {
    if (built->form) munmap(built->form, built->mapped_bytes);
    if (built->fd >= 0) close(built->fd);
    free(built->points);
    *built = (struct ht_built_form){.fd = -1};
}
