// SPDX-License-Identifier: Apache-2.0
// Writes the inputs that a campaign begins with: make_seeds FOLDER. Columns are stored, not compressed, so
// that a changed byte changes a value; the kept inputs have compressed ones besides.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access_writer.h"
#include "fuzz_input.h"
#include "group_writer.h"
#include "inheritance.h"
#include "merge.h"
#include "packed_log.h"
#include "raw_log_builder.h"
#include "sealed_trace.h"

// Each trace is written once with this true.
static bool store_columns;
size_t __real_ZSTD_compressCCtx(void *state, void *to, size_t room, const void *from, size_t bytes,
                                int level);
size_t __wrap_ZSTD_compressCCtx(void *state, void *to, size_t room, const void *from, size_t bytes,
                                int level);
size_t __wrap_ZSTD_compressCCtx(void *state, void *to, size_t room, const void *from, size_t bytes,
                                int level) {
    // An error: what cannot be compressed is stored.
    return store_columns ? (size_t)-1 : __real_ZSTD_compressCCtx(state, to, room, from, bytes, level);
}

static FILE *open_seed(const char *folder, const char *target, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, target);
    FUZZ_EXPECT(!mkdir(path, 0777) || errno == EEXIST, "%s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    FILE *file = fopen(path, "wb");
    FUZZ_EXPECT(file, "%s: %s", path, strerror(errno));
    return file;
}

static void append_file(FILE *to, const char *path) {
    FILE *from = fopen(path, "rb");
    char bytes[4096];
    size_t got;
    FUZZ_EXPECT(from, "%s: %s", path, strerror(errno));
    while ((got = fread(bytes, 1, sizeof bytes, from)) > 0) fwrite(bytes, 1, got, to);
    fclose(from);
}

// A log with every op, several threads, samples, an end of a thread, a realloc cut short.
static void build_log(const char *path) {
    static struct raw_log_builder builder;
    builder_open(&builder, path);
    builder.context = "command=job";
    builder.stream[2].outer = 2;
    const struct builder_line lines[] = {
        {0, HT_RAW_MALLOC, 10, 0x1000, 24},        {1, HT_RAW_MALLOC, 20, 0x2000, 100},
        {0, HT_RAW_CALLOC, 30, 0x3000, 8},         {1, HT_RAW_FREE, 40, 0x1000, 0},
        {2, HT_RAW_ALIGNED, 45, 0x100000, 200000}, {0, HT_RAW_REALLOC_BEGIN, 50, 0x3000, 64},
        {0, HT_RAW_REALLOC_END, 60, 0x4000, 0},    {0, HT_RAW_REALLOC_NULL, 70, 0x5000, 5},
        {1, HT_RAW_FREE, 75, 0x100000, 0},         {1, HT_RAW_FREE_NULL, 80, 0, 0},
        {1, HT_RAW_FREE, 90, 0x9999000, 0},        {0, HT_RAW_MALLOC, 100, 0x2000, 1},
        {0, HT_RAW_MALLOC, 110, 0x1003, 70000},    {1, HT_RAW_REALLOC_BEGIN, 120, 0x5000, 9},
    };
    builder_put(&builder, lines, sizeof lines / sizeof *lines);
    struct ht_cursor *cursor = builder_cursor(&builder, 0);
    ht_append_modifier(cursor, HT_MODIFIER_FUNCTION, HT_NEW_ALIGNED);
    ht_append_modifier(cursor, HT_MODIFIER_ALIGNMENT, 64);
    ht_append_call(cursor, HT_RAW_ALIGNED, 130, 0x6000, 128);
    ht_append_modifier(cursor, HT_MODIFIER_COUNT, 12);
    ht_append_modifier(cursor, HT_MODIFIER_FAILED, HT_FAILED_NULL);
    ht_append_unaddressed(cursor, HT_RAW_CALLOC, 140, 12);
    const uint64_t sample[5] = {150, 1 << 20, 4096, 77, 1}, end[3] = {160, 0x41414141, 0},
                   so_far[3] = {155, 0x1003, 7}, at_exit[3] = {170, 0x1003, 9};
    ht_append_long(cursor, HT_LONG_SAMPLE, sample, 5);
    ht_append_long(cursor, HT_LONG_RESIDENT_SO_FAR, so_far, 3);
    ht_append_long(cursor, HT_LONG_RESIDENT_AT_EXIT, at_exit, 3);
    ht_append_long(builder_cursor(&builder, 1), HT_LONG_THREAD_END, end, 3);
    builder_close(&builder);
}

