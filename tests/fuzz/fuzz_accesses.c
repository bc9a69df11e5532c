// SPDX-License-Identifier: Apache-2.0
// Accesses files, as `record --accesses` writes them. The first byte says how the tokens are read, and whether as a file by the
// verbs too, which takes longer; the second how many bytes are read at once, 255: numbers of the file's header follow.
#include <stdlib.h>
#include <string.h>

#include "access_reader.h"
#include "access_writer.h"
#include "bytes_source.h"
#include "checked_conversion.h"
#include "fuzz_input.h"
#include "import_formats.h"
#include "import_run.h"
#include "simulation.h"

enum { SAMPLED = 1, LENIENT = 2, AS_FILE = 4, TOKENS_MAX = 1 << 16, WRITTEN_BYTES_MAX = 1 << 22 };

// Both are large: made once, and emptied.
static struct ht_access_reader *reader_of(struct bytes_source *source, bool sampled, unsigned number) {
    static struct ht_access_reader *readers[2];
    struct ht_access_reader **reader = &readers[number];
    if (!*reader) *reader = malloc(sizeof **reader);
    FUZZ_EXPECT(*reader, "no memory");
    memset(*reader, 0, offsetof(struct ht_access_reader, buffer));
    (*reader)->read = bytes_source_give;
    (*reader)->source = source;
    (*reader)->sampled = sampled;
    return *reader;
}

static uint8_t *written;
static size_t written_bytes;

static void take(const uint8_t *bytes, size_t count) {
    FUZZ_EXPECT(count <= WRITTEN_BYTES_MAX - written_bytes, "more was written than was read");
    memcpy(written + written_bytes, bytes, count);
    written_bytes += count;
}

static struct ht_access_writer *new_writer(void) {
    static struct ht_access_writer *writer;
    if (!writer) writer = malloc(sizeof *writer);
    if (!written) written = malloc(WRITTEN_BYTES_MAX);
    FUZZ_EXPECT(writer && written, "no memory");
    memset(writer, 0, sizeof *writer);
    writer->write = take;
    written_bytes = 0;
    return writer;
}

static bool is_same_call(const struct ht_recorded_call *a, const struct ht_recorded_call *b) {
    return a->call == b->call && a->instructions == b->instructions && a->slot == b->slot &&
           a->thread == b->thread && a->from_null == b->from_null && a->size == b->size &&
           a->count == b->count;
}

static bool is_same(enum ht_access_kind kind, const struct ht_access *a, const struct ht_access *b) {
    switch (kind) {
    case HT_ACCESS_BLOCK: return a->slot == b->slot && a->granule == b->granule;
    case HT_ACCESS_LINE:
    case HT_ACCESS_CODE: return a->line == b->line;
    case HT_ACCESS_CALL: return is_same_call(&a->call, &b->call);
    case HT_ACCESS_BURST_END: return a->accesses == b->accesses;
    case HT_ACCESS_END:
        return a->instructions == b->instructions && a->accesses == b->accesses &&
               a->operators == b->operators;
    default: return true;
    }
}

static void write_again(struct ht_access_writer *writer, enum ht_access_kind kind,
                        const struct ht_access *access, uint32_t *thread) {
    switch (kind) {
    case HT_ACCESS_BLOCK: ht_write_block_access(writer, access->slot, access->granule); break;
    case HT_ACCESS_LINE: ht_write_line_access(writer, access->line); break;
    case HT_ACCESS_CODE: ht_write_code_line(writer, access->line); break;
    case HT_ACCESS_CALL:
        if (access->call.thread != *thread) ht_write_thread(writer, *thread = access->call.thread);
        ht_write_call(writer, &access->call);
        break;
    case HT_ACCESS_BURST: ht_write_burst(writer); break;
    case HT_ACCESS_BURST_END: ht_write_burst_end(writer, access->accesses); break;
    case HT_ACCESS_END:
        ht_write_end(writer, access->instructions, access->accesses, access->operators);
        break;
    default: break;
    }
}

