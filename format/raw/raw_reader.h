// SPDX-License-Identifier: Apache-2.0
// Reads a raw log: header, context, chunks, records (docs/reference/raw-log-format.md). Everything is
// checked; nothing is trusted.
#ifndef HEAPTAPE_RAW_READER_H
#define HEAPTAPE_RAW_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "ops.h"
#include "raw_layout.h"

struct ht_raw_log {
    char *path;
    int fd;
    uint64_t file_bytes;
    uint64_t chunks_end;  // no further than the file
    struct ht_raw_header header;
    char *context;  // key=value strings, header.context_bytes long, ends with a zero byte
};

// Opens and checks the header. Returns 0 or -1 with error.
int ht_raw_open(struct ht_raw_log *log, const char *path, struct ht_error *error);
void ht_raw_close(struct ht_raw_log *log);
// The very file that is read, for writing: its name may be a link, or another's by now. -1 with errno.
int ht_raw_open_for_writing(const struct ht_raw_log *log);
// Adds a string KEY=VALUE to the context in the file of a log whose process has ended. False with errno.
bool ht_raw_add_context(const struct ht_raw_log *log, const char *string);
// The value of a context key, or NULL.
const char *ht_raw_context(const struct ht_raw_log *log, const char *key);
// Has a follower punched holes into this log? Then `path` is the trace that holds what was there.
bool ht_raw_consumer(const struct ht_raw_log *log, char path[HT_RAW_CONSUMER_BYTES]);
// Nanoseconds per stamp, from the clock pairs.
double ht_raw_ns_per_stamp(const struct ht_raw_log *log);
// The coarse clock's tick, in stamps; 0: every call in the log has a time.
uint64_t ht_raw_tick_stamps(const struct ht_raw_log *log);

// Finds the first chunk at or after `offset`. Returns 1 and fills chunk and *at, 0 at the end, -1 with
// error: of input, if the page at *at is no chunk's.
int ht_raw_next_chunk(const struct ht_raw_log *log, uint64_t offset, struct ht_raw_chunk *chunk, uint64_t *at,
                      struct ht_error *error);

// Every stream has a chunk, and a chunk has a page: higher numbers are damage.
static inline bool ht_raw_stream_possible(const struct ht_raw_log *log, uint32_t stream) {
    return stream < log->chunks_end / HT_CHUNK_ALIGN;
}
// The error where it is not. Returns -1.
int ht_raw_bad_stream(const struct ht_raw_log *log, const struct ht_raw_chunk *chunk, uint64_t at,
                      struct ht_error *error);

// What a reader has found damaged. It goes on at the next chunk.
struct ht_raw_damage {
    uint64_t places;
    uint64_t lost_calls;
    uint64_t end_lost;  // 1: the end of a stream is lost, and its calls may be more than lost_calls says
    uint64_t bad_runs;  // pages next to each other that were no chunk's
    uint64_t bad_end;   // offset of the page after the last one of them
    uint64_t gaps;      // where chunks are missing before another one of their stream
    char first[224];    // the first place: its offset, what was expected, what was found
};

// Adds a place that is damaged: the error is one of input in that log.
void ht_raw_note_damage(struct ht_raw_damage *damage, const struct ht_raw_log *log,
                        const struct ht_error *error);
// The first place as the error of input that it was.
void ht_raw_report_damage(const struct ht_raw_damage *damage, const struct ht_raw_log *log,
                          struct ht_error *error);
// The search for chunks came to a page that is no chunk's. Notes that, once for all such pages next to each other, and
// passes the page. False if the error is another one.
bool ht_raw_pass_page(struct ht_raw_damage *damage, const struct ht_raw_log *log, uint64_t at,
                      uint64_t *offset, const struct ht_error *error);

// One decoded record. Modifiers have been applied to the call that follows them. One cache line, because the
// converter decodes ahead in batches.
struct ht_raw_record {
    uint64_t stamp;
    union {
        struct {
            uint64_t address, size, count, alignment;  // count: 1 unless given; alignment: 0 unless given
        };
        uint64_t word[4];      // a long record's words behind its stamp
        const uint8_t *words;  // of a module or a site: where they lie, while the chunk's bytes do
    };
    uint32_t resident_before, resident_after;  // pages plus one; 0: unknown
    uint32_t site;                             // of an allocation; 0: unknown
    uint8_t op;                                // enum ht_raw_op, never a modifier nor one of C++
    uint8_t function;                          // enum ht_function, 0 where op has it
    uint8_t failed;                            // 0, HT_FAILED_NULL, HT_FAILED_RELEASED
    uint8_t long_kind, long_words;             // long_words: those in `word`, or at `words`
    bool common;                               // a call without modifiers
};
static_assert(sizeof(struct ht_raw_record) <= 64, "decoded record");

static inline bool ht_long_lists(unsigned kind) {
    return kind == HT_LONG_MODULE || kind == HT_LONG_SITE || kind == HT_LONG_SITE_LIKE;
}

// Does the record have `words`?
static inline bool ht_raw_lists(const struct ht_raw_record *record) {
    return record->op == HT_RAW_LONG && ht_long_lists(record->long_kind);
}

// Where in time the calls without one go: evenly between two stamps, at `from` plus a number of steps, which
// have HT_RAW_STEP_BITS bits behind the point.
enum { HT_RAW_STEP_BITS = 16 };
struct ht_raw_spread {
    uint64_t from, step;
    uint64_t pace;         // the last step that is known to have no pause in it
    uint32_t done, calls;  // of those between the two stamps
};

// Decoding state within one chunk, or a part of one.
struct ht_raw_decoder {
    const uint8_t *at, *end;
    uint64_t stamp, address;
    uint32_t site;
    struct ht_raw_spread spread;
    // To spread the calls without a time by; all 0: they get the stamp before them.
    uint64_t tick_stamps;
    uint64_t end_stamp;     // when all before `end` was over; 0: not known
    uint64_t second_stamp;  // of the log's second stream, which began after them all; 0: there is none
};

void ht_raw_decode_chunk(struct ht_raw_decoder *decoder, const struct ht_raw_chunk *chunk,
                         const uint8_t *bytes);
// Decodes the next record. Returns 1, 0 at the chunk's end, -1 where bytes are no record (decoder->at stays
// there).
int ht_raw_decode(struct ht_raw_decoder *decoder, struct ht_raw_record *record);

// Decodes as many common records as follow each other, no more than `room` and none that reaches behind
// `limit`, which is no further than the decoder's end. Returns how many: 0 says nothing about what comes. It
// ends before the first of several calls without a time: ht_raw_decode looks ahead for the stamp after them,
// which should lie before the decoder's end, at most HT_UNTIMED_BYTES_MAX away.
size_t ht_raw_decode_common(struct ht_raw_decoder *decoder, const uint8_t *limit,
                            struct ht_raw_record *record, size_t room);

// The function that was called: of a record that does not say, the one that its op stands for.
enum ht_function ht_raw_function(const struct ht_raw_record *record);

// Is this record a call of its own? A realloc is counted where it ends.
static inline bool ht_raw_counts(const struct ht_raw_record *record) {
    return record->op != HT_RAW_LONG && record->op != HT_RAW_REALLOC_BEGIN;
}

// Calls in the log (a realloc counts once), read from chunk headers, and from the records of chunks still
// open; and its threads: the streams that are nested in no other. Passes what is damaged.
int ht_raw_count_calls(const struct ht_raw_log *log, uint64_t *calls, uint32_t *threads,
                       struct ht_error *error);

#endif
