// SPDX-License-Identifier: Apache-2.0
#include "form_builder.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "all_bytes.h"
#include "form_segments.h"
#include "form_state.h"
#include "form_streamed.h"

enum { SEGMENTS_BEGUN_BYTES = 256 << 20 };

// The recorded program's initial thread runs on the child's: allocators treat it as something special
// (glibc's main arena), and a program with one thread must stay one.
static uint32_t initial_stream(const struct ht_form_state *form) {
    // The slice's threads count for its prelude, too.
    bool one = form->options->of_prelude && !form->options->one_thread ? form->facts.threads_count == 1
                                                                       : form->streams_count == 1;
    if (one) return 0;
    for (uint32_t i = 0; i < form->streams_count && i < form->facts.threads_count; i++) {
        if (form->options->initial_tid && form->facts.threads[i].tid == form->options->initial_tid) return i;
    }
    return HT_NO_STREAM;
}

// The header and the table of streams, in memory of their own until it is known where the segments go.
static int make_header(struct ht_form_state *form) {
    size_t bytes = sizeof(struct ht_form) + (form->streams_count + 1) * sizeof(struct ht_stream);
    struct ht_form *header = calloc(1, bytes);
    if (!header) return ht_error_memory(form->error, form->path, "decoding the trace");
    header->magic = HT_FORM_MAGIC;
    header->streams_offset = sizeof(struct ht_form);
    header->streams = form->streams_count;
    header->initial_stream = initial_stream(form);
    header->end_ns = form->options->end_ns;
    form->built->form = header;
    form->built->mapped_bytes = bytes;
    return 0;
}

// Large segments for few streams; with very many the sum of what is begun stays bounded.
static uint32_t segment_words_max(const struct ht_form_state *form) {
    uint64_t words = SEGMENTS_BEGUN_BYTES / sizeof(uint64_t) / form->streams_count;
    if (words > HT_SEGMENT_WORDS_MAX) words = HT_SEGMENT_WORDS_MAX;
    return words > HT_SEGMENT_WORDS_MIN ? (uint32_t)words : HT_SEGMENT_WORDS_MIN;
}

// Which slots hold a block when all has been replayed. The states change when the trace is decoded again.
static int keep_live_slots(struct ht_form_state *form) {
    uint32_t slots = form->built->form->slots;
    uint64_t *live = calloc(slots / 64 + 1, sizeof *live);
    if (!live) return ht_error_memory(form->error, form->path, "decoding the trace");
    for (uint32_t i = 0; i < form->slots_count; i++) {
        if (form->slots[i].bytes != HT_NOT_LIVE) live[i / 64] |= 1ull << i % 64;
    }
    form->built->live_slots = live;
    return 0;
}

// Copies that run side by side share one form: its figures are of one copy so far.
static void count_all_copies(struct ht_built_form *built, uint32_t copies) {
    for (int i = 0; i < HT_FUNCTIONS; i++) built->calls[i] *= copies;
    for (uint32_t i = 0; i < built->form->samples; i++) built->points[i].live_bytes *= copies;
    built->calls_total *= copies;
    built->failed_skipped *= copies;
    built->foreign_skipped *= copies;
    built->inherited_objects *= copies;
    built->live_peak_bytes *= copies;
    built->touched_peak_bytes *= copies;
    built->zeroed_peak_bytes *= copies;
    built->unmeasured_peak_bytes *= copies;
    built->side_by_side = copies;
}

static uint64_t times(uint64_t pages, uint64_t factor) {
    return pages > UINT64_MAX / factor ? UINT64_MAX : pages * factor;
}

