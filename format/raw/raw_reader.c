// SPDX-License-Identifier: Apache-2.0
#include "raw_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "grow.h"
#include "raw_append.h"

// Keeps a damaged log's steps within 64 bits.
static const uint64_t TICK_STAMPS_MAX = UINT64_C(1) << 40;

static int check_header(struct ht_raw_log *log, struct ht_error *error) {
    const struct ht_raw_header *header = &log->header;
    const char *path = log->path;
    if (header->min_reader > HT_RAW_VERSION)
        return ht_error_input(
            error, path, 10, "expected a raw log of version %d or older, found %u: it needs a newer heaptape",
            HT_RAW_VERSION, header->version);
    static const uint32_t known = HT_RAW_FEATURE_CONSUMED | HT_RAW_FEATURE_QUERIES | HT_RAW_FEATURE_SITES |
                                  HT_RAW_FEATURE_UNTIMED | HT_RAW_FEATURE_OPERATORS;
    uint32_t unknown = header->features & ~known;
    if (unknown) return ht_error_input(error, path, 12, "expected known features, found 0x%" PRIx32, unknown);
    if (header->header_bytes != HT_RAW_HEADER_BYTES)
        return ht_error_input(error, path, 16, "expected a header of %d bytes, found %" PRIu32,
                              HT_RAW_HEADER_BYTES, header->header_bytes);
    if (header->clock_kind < HT_CLOCK_TSC || header->clock_kind > HT_CLOCK_GETTIME ||
        header->clock_shift > 32)
        return ht_error_input(error, path, 56, "expected a known clock, found kind %" PRIu32,
                              header->clock_kind);
    // A recording that ran out of room has handed out more chunks than there was room for.
    uint64_t promised =
        header->chunks_end < header->reserve_bytes ? header->chunks_end : header->reserve_bytes;
    if (promised > log->file_bytes && header->state != HT_RAW_STOPPED)
        return ht_error_input(error, path, log->file_bytes,
                              "expected chunks up to offset %" PRIu64 ", found the end of the file",
                              promised);
    if (header->context_bytes > HT_RAW_HEADER_BYTES - HT_RAW_CONTEXT_OFFSET)
        return ht_error_input(error, path, 160,
                              "expected a context within the header, found %" PRIu32 " bytes",
                              header->context_bytes);
    return 0;
}

int ht_raw_open_for_writing(const struct ht_raw_log *log) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", log->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

int ht_raw_open(struct ht_raw_log *log, const char *path, struct ht_error *error) {
    *log = (struct ht_raw_log){.fd = -1};
    log->path = strdup(path);
    log->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe under such a name must not hang us
    struct stat status;
    if (!log->path || log->fd < 0 || fstat(log->fd, &status)) {
        ht_error_system(error, path, "cannot open");
        error->status = HT_EXIT_INPUT;
        ht_raw_close(log);
        return -1;
    }
    int result = -1;
    log->file_bytes = (uint64_t)status.st_size;
    if (!S_ISREG(status.st_mode))
        ht_error_input(error, path, 0, "expected a raw log in a regular file, found no regular file");
    else if (log->file_bytes == 0) ht_error_input(error, path, 0, "expected a raw log, found an empty file");
    else if (!ht_read_at(log->fd, &log->header, sizeof log->header.magic, 0) ||
             memcmp(log->header.magic, HT_RAW_MAGIC, sizeof log->header.magic))
        ht_error_input(error, path, 0, "%s",
                       memcmp(log->header.magic, "HTAPETRC", sizeof log->header.magic)
                           ? "expected a raw log (HTAPERAW), found another file"
                           : "expected a raw log, found a trace");
    else if (log->file_bytes < HT_RAW_HEADER_BYTES ||
             !ht_read_at(log->fd, &log->header, sizeof log->header, 0))
        ht_error_input(error, path, log->file_bytes,
                       "expected a header of %d bytes, found the end of the file", HT_RAW_HEADER_BYTES);
    else result = check_header(log, error);
    if (!result) {
        log->chunks_end = log->header.chunks_end;
        if (log->chunks_end > log->file_bytes) log->chunks_end = log->file_bytes;
        log->context = calloc(1, (size_t)log->header.context_bytes + 1);
        if (!log->context ||
            !ht_read_at(log->fd, log->context, log->header.context_bytes, HT_RAW_CONTEXT_OFFSET))
            result = ht_error_system(error, path, "cannot read the context");
    }
    if (result) ht_raw_close(log);
    return result;
}

