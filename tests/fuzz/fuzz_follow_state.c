// SPDX-License-Identifier: Apache-2.0
// The state that a follower leaves: a sound one of a small log, edited, is resumed, and the log merged to
// its end. An input is a list of edits of three bytes each: where (two bytes), and what is xored there.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checksum.h"
#include "follow_state.h"
#include "fuzz_input.h"
#include "raw_log_builder.h"

enum {
    STREAMS = 3,
    CALLS = 600,
    PIECE_BYTES = 2000,
    STATE_BYTES_MAX = 1 << 16,
    LOG_FILE = 0,
    STATE_FILE = 1
};

// What the number of the next allocations' call site means, and the number.
static void append_site(struct raw_log_builder *builder, unsigned stream, unsigned site) {
    const uint64_t module[4] = {1000, 1 + site % 2, 1 | UINT64_C(4) << 32, 0x6f732e61},
                   stack[4] = {1000, 1 + site, (uint64_t)(1 + site % 2) << 48 | (16 + site), 99};
    const struct ht_site_like shared = {1 + site, 1, 0, 2, 0};
    uint64_t like[4] = {1000, CALLS + site, 0, 77};
    memcpy(&like[2], &shared, sizeof shared);
    ht_append_long(builder_cursor(builder, stream), HT_LONG_MODULE, module, 4);
    ht_append_long(builder_cursor(builder, stream), HT_LONG_SITE, stack, 4);
    ht_append_long(builder_cursor(builder, stream), HT_LONG_SITE_LIKE, like, 4);
    ht_append_modifier(builder_room(builder, stream, HT_APPEND_ROOM_BYTES + 16), HT_MODIFIER_SITE,
                       site % 3 ? 1 + site : CALLS + site);
}

// A little of everything that a state holds: live blocks, large ones, a realloc under way, free slots, call sites.
static void build_log(const char *path) {
    static const unsigned ops[] = {HT_RAW_MALLOC, HT_RAW_MALLOC, HT_RAW_CALLOC, HT_RAW_FREE};
    struct raw_log_builder builder;
    builder_open(&builder, path);
    builder.header.features = HT_RAW_FEATURE_SITES;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned op = ops[i % 4], stream = i / 5 % STREAMS, block = op == HT_RAW_FREE ? i / 2 : i;
        uint64_t address = 0x10000 + block * UINT64_C(0x40);
        if (i % 20 == 0) append_site(&builder, stream, i / 20);
        builder_count(&builder, stream);
        ht_append_call(builder_cursor(&builder, stream), op, 1000 + i * UINT64_C(50), address,
                       op == HT_RAW_FREE ? 0
                       : i % 50          ? i
                                         : 100000);
        if (i % 60 == 7)
            ht_append_call(builder_cursor(&builder, stream), HT_RAW_REALLOC_BEGIN, 1010 + i * UINT64_C(50),
                           address, 500);
        if (i % 60 == 7)
            ht_append_bare(builder_cursor(&builder, stream), HT_RAW_REALLOC_END, 1020 + i * UINT64_C(50),
                           address);
    }
    builder_close(&builder);
}

// Merges a piece of the log (`bytes`), from its start or from a state. Returns the merge, or NULL where the
// state is refused.
static struct merge *merge_piece(struct ht_raw_log *log, struct live_streams *live,
                                 struct follow_state *state, uint64_t bytes) {
    static const struct merge_progress quiet;
    struct ht_error error = {0};
    struct ht_trace_writer *writer = ht_trace_create("/dev/null", 32, 1, &error);
    struct merge *merge = writer ? merge_begin_growing(log, writer, &error) : NULL;
    FUZZ_EXPECT(merge, "no merge: %s", error.message);
    merge->heap.keeps_order = true;
    live_streams_open(live, log, &merge->streams);
    int status = state ? follow_state_restore(state, merge, live, &error) : 0;
    if (!status) status = live_streams_poll(live, true, &error);
    if (!status && !merge_know_streams(merge)) status = -1;
    if (!status) {
        merge_stop_growing(merge);
        merge->bytes_limit = bytes;
        status = merge_run(merge, &quiet, &error);
    }
    FUZZ_EXPECT(!status || state, "the log itself is refused: %s", error.message);
    if (status) FUZZ_EXPECT(error.status == HT_EXIT_INPUT, "refused without a reason: %s", error.message);
    return merge;
}

static void end_merge(struct merge *merge, struct live_streams *live) {
    struct ht_trace_writer *writer = merge->heap.writer;
    struct ht_site_table sites;
    if (site_collector_table(&merge->heap.sites, &sites)) ht_site_table_free(&sites);
    free(merge->heap.threads);
    live_streams_close(live);
    merge_end(merge);
    ht_trace_abandon(writer);
}

// The sound state, made once. Returns its bytes.
static size_t sound_state(const char *log_path, uint8_t **state) {
    static uint8_t bytes[STATE_BYTES_MAX];
    static size_t count;
    *state = bytes;
    if (count) return count;
    char path[FUZZ_PATH_BYTES];
    struct ht_raw_log log;
    struct ht_error error;
    struct live_streams live;
    struct follow_position position = {.time_unit_ns = 32, .level = 1};
    uint64_t written;
    build_log(log_path);
    FUZZ_EXPECT(!ht_raw_open(&log, log_path, &error), "%s", error.message);
    snprintf(path, sizeof path, "/tmp/heaptape-fuzz-%d.state", (int)getpid());
    struct merge *merge = merge_piece(&log, &live, NULL, PIECE_BYTES);
    position.horizon = merge_position(merge);
    FUZZ_EXPECT(!follow_state_save(path, &log, &position, merge, &live, &written, &error), "%s",
                error.message);
    end_merge(merge, &live);
    ht_raw_close(&log);
    FILE *file = fopen(path, "r");
    FUZZ_EXPECT(file && written <= sizeof bytes, "a state of %zu bytes", (size_t)written);
    count = fread(bytes, 1, sizeof bytes, file);
    FUZZ_EXPECT(count == written, "a state that is cut short");
    fclose(file);
    unlink(path);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    char log_path[FUZZ_PATH_BYTES], state_path[FUZZ_PATH_BYTES];
    uint8_t *sound, edited[STATE_BYTES_MAX];
    fuzz_memory_file(LOG_FILE, log_path);
    int fd = fuzz_memory_file(STATE_FILE, state_path);
    size_t count = sound_state(log_path, &sound);
    memcpy(edited, sound, count);
    while (input.left >= 3) {
        uint8_t edit[3];
        fuzz_take(&input, edit, sizeof edit);
        edited[(edit[0] | (size_t)edit[1] << 8) % count] ^= edit[2];
    }
    uint64_t checksum = XXH64(edited, count - sizeof checksum, 0);
    memcpy(edited + count - sizeof checksum, &checksum, sizeof checksum);
    fuzz_reset(fd, 0);
    fuzz_write(fd, edited, count, 0);

    struct ht_raw_log log;
    struct ht_error error;
    struct live_streams live;
    struct follow_position position;
    FUZZ_EXPECT(!ht_raw_open(&log, log_path, &error), "%s", error.message);
    struct follow_state *state = follow_state_open(state_path, &log, &position, &error);
    FUZZ_EXPECT(state || bytes >= 3, "the sound state is refused: %s", error.message);
    if (state) end_merge(merge_piece(&log, &live, state, UINT64_MAX), &live);
    else FUZZ_EXPECT(error.status == HT_EXIT_INPUT, "refused without a reason: %s", error.message);
    follow_state_close(state);
    ht_raw_close(&log);
    return 0;
}