// Reads all, however few bytes come at once, and writes what was read. A run of code lines is one byte for up to 32 of them.
static bool read_tokens(const uint8_t *bytes, size_t count, bool sampled, size_t at_once) {
    struct bytes_source source = {bytes, count, SIZE_MAX}, slow_source = {bytes, count, at_once};
    struct ht_access_reader *reader = reader_of(&source, sampled, 0);
    struct ht_access_reader *slow = reader_of(&slow_source, sampled, 1);
    struct ht_access_writer *writer = new_writer();
    struct ht_access access = {0}, slow_access = {0};
    enum ht_access_kind kind;
    uint32_t thread = 0;
    uint64_t tokens = 0;
    do {
        kind = ht_read_access(reader, &access);
        FUZZ_EXPECT(ht_read_access(slow, &slow_access) == kind, "another kind in small pieces");
        FUZZ_EXPECT(is_same(kind, &access, &slow_access), "another access in small pieces");
        FUZZ_EXPECT(access.offset <= count, "an access beyond the end");
        FUZZ_EXPECT(kind != HT_ACCESS_DAMAGED || (access.expected && *access.expected),
                    "nothing was expected");
        FUZZ_EXPECT(tokens++ <= HT_CODE_RUN_MAX * count, "more accesses than bytes can hold");
        write_again(writer, kind, &access, &thread);
    } while (kind < HT_ACCESS_END);
    return kind == HT_ACCESS_END;
}

// What was read is written such that it is read again.
static void read_written(const uint8_t *bytes, size_t count, bool sampled) {
    struct bytes_source source = {bytes, count, SIZE_MAX}, again = {written, written_bytes, SIZE_MAX};
    struct ht_access_reader *reader = reader_of(&source, sampled, 0);
    struct ht_access_reader *second = reader_of(&again, sampled, 1);
    struct ht_access access = {0}, found = {0};
    enum ht_access_kind kind;
    do {
        kind = ht_read_access(reader, &access);
        FUZZ_EXPECT(ht_read_access(second, &found) == kind, "another kind was written");
        FUZZ_EXPECT(is_same(kind, &access, &found), "another access was written");
    } while (kind < HT_ACCESS_END);
}

// The verbs that are given such a file: either tells what is wrong with it, or takes it.
static void read_file(const uint8_t *bytes, size_t count, uint8_t how, const uint32_t numbers[4]) {
    char path[FUZZ_PATH_BYTES];
    struct ht_error error = {0};
    int fd = fuzz_memory_file(0, path);
    const size_t magic_bytes = sizeof HT_ACCESS_MAGIC - 1;
    fuzz_reset(fd, 0);
    fuzz_write(fd, HT_ACCESS_MAGIC, magic_bytes, 0);
    fuzz_write(fd, numbers, 16, magic_bytes);
    fuzz_write(fd, bytes, count, magic_bytes + 16);
    if (ht_accesses_check(path, how >> 4, &error))
        FUZZ_EXPECT(error.status && *error.message, "no error reported");
    error = (struct ht_error){0};
    const struct convert_request request = {.input = path,
                                            .output = checked_output_begin(1),
                                            .level = 1,
                                            .time_unit_ns = 1,
                                            .lenient = how & LENIENT,
                                            .quiet = true};
    if (import_run(&request, &import_accesses, &error))
        FUZZ_EXPECT(error.status && *error.message, "no error reported");
    else checked_output_end(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    const uint8_t how = fuzz_take_byte(&input), at_once = fuzz_take_byte(&input);
    const bool sampled = how & SAMPLED;
    uint32_t numbers[4] = {sampled ? HT_ACCESS_VERSION_SAMPLED : HT_ACCESS_VERSION_WHOLE, 0, 7, 0};
    numbers[1] = numbers[0];
    if (bytes > TOKENS_MAX) return 0;
    if (at_once == 255) fuzz_take(&input, numbers, sizeof numbers);
    if (read_tokens(input.at, input.left, sampled, 1 + at_once)) read_written(input.at, input.left, sampled);
    if (how & AS_FILE) read_file(input.at, input.left, how, numbers);
    return 0;
}