// The same log as packed_log.h has it, with a context of its own.
static void pack_log(FILE *to, const char *path, uint8_t flags, const char *context, size_t context_bytes) {
    struct ht_raw_log log;
    struct ht_error error;
    struct ht_raw_chunk chunk;
    uint64_t at, offset = 0;
    FUZZ_EXPECT(!ht_raw_open(&log, path, &error), "%s", error.message);
    fputc(flags, to);
    fwrite(&log.header, sizeof log.header, 1, to);
    fputc((int)context_bytes, to);
    fwrite(context, context_bytes, 1, to);
    while (ht_raw_next_chunk(&log, offset, &chunk, &at, &error) > 0) {
        uint8_t records[BUILDER_CHUNK_BYTES];
        size_t count = sizeof records - sizeof chunk;
        ssize_t got = pread(log.fd, records, count, (off_t)(at + sizeof chunk));
        FUZZ_EXPECT(got == (ssize_t)count, "a chunk cut short");
        while (count && !records[count - 1]) count--;
        fputc((int)(chunk.bytes / HT_CHUNK_ALIGN - 1), to);
        fputc((int)(count & 255), to);
        fputc((int)(count >> 8), to);
        fwrite(&chunk, sizeof chunk, 1, to);
        fwrite(records, count, 1, to);
        offset = at + chunk.bytes;
    }
    ht_raw_close(&log);
}

static void convert(const char *raw, const char *trace) {
    const struct merge_progress quiet = {0};
    const struct live_block block[] = {{0x9999000, 100000}, {0x9998000, 5}};
    const struct live_blocks inherited = {(struct live_block *)block, 2};
    struct ht_raw_log log;
    struct ht_error error;
    struct merge_result result;
    FUZZ_EXPECT(!ht_raw_open(&log, raw, &error), "%s", error.message);
    struct ht_trace_writer *writer = ht_trace_create(trace, 1, 3, &error);
    FUZZ_EXPECT(writer, "%s", error.message);
    ht_trace_put_context(writer, "{\"command\":\"job\",\"pid\":1,\"page_bytes\":4096}");
    FUZZ_EXPECT(!merge_log(&log, &inherited, writer, &result, &quiet, &error), "%s", error.message);
    FUZZ_EXPECT(!ht_trace_finish(writer, result.threads, result.totals.threads,
                                 "{\"events\":16,\"ops\":{\"malloc\":4}}", NULL, &error),
                "%s", error.message);
    free(result.threads);
    ht_raw_close(&log);
}

static void put_group_member(struct ht_trace_writer *writer, uint32_t process, const char *trace) {
    struct ht_error error;
    int fd = open(trace, O_RDONLY | O_CLOEXEC);
    FUZZ_EXPECT(fd >= 0 && !ht_group_put_member(writer, process, fd, &error), "cannot put a member");
    close(fd);
}

// A process and its child, which inherited two blocks.
static void make_group(const char *path, const char *trace) {
    static const uint8_t states[3] = {1, 0, 6};
    struct ht_group_content content;
    struct ht_error error;
    struct ht_trace_writer *writer = ht_group_create(path, 1, 3, &error);
    FUZZ_EXPECT(writer && ht_group_content_make(&content, 2, 1), "cannot make a group");
    content.page_bytes = 4096;
    content.process[0] = (struct ht_group_process){.parent = HT_GROUP_NO_PARENT, .end_ns = 9};
    content.process[1] = (struct ht_group_process){.start_ns = 1, .end_ns = 5, .inherited = 2};
    content.layout_pages[1] = 3;
    content.presence[1].there = true;
    const struct ht_group_layout layout = {(uint32_t[]){0, 2}, (uint16_t[]){16, 64}, 2, 3};
    put_group_member(writer, 0, trace);
    put_group_member(writer, 1, trace);
    FUZZ_EXPECT(!ht_group_put_layout(writer, 1, &layout), "no memory");
    ht_group_put_page_states(writer, 1, 0, states, sizeof states);
    FUZZ_EXPECT(!ht_group_finish(writer, json_object(), &content, NULL, &error), "%s", error.message);
    ht_group_content_free(&content);
}

static void seed_group(const char *folder, const char *trace, const char *name) {
    char group[4096];
    snprintf(group, sizeof group, "%s/group.bin", folder);
    make_group(group, trace);
    FILE *seed = open_seed(folder, "group_trace", name);
    fputc(SEALED_CHECKSUMS, seed);
    append_file(seed, group);
    fclose(seed);
    unlink(group);
}