void ht_raw_close(struct ht_raw_log *log) {
    if (log->fd >= 0) close(log->fd);
    free(log->path);
    free(log->context);
    *log = (struct ht_raw_log){.fd = -1};
}

const char *ht_raw_context(const struct ht_raw_log *log, const char *key) {
    size_t length = strlen(key);
    const char *at = log->context, *end = at + log->header.context_bytes;
    while (at < end) {
        if (!strncmp(at, key, length) && at[length] == '=') return at + length + 1;
        at += strlen(at) + 1;
    }
    return NULL;
}

bool ht_raw_add_context(const struct ht_raw_log *log, const char *string) {
    size_t length = strlen(string) + 1;
    uint32_t before = log->header.context_bytes, bytes = before + (uint32_t)length;
    uint64_t end = HT_RAW_CONTEXT_OFFSET + before;
    errno = ENOSPC;
    if (length > HT_RAW_HEADER_BYTES || end + length > log->header.header_bytes) return false;
    int fd = ht_raw_open_for_writing(log);
    if (fd < 0) return false;
    bool added = pwrite(fd, string, length, (off_t)end) == (ssize_t)length &&
                 pwrite(fd, &bytes, sizeof bytes, offsetof(struct ht_raw_header, context_bytes)) ==
                     (ssize_t)sizeof bytes;
    close(fd);
    return added;
}

double ht_raw_ns_per_stamp(const struct ht_raw_log *log) {
    if (log->header.clock_kind == HT_CLOCK_GETTIME) return (double)(UINT64_C(1) << log->header.clock_shift);
    const struct ht_clock_pair first = log->header.first_pair;
    struct ht_clock_pair last = log->header.last_pair[0];
    if (log->header.last_pair[1].stamp > last.stamp) last = log->header.last_pair[1];
    // A log without a second pair (killed at once) falls back on a rate of one stamp per quantum of a 2.5 GHz
    // counter.
    if (last.stamp <= first.stamp || last.mono_ns <= first.mono_ns)
        return (double)(UINT64_C(1) << log->header.clock_shift) / 2.5;
    return (double)(last.mono_ns - first.mono_ns) / (double)(last.stamp - first.stamp);
}

uint64_t ht_raw_tick_stamps(const struct ht_raw_log *log) {
    double stamps = (double)log->header.tick_ns / ht_raw_ns_per_stamp(log);
    if (!(log->header.features & HT_RAW_FEATURE_UNTIMED)) return 0;
    return stamps < (double)TICK_STAMPS_MAX ? (uint64_t)stamps : TICK_STAMPS_MAX;
}

bool ht_raw_consumer(const struct ht_raw_log *log, char path[HT_RAW_CONSUMER_BYTES]) {
    uint32_t features;
    // Asked of the file, not of the header as it was when the log was opened.
    if (!ht_read_at(log->fd, &features, sizeof features, offsetof(struct ht_raw_header, features)) ||
        !(features & HT_RAW_FEATURE_CONSUMED) ||
        !ht_read_at(log->fd, path, HT_RAW_CONSUMER_BYTES, HT_RAW_CONSUMER_OFFSET))
        return false;
    path[HT_RAW_CONSUMER_BYTES - 1] = 0;
    return true;
}

// The next page that may hold anything: what was punched, or never touched, is a hole.
static uint64_t next_page(const struct ht_raw_log *log, uint64_t offset) {
    offset += HT_CHUNK_ALIGN;
    off_t data = lseek(log->fd, (off_t)offset, SEEK_DATA);
    if (data < 0) return errno == ENXIO ? UINT64_MAX - HT_CHUNK_ALIGN : offset;
    uint64_t page = (uint64_t)data / HT_CHUNK_ALIGN * HT_CHUNK_ALIGN;
    return page > offset ? page : offset;
}