// Pages of the machine that it was recorded on, where those are larger than the ones that are touched.
static void divide_pages(struct ht_trace_facts *facts, uint32_t page_bytes) {
    enum { PAGE_BYTES_MAX = 1 << 20 };
    uint64_t factor = page_bytes / HT_TOUCH_PAGE_BYTES;
    if (factor <= 1 || page_bytes > PAGE_BYTES_MAX) return;
    for (size_t i = 0; i < facts->residency_count; i++) {
        facts->residency[i].pages_before = times(facts->residency[i].pages_before, factor);
        facts->residency[i].pages_after = times(facts->residency[i].pages_after, factor);
        facts->residency[i].pages_spared = times(facts->residency[i].pages_spared, factor);
    }
    for (size_t i = 0; i < facts->steps_count; i++) {
        struct ht_residency_step *step = &facts->steps[i];
        step->pages = times(step->pages, factor);
        step->first_page = times(step->first_page, factor);
        step->run_pages = times(step->run_pages, factor);
    }
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
    return ht_write_at(held->fd, data, bytes, offset) ? 0 : failed(form);
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

static int end_held(struct ht_form_state *form, uint32_t stream) {
    const struct held *held = form->sink_state;
    return held->overflowed ? 0 : name_next(form, stream, HT_SEGMENT_NONE);
}

static const struct ht_form_sink sink = {.link = hold_segment, .end = end_held};

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

// Writes the form that form->built's header begins (in malloc'ed memory of mapped_bytes), which it replaces
// by a mapping of the finished one. Returns 0; 1 if it would be larger than form->options->held_bytes_max,
// with only the header and the figures filled in; -1 with error.
static int hold_form(struct ht_form_state *form) {
    uint64_t most = form->options->held_bytes_max;
    struct held held = {.bytes = round_up(form->built->mapped_bytes), .bytes_max = most ? most : UINT64_MAX};
    int outcome = hold(form, &held);
    if (held.fd >= 0) close(held.fd);
    free(held.first_units);
    free(held.last_units);
    return outcome;
}

static int build(struct ht_form_state *form) {
    for (unsigned op = 0; op < 256; op++) form->shape[op] = ht_op_shape((uint8_t)op);
    if (ht_trace_facts(form->reader, &form->facts, form->error) || ht_form_count(form)) return -1;
    divide_pages(&form->facts, form->options->page_bytes);
    // Without a call there is no stream.
    bool calls = form->events > form->inherited;
    if (calls) {
        form->segment_words_max = segment_words_max(form);
        if (make_header(form)) return -1;
        int outcome = hold_form(form);
        if (outcome > 0 && form->options->of_prelude)
            return ht_error_input(
                form->error, form->path, 0,
                "expected a slice whose prelude fits into memory (heaptape slice --fresh makes one without)");
        if (outcome < 0 || (outcome > 0 && ht_pool_prepare(form))) return -1;
        count_all_copies(form->built, form->options->scale > 1 ? form->options->scale / form->copies : 1);
        if (form->options->has_aligned && ht_form_count_odd(form)) return -1;
        if (form->built->form->operations) return keep_live_slots(form);
    }
    if (form->options->of_group)
        return 0;  // a process that was forked and calls nothing has its share all the same
    return ht_error_input(form->error, form->path, ht_trace_valid_bytes(form->reader),
                          "expected at least one call that can be replayed");
}

static void free_state(struct ht_form_state *form) {
    for (uint32_t i = 0; form->streams && i <= form->streams_count; i++) free(form->streams[i].segment);
    free(form->streams);
    free(form->slots);
    free(form->publishing);
    free(form->untouched_pages);
    free(form->zeroed_pages);
    free(form->unmeasured_pages);
    free(form->alignment_bits);
    ht_trace_facts_free(&form->facts);
    free(form);
}

int ht_form_build(struct ht_trace_reader *reader, const char *path, const struct ht_form_options *options,
                  struct ht_built_form *built, struct ht_error *error) {
    struct ht_form_state *form = calloc(1, sizeof *form);
    *built = (struct ht_built_form){.fd = -1, .state = form, .before = options->before};
    if (!form) return ht_error_memory(error, path, "decoding the trace");
    assert(options->scale <= HT_SCALE_MAX);
    *form = (struct ht_form_state){
        .reader = reader, .path = path, .options = options, .built = built, .error = error};
    form->copies = options->one_thread && options->scale > 1 ? options->scale : 1;
    if (!build(form)) return 0;
    ht_form_free(built);
    return -1;
}

void ht_form_free(struct ht_built_form *built) {
    bool held = built->fd >= 0 && !built->pool;
    if (held) munmap(built->form, built->mapped_bytes);
    else free(built->form);  // streamed, or it never came to be mapped
    if (built->pool) munmap(built->pool, built->mapped_bytes);
    if (built->fd >= 0) close(built->fd);
    free(built->points);
    free(built->reading_points);
    free(built->live_slots);
    if (built->state) free_state(built->state);
    *built = (struct ht_built_form){.fd = -1};
}
