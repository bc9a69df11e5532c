// SPDX-License-Identifier: Apache-2.0
#include "log_share.h"

#include <stdlib.h>

#include "all_bytes.h"
#include "grow.h"
#include "heap_model.h"
#include "sample_line.h"
#include "sorted.h"

// Half a second's reading: so much of a log says enough.
static const uint64_t READ_BYTES_MAX = UINT64_C(64) << 20;

struct survey {
    struct ht_sample *sample;
    size_t samples, room;
    struct ht_raw_record *piece;
    size_t pieces, pieces_room;
    struct heap_model heap;  // only where its blocks lie
    uint64_t allocated_bytes;
};

// False for want of memory.
static bool add_sample(struct survey *survey, const struct ht_raw_record *record) {
    if (!ht_grow(&survey->sample, &survey->room, survey->samples + 1, sizeof *survey->sample)) return false;
    survey->sample[survey->samples++] = (struct ht_sample){.time_ns = record->stamp,
                                                           .cpu_ns = record->word[2],
                                                           .rss_anon_bytes = record->word[0],
                                                           .own_rss_bytes = record->word[1],
                                                           .own_fresh = record->word[3] != 0};
    return true;
}

static bool add_piece(struct survey *survey, const struct ht_raw_record *record) {
    if (!ht_grow(&survey->piece, &survey->pieces_room, survey->pieces + 1, sizeof *survey->piece))
        return false;
    survey->piece[survey->pieces++] = *record;
    return true;
}

// resized_bytes: of the realloc that is under way in the chunk.
static void note_block(struct survey *survey, const struct ht_raw_record *record, uint64_t *resized_bytes) {
    uint64_t bytes;
    if (record->failed || __builtin_mul_overflow(record->size, record->count, &bytes)) return;
    survey->allocated_bytes += bytes;  // a free counts, too, where it says a size: this is a bound
    if (record->op == HT_RAW_REALLOC_BEGIN) *resized_bytes = bytes;
    else if (record->op == HT_RAW_REALLOC_END)
        heap_model_hold(&survey->heap, record->address, *resized_bytes);
    else if (record->op != HT_RAW_FREE && record->op != HT_RAW_FREE_NULL && record->op != HT_RAW_QUERY)
        heap_model_hold(&survey->heap, record->address, bytes);
}

static bool survey_chunk(struct survey *survey, const struct ht_raw_log *log,
                         const struct ht_raw_chunk *chunk, uint64_t at) {
    uint64_t bytes = chunk->bytes < log->chunks_end - at ? chunk->bytes : log->chunks_end - at,
             resized_bytes = 0;
    uint8_t *buffer = calloc(1, (size_t)chunk->bytes + 64);
    bool fits = buffer && ht_read_at(log->fd, buffer, (size_t)bytes, at);
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    if (fits) ht_raw_decode_chunk(&decoder, chunk, buffer);
    while (fits && ht_raw_decode(&decoder, &record) > 0) {
        if (record.op == HT_RAW_LONG) {
            if (record.long_kind == HT_LONG_SAMPLE && record.long_words >= 4)
                fits = add_sample(survey, &record);
            else if (record.long_kind == HT_LONG_HEAP_PIECE && record.long_words >= 2)
                fits = add_piece(survey, &record);
        } else {
            note_block(survey, &record, &resized_bytes);
        }
    }
    free(buffer);
    return fits;
}

// The record of their end behind those of the same sample.
static int by_stamp(const void *a, const void *b) {
    const struct ht_raw_record *left = a, *right = b;
    if (left->stamp != right->stamp) return left->stamp > right->stamp ? 1 : -1;
    return (right->word[0] == 0) - (left->word[0] == 0);
}

// The same sums as a conversion makes. `whole`: of all of the log, so that all blocks are known.
static struct log_use sum_up(struct survey *survey, const struct ht_raw_log *log, bool whole) {
    struct merge_totals totals = {.allocated_bytes = whole ? survey->allocated_bytes : UINT64_MAX,
                                  .began_late = log->header.sequence || log->header.parent_pid};
    double ns = ht_raw_ns_per_stamp(log);
    struct sample_line *line = calloc(1, sizeof *line);
    if (!line) return (struct log_use){0};
    line->totals = &totals;
    line->has_tables = sample_line_has_tables(log);
    if (survey->pieces) qsort(survey->piece, survey->pieces, sizeof *survey->piece, by_stamp);
    if (survey->samples) qsort(survey->sample, survey->samples, sizeof *survey->sample, ht_by_word);
    struct heap_pieces pieces = {0};
    for (size_t i = 0, piece = 0; i < survey->samples; i++) {
        // As if much were allocated and freed between any two.
        struct line_sample put = {.sample = survey->sample[i], .allocated_bytes = i << 40};
        const uint64_t stamp = put.sample.time_ns, first = log->header.first_pair.stamp;
        for (; piece < survey->pieces && survey->piece[piece].stamp <= stamp; piece++)
            heap_pieces_take(&pieces, &survey->heap, &survey->piece[piece], log->header.page_bytes);
        line_sample_take(&put, &pieces, stamp);
        put.looked &= whole;
        put.sample.event = i;
        put.sample.time_ns = stamp > first ? (uint64_t)((double)(stamp - first) * ns) : 0;
        sample_line_put(line, &put);
    }
    sample_line_end(line);
    free(line);
    // The process's clock goes on through an exec.
    uint64_t before_ns = log->header.sequence && survey->samples ? survey->sample[0].cpu_ns : 0;
    return (struct log_use){merge_heap_share(&totals), totals.cpu_ns - before_ns};
}

struct log_use log_use_read(const struct ht_raw_log *log) {
    struct survey survey = {0};
    struct log_use use = {0};
    struct ht_raw_chunk chunk;
    struct ht_raw_damage damage = {0};
    struct ht_error error;
    uint64_t at, offset = 0, passed_bytes = 0, one_in = log->chunks_end / READ_BYTES_MAX + 1;
    bool fits = heap_model_init(&survey.heap, NULL);
    survey.heap.holds_addresses = true;
    int more;
    while (fits && (more = ht_raw_next_chunk(log, offset, &chunk, &at, &error))) {
        if (more < 0 && ht_raw_pass_page(&damage, log, at, &offset, &error)) continue;
        if (more < 0) break;
        offset = at + chunk.bytes;
        // The first, and then each that brings what was passed over to one_in times its bytes.
        if (at == log->header.header_bytes || passed_bytes >= (one_in - 1) * chunk.bytes) {
            fits = survey_chunk(&survey, log, &chunk, at);
            passed_bytes = 0;
        } else {
            passed_bytes += chunk.bytes;
        }
    }
    if (fits) use = sum_up(&survey, log, one_in == 1);
    heap_model_free(&survey.heap);
    free(survey.piece);
    free(survey.sample);
    return use;
}