int ht_raw_bad_stream(const struct ht_raw_log *log, const struct ht_raw_chunk *chunk, uint64_t at,
                      struct ht_error *error) {
    return ht_error_input(error, log->path, at, "expected stream numbers without a gap, found %" PRIu32,
                          chunk->stream);
}

void ht_raw_note_damage(struct ht_raw_damage *damage, const struct ht_raw_log *log,
                        const struct ht_error *error) {
    if (!damage->places++)
        snprintf(damage->first, sizeof damage->first, "%s",
                 error->message + strlen(log->path) + strlen(": "));
}

void ht_raw_report_damage(const struct ht_raw_damage *damage, const struct ht_raw_log *log,
                          struct ht_error *error) {
    error->status = HT_EXIT_INPUT;
    snprintf(error->message, sizeof error->message, "%s: %s", log->path, damage->first);
}

bool ht_raw_pass_page(struct ht_raw_damage *damage, const struct ht_raw_log *log, uint64_t at,
                      uint64_t *offset, const struct ht_error *error) {
    if (error->status != HT_EXIT_INPUT) return false;
    if (at != damage->bad_end) {
        damage->bad_runs++;
        ht_raw_note_damage(damage, log, error);
    }
    *offset = damage->bad_end = at + HT_CHUNK_ALIGN;
    return true;
}

static bool is_chunk(const struct ht_raw_chunk *chunk) {
    return chunk->magic == HT_CHUNK_MAGIC && chunk->bytes >= HT_CHUNK_ALIGN &&
           chunk->bytes % HT_CHUNK_ALIGN == 0 && chunk->bytes <= HT_CHUNK_BYTES_MAX &&
           chunk->used <= chunk->bytes && (!chunk->used || chunk->used >= sizeof *chunk);
}

// The first page from `offset` to `end` that is not zeros: its offset, or UINT64_MAX. What is there is read as a chunk.
// Returns false where the file cannot be read.
static bool next_written(const struct ht_raw_log *log, uint64_t offset, uint64_t end,
                         struct ht_raw_chunk *chunk, uint64_t *at) {
    *at = UINT64_MAX;
    for (; offset + sizeof *chunk <= end; offset = next_page(log, offset)) {
        if (!ht_read_at(log->fd, chunk, sizeof *chunk, offset)) return false;
        if (chunk->magic == 0) continue;  // handed out and never begun, or a hole
        *at = offset;
        return true;
    }
    return true;
}

// Where a page is no chunk's first, a program that runs may have begun a chunk before it that was passed as one that is not
// begun: its header is there before its records are. So the search begins again, up to that page.
int ht_raw_next_chunk(const struct ht_raw_log *log, uint64_t offset, struct ht_raw_chunk *chunk, uint64_t *at,
                      struct ht_error *error) {
    struct ht_raw_chunk bad = {0};
    uint64_t bad_at = log->chunks_end;
    if (offset < HT_RAW_HEADER_BYTES) offset = HT_RAW_HEADER_BYTES;
    for (;;) {
        if (!next_written(log, offset, bad_at, chunk, at))
            return ht_error_system(error, log->path, "cannot read");
        if (*at == UINT64_MAX) break;
        if (is_chunk(chunk)) return 1;
        bad = *chunk;
        bad_at = *at;
    }
    if (!bad.magic) return 0;
    *at = bad_at;
    if (bad.magic != HT_CHUNK_MAGIC)
        return ht_error_input(error, log->path, bad_at, "expected a chunk (HTWN), found 0x%08" PRIx32,
                              bad.magic);
    return ht_error_input(error, log->path, bad_at,
                          "expected a chunk of at most %d bytes, found one with %" PRIu64 " of %" PRIu64
                          " bytes used",
                          HT_CHUNK_BYTES_MAX, (uint64_t)bad.used, (uint64_t)bad.bytes);
}