static void seed_traces(const char *folder, const char *raw) {
    char trace[4096];
    snprintf(trace, sizeof trace, "%s/seed.bin", folder);
    for (unsigned stored = 0; stored < 2; stored++) {
        store_columns = stored;
        convert(raw, trace);
        seed_group(folder, trace, stored ? "stored" : "compressed");
        for (unsigned flags = 0; flags < 4; flags++) {
            char name[32];
            snprintf(name, sizeof name, "%s-%u", stored ? "stored" : "compressed", flags);
            FILE *seed = open_seed(folder, "trace", name);
            fputc((int)flags, seed);
            append_file(seed, trace);
            fclose(seed);
            // The same for each verb, for the whole of the trace.
            seed = open_seed(folder, "trace_verbs", name);
            fwrite((const uint8_t[]){(uint8_t)flags, (uint8_t)stored, 0, 255, 3}, 5, 1, seed);
            append_file(seed, trace);
            fclose(seed);
        }
    }
    unlink(trace);
}

static void seed_logs(const char *folder, const char *raw) {
    static const char context[] = "run=id\0command=sh job\0executable=/bin/sh\0bypassed_by=a b";
    for (uint8_t flags = 0; flags < 8; flags++) {
        char name[32];
        snprintf(name, sizeof name, "log-%u", flags);
        FILE *seed = open_seed(folder, "raw_log", name);
        pack_log(seed, raw, flags, context, sizeof context);
        fclose(seed);
        seed = open_seed(folder, "found_logs", name);
        fwrite("\1job\0\0\0\0", 9, 1, seed);  // how the program ended, and its name
        pack_log(seed, raw, flags, context, sizeof context);
        fclose(seed);
    }
}

static void seed_merge(const char *folder) {
    FILE *seed = open_seed(folder, "merge", "two-processes");
    uint64_t state = 20817;
    fputc(1, seed);
    for (unsigned i = 0; i < 400; i++) {
        uint8_t call[5];
        for (unsigned j = 0; j < 5; j++)
            call[j] = (uint8_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
        if (call[0] == 255) call[0] = 0;
        if (i == 300) call[0] = 255;
        fwrite(call, sizeof call, 1, seed);
    }
    fclose(seed);
}

// The writer has no argument for its file.
static FILE *accesses_seed;

static void put_accesses(const uint8_t *bytes, size_t count) { fwrite(bytes, 1, count, accesses_seed); }

static void put_calls(struct ht_access_writer *writer) {
    for (unsigned i = 0; i < HT_ACCESS_CALLS; i++) {
        const struct ht_recorded_call call = {.call = i,
                                              .instructions = 100 * i,
                                              .slot = i == HT_ACCESS_FREE ? 1 : i,
                                              .from_null = true,
                                              .size = 40,
                                              .count = 16};
        ht_write_call(writer, &call);
    }
}

// Every token: blocks and pages new and known, code as predicted and elsewhere, calls, a thread, bursts, the end.
static void seed_accesses(const char *folder) {
    struct ht_access_writer *writer = calloc(1, sizeof *writer);
    FUZZ_EXPECT(writer, "no memory");
    for (unsigned how = 0; how < 4; how++) {
        const bool sampled = how & 1;
        static const char *const names[] = {"whole", "sampled", "whole-file", "sampled-file"};
        memset(writer, 0, sizeof *writer);
        accesses_seed = open_seed(folder, "accesses", names[how]);
        fputc((int)(5 << 4 | (how & 2 ? 4 : 0) | sampled), accesses_seed);
        fputc(100, accesses_seed);
        writer->write = put_accesses;
        put_calls(writer);
        if (sampled) ht_write_burst(writer);
        ht_write_thread(writer, 3);
        for (unsigned i = 0; i < 40; i++) {
            ht_write_block_access(writer, i % 3 ? 2 : 4, i * i);
            ht_write_line_access(writer, 4096 + i * (i % 5 ? 1 : 77));
            ht_write_code_line(writer, 1000 + i % 7);
        }
        if (sampled) ht_write_burst_end(writer, 300);
        ht_write_end(writer, 100000, 20000, 7);
        ht_access_flush(writer);
        fclose(accesses_seed);
    }
    free(writer);
}

int main(int argc, char **argv) {
    FUZZ_EXPECT(argc == 2, "usage: make_seeds FOLDER");
    char raw[4096];
    FUZZ_EXPECT(!mkdir(argv[1], 0777) || errno == EEXIST, "%s: %s", argv[1], strerror(errno));
    snprintf(raw, sizeof raw, "%s/seed.mraw", argv[1]);
    build_log(raw);
    seed_logs(argv[1], raw);
    seed_traces(argv[1], raw);
    seed_merge(argv[1]);
    seed_accesses(argv[1]);
    unlink(raw);
    FILE *settings = open_seed(argv[1], "settings", "all");
    fputs("MALLOC_WRAP_OUT=here\nMALLOC_WRAP_ONLY=a*b,?uzz*\nMALLOC_WRAP_START=2.5\nMALLOC_WRAP_MAX_BYTES="
          "1000000",
          settings);
    fclose(settings);
    return 0;
}