void ht_raw_decode_chunk(struct ht_raw_decoder *decoder, const struct ht_raw_chunk *chunk,
                         const uint8_t *bytes) {
    uint64_t used = chunk->used ? chunk->used : chunk->bytes;
    *decoder = (struct ht_raw_decoder){.at = bytes + sizeof *chunk,
                                       .end = bytes + used,
                                       .stamp = chunk->base_stamp,
                                       .address = chunk->base_address,
                                       .spread = {.from = chunk->base_stamp}};
}

static uint64_t load8(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// Takes `nibbles` nibbles from bit position *bit on.
static uint64_t take(const uint8_t *at, unsigned *bit, unsigned nibbles) {
    unsigned bits = 4 * nibbles, shift = *bit % 8;
    if (!bits) return 0;
    const uint8_t *from = at + *bit / 8;
    uint64_t value = load8(from) >> shift;
    if (shift && bits > 64 - shift) value |= (uint64_t)from[8] << (64 - shift);
    *bit += bits;
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static bool op_known(unsigned op) {
    return (op >= HT_RAW_FREE && op <= HT_RAW_DELETE_SIZED) || op == HT_RAW_MODIFIER;
}

// Those of C++ are others with a function: nobody behind the decoder needs to know them.
static const struct {
    uint8_t op, function;
} cxx_op[HT_RAW_DELETE_SIZED + 1 - HT_RAW_NEW] = {
    {HT_RAW_MALLOC, HT_NEW}, {HT_RAW_FREE, HT_DELETE}, {HT_RAW_FREE, HT_DELETE_SIZED}};

static void set_op(struct ht_raw_record *record, unsigned op) {
    record->op = (uint8_t)op;
    if (op < HT_RAW_NEW) return;
    record->op = cxx_op[op - HT_RAW_NEW].op;
    record->function = cxx_op[op - HT_RAW_NEW].function;
}

static bool op_addressed(unsigned op) { return op != HT_RAW_FREE_NULL; }

// The head of a call that has no time. A query without one has the time of the call before it.
static bool is_untimed(unsigned op, unsigned nt) { return nt == 0 && op != HT_RAW_QUERY; }

static uint64_t spread_stamp(const struct ht_raw_spread *spread) {
    return spread->from + (spread->done * spread->step >> HT_RAW_STEP_BITS);
}

// A stamp of the stream: calls without a time come after it.
static void spread_from(struct ht_raw_spread *spread, uint64_t stamp) {
    spread->from = stamp;
    spread->done = spread->calls = 0;
}

// Counts the calls without a time that come next. Returns the first stamp after them, 0 if there is none.
static uint64_t find_stamp_after(const struct ht_raw_decoder *decoder, uint32_t *calls) {
    const uint8_t *at = decoder->at, *end = decoder->end;
    bool cut = end - at > HT_UNTIMED_BYTES_MAX;
    if (cut) end = at + HT_UNTIMED_BYTES_MAX;
    for (*calls = 0; end - at >= 2;) {
        uint64_t word = load8(at);
        unsigned op = word & 15, nt = word >> 4 & 15, bit = 16;
        if ((word & 0xffff) == 0) break;
        if (op == HT_RAW_LONG) return end - at >= 10 ? load8(at + 2) : 0;
        if (op != HT_RAW_MODIFIER && nt) return decoder->stamp + take(at, &bit, nt + (nt == 15));
        if (op != HT_RAW_MODIFIER && is_untimed(op, nt) && ++*calls > HT_UNTIMED_MAX) return 0;
        at += ht_record_bytes((uint16_t)word);
    }
    return cut ? 0 : decoder->end_stamp;
}

// Before the first of several calls without a time. Where more than a tick passes until the next stamp, the
// program paused just before that, and they come as fast as the calls before them.
static void begin_spread(struct ht_raw_decoder *decoder) {
    struct ht_raw_spread *spread = &decoder->spread;
    uint32_t calls;
    uint64_t until = find_stamp_after(decoder, &calls);
    spread_from(spread, spread_stamp(spread));
    spread->calls = calls;
    if (decoder->second_stamp > spread->from && (!until || until > decoder->second_stamp))
        until = decoder->second_stamp;
    uint64_t passed = until > spread->from ? until - spread->from : 0;
    uint64_t longest = (decoder->tick_stamps << HT_RAW_STEP_BITS) / (calls + 1);
    if (until && passed <= decoder->tick_stamps)
        spread->step = spread->pace = (passed << HT_RAW_STEP_BITS) / (calls + 1);
    else spread->step = spread->pace < longest ? spread->pace : longest;
}

// The stamp of a call. Two in a row show the pace.
static void pass_stamp(struct ht_raw_spread *spread, uint64_t stamp) {
    uint64_t passed = stamp > spread->from ? stamp - spread->from : 0;
    if (!spread->calls)
        spread->pace = (passed < TICK_STAMPS_MAX ? passed : TICK_STAMPS_MAX) << HT_RAW_STEP_BITS;
    spread_from(spread, stamp);
}

static int decode_long(struct ht_raw_decoder *decoder, struct ht_raw_record *record, uint64_t head) {
    unsigned words = head >> 8 & 0xff, kind = head >> 4 & 15;
    bool lists = ht_long_lists(kind);
    if (words < 1 || (words > 5 && !lists) || decoder->at + 2 + 8 * words > decoder->end) return -1;
    record->op = HT_RAW_LONG;
    record->long_kind = (uint8_t)kind;
    record->long_words = (uint8_t)(words - 1);
    record->stamp = load8(decoder->at + 2);
    if (lists) record->words = decoder->at + 10;
    else
        for (unsigned i = 0; i + 1 < words; i++) record->word[i] = load8(decoder->at + 10 + 8 * i);
    decoder->at += 2 + 8 * words;
    if (record->stamp > spread_stamp(&decoder->spread)) spread_from(&decoder->spread, record->stamp);
    return 1;
}

static bool apply_modifier(struct ht_raw_record *record, unsigned kind, uint64_t value) {
    switch (kind) {
    case HT_MODIFIER_FUNCTION:
        record->function = (uint8_t)value;
        return value > 0 && value < HT_CALLS_END && ht_functions[value].name;
    case HT_MODIFIER_COUNT: record->count = value; return true;
    case HT_MODIFIER_ALIGNMENT: record->alignment = value; return true;
    case HT_MODIFIER_FAILED:
        record->failed = (uint8_t)value;
        return value == HT_FAILED_NULL || value == HT_FAILED_RELEASED;
    case HT_MODIFIER_LOW_BITS: return value < 8;
    case HT_MODIFIER_RESIDENT_BEFORE:
        record->resident_before = (uint32_t)value + 1;
        return value < UINT32_MAX;
    case HT_MODIFIER_RESIDENT_AFTER: record->resident_after = (uint32_t)value + 1; return value < UINT32_MAX;
    case HT_MODIFIER_SITE: return value <= HT_SITES_MAX;
    default: return false;
    }
}

// A record that the shim could have written: its function is one of the op's kind, only allocations and the
// ends of reallocs fail, and a block has an address.
static bool makes_sense(const struct ht_raw_record *record) {
    bool frees = record->op == HT_RAW_FREE || record->op == HT_RAW_FREE_NULL;
    bool reallocs = record->op == HT_RAW_REALLOC_BEGIN || record->op == HT_RAW_REALLOC_END ||
                    record->op == HT_RAW_REALLOC_NULL;
    bool query = record->op == HT_RAW_QUERY;
    enum ht_kind kind = frees      ? HT_KIND_FREE
                        : reallocs ? HT_KIND_REALLOC
                        : query    ? HT_KIND_QUERY
                                   : HT_KIND_ALLOC;
    if (record->function && ht_functions[record->function].kind != kind) return false;
    if (record->failed) return !frees && !query && record->op != HT_RAW_REALLOC_BEGIN;
    return record->address != 0 || record->op == HT_RAW_FREE_NULL;
}

// A common record takes at most eight bytes, and its op is one of 1 to 5, 7 and 9 to 12: those have an address.
size_t ht_raw_decode_common(struct ht_raw_decoder *decoder, const uint8_t *limit,
                            struct ht_raw_record *record, size_t room) {
    const uint8_t *at = decoder->at;
    enum { SITE_HEAD = HT_RAW_MODIFIER | HT_MODIFIER_SITE << 12 };
    uint64_t stamp = decoder->stamp, address = decoder->address;
    uint32_t site = decoder->site;
    struct ht_raw_spread spread = decoder->spread;
    size_t count = 0;
    for (; count < room && limit - at >= 8; count++) {
        uint64_t word = load8(at);
        unsigned op = word & 15, nt = word >> 2 & 60, na = word >> 6 & 60, ns = word >> 10 & 60;  // in bits
        unsigned bits = 16 + nt + na + ns;
        if ((word & 0xf0ff) == SITE_HEAD && na <= 20) {
            site = (uint32_t)(word >> 16) & ((1u << na) - 1);
            at += (16 + na + 7) / 8;
            count--;
            continue;
        }
        bool untimed = is_untimed(op, nt);
        if (bits > 64 || !(0x1ebeu >> op & 1) || (untimed && spread.done == spread.calls)) break;
        word >>= 16;
        uint64_t time = word & ((UINT64_C(1) << nt) - 1);
        word >>= nt;
        uint64_t step = word & ((UINT64_C(1) << na) - 1);
        word >>= na;
        uint64_t moved = address + ((step >> 1 ^ -(step & 1)) << 3);
        if (moved == 0) break;
        at += (bits + 7) / 8;
        stamp += time;
        address = moved;
        spread.done += untimed;
        if (nt) pass_stamp(&spread, stamp);
        record[count] = (struct ht_raw_record){.stamp = spread_stamp(&spread),
                                               .address = address,
                                               .size = word & ((UINT64_C(1) << ns) - 1),
                                               .count = 1,
                                               .site = site,
                                               .common = true};
        set_op(&record[count], op);
    }
    decoder->at = at;
    decoder->site = site;
    decoder->stamp = stamp;
    decoder->address = address;
    decoder->spread = spread;
    return count;
}

int ht_raw_decode(struct ht_raw_decoder *decoder, struct ht_raw_record *record) {
    uint64_t low_bits = 0;
    const uint8_t *start = decoder->at;
    struct ht_raw_spread *spread = &decoder->spread;
    record->function = record->failed = 0;
    record->common = false;
    record->resident_before = record->resident_after = 0;
    record->count = 1;
    record->alignment = 0;
    for (;;) {
        // A chunk's room ends before its bytes do, so that the zero after the last record is always there.
        if (decoder->at + 2 > decoder->end) return decoder->at == start ? 0 : -1;
        uint64_t head = load8(decoder->at);
        unsigned op = head & 15;
        if ((head & 0xffff) == 0) {
            // Modifiers without their call: the process was killed between them.
            return 0;
        }
        if (op == HT_RAW_LONG) return decode_long(decoder, record, head);
        if (!op_known(op)) return -1;
        unsigned nt = head >> 4 & 15, na = head >> 8 & 15, ns = head >> 12 & 15;
        nt += nt == 15;
        na += na == 15;
        if (op == HT_RAW_MODIFIER) {
            unsigned bit = 16;
            uint64_t value = take(decoder->at, &bit, na);
            if (nt || decoder->at + (bit + 7) / 8 > decoder->end || !apply_modifier(record, ns, value))
                return -1;
            if (ns == HT_MODIFIER_LOW_BITS) low_bits = value;
            if (ns == HT_MODIFIER_SITE) decoder->site = (uint32_t)value;
            decoder->at += (bit + 7) / 8;
            continue;
        }
        ns += ns == 15;
        unsigned bits = 16 + 4 * (nt + na + ns);
        if (decoder->at + (bits + 7) / 8 > decoder->end) return -1;
        if (is_untimed(op, nt) && spread->done == spread->calls) begin_spread(decoder);
        uint64_t time, step;
        if (bits <= 64) {
            uint64_t rest = head >> 16;
            time = rest & ((UINT64_C(1) << 4 * nt) - 1);
            rest >>= 4 * nt;
            step = rest & ((UINT64_C(1) << 4 * na) - 1);
            rest >>= 4 * na;
            record->size = rest & ((UINT64_C(1) << 4 * ns) - 1);
        } else {
            unsigned bit = 16;
            time = take(decoder->at, &bit, nt);
            step = take(decoder->at, &bit, na);
            record->size = take(decoder->at, &bit, ns);
        }
        decoder->at += (bits + 7) / 8;
        set_op(record, op);
        record->site = decoder->site;
        decoder->stamp += time;
        if (nt) pass_stamp(spread, decoder->stamp);
        else if (op != HT_RAW_QUERY) spread->done++;
        record->stamp = spread_stamp(spread);
        if (op_addressed(op) && !record->failed) {
            decoder->address += (step >> 1 ^ -(step & 1)) << 3;
            record->address = decoder->address | low_bits;
        } else {
            record->address = 0;
        }
        return makes_sense(record) ? 1 : -1;
    }
}

enum ht_function ht_raw_function(const struct ht_raw_record *record) {
    if (record->function) return (enum ht_function)record->function;
    switch (record->op) {
    case HT_RAW_FREE:
    case HT_RAW_FREE_NULL: return HT_FREE;
    case HT_RAW_MALLOC: return HT_MALLOC;
    case HT_RAW_CALLOC: return HT_CALLOC;
    case HT_RAW_ALIGNED: return HT_POSIX_MEMALIGN;
    case HT_RAW_QUERY: return HT_USABLE_SIZE;
    default: return HT_REALLOC;
    }
}

// Those of a chunk, as far as it can be read. Returns 0 or -1 with error.
static int count_records(const struct ht_raw_log *log, const struct ht_raw_chunk *chunk, uint64_t at,
                         uint64_t *calls, struct ht_error *error) {
    uint64_t bytes = chunk->bytes;
    if (bytes > log->chunks_end - at) bytes = log->chunks_end - at;
    uint8_t *buffer = calloc(1, (size_t)chunk->bytes + 64);
    if (!buffer || !ht_read_at(log->fd, buffer, (size_t)bytes, at)) {
        free(buffer);
        return ht_error_system(error, log->path, "cannot read a chunk");
    }
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    ht_raw_decode_chunk(&decoder, chunk, buffer);
    while (ht_raw_decode(&decoder, &record) > 0) *calls += ht_raw_counts(&record);
    free(buffer);
    return 0;
}

int ht_raw_count_calls(const struct ht_raw_log *log, uint64_t *calls, uint32_t *threads,
                       struct ht_error *error) {
    struct ht_raw_damage damage = {0};
    struct ht_raw_chunk chunk;
    uint64_t at, offset = 0, *per_stream = NULL;
    size_t room = 0;
    int more;
    *calls = 0;
    *threads = 0;
    while ((more = ht_raw_next_chunk(log, offset, &chunk, &at, error))) {
        if (more > 0 && !ht_raw_stream_possible(log, chunk.stream))
            more = ht_raw_bad_stream(log, &chunk, at, error);
        if (more < 0 && !ht_raw_pass_page(&damage, log, at, &offset, error)) break;
        if (more < 0) continue;
        offset = at + chunk.bytes;
        if (!ht_grow(&per_stream, &room, (size_t)chunk.stream + 1, sizeof *per_stream)) {
            more = ht_error_memory(error, log->path, "cannot count the calls");
            break;
        }
        *threads += chunk.index == 0 && chunk.outer == 0;
        // A call takes two bytes at the least.
        if (chunk.calls_before <= log->chunks_end / 2) per_stream[chunk.stream] = chunk.calls_before;
        if (chunk.used) continue;  // a later chunk of the stream says how many there were
        if ((more = count_records(log, &chunk, at, &per_stream[chunk.stream], error))) break;
    }
    for (size_t i = 0; i < room; i++) *calls += per_stream[i];
    free(per_stream);
    return more;
}
