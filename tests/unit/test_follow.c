// SPDX-License-Identifier: Apache-2.0
// Following a log that grows: what is handed on when, in which order it is merged, and that a follower which
// is ended at any moment leaves what the next one needs.
#include "unit_support.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "checksum.h"
#include "follow_state.h"
#include "merge.h"
#include "punch_holes.h"
#include "raw_log_builder.h"
#include "site_table.h"

// ---- a log that is written by hand, record by record ----

enum { LOG_BYTES = 1 << 20, HAND_CHUNK_BYTES = 128 << 10 };

struct growing {
    char raw[256], trace[256];
    uint8_t *mapping;
    struct ht_raw_header *header;
    struct ht_cursor cursor[4];
    struct ht_raw_chunk *chunk[4];
    struct ht_raw_log log;
    struct ht_trace_writer *writer;
    struct merge *merge;
    struct live_streams live;
    struct ht_error error;
};

static struct ht_raw_chunk *place_chunk(struct growing *g) {
    uint64_t offset = g->header->chunks_end;
    g->header->chunks_end += HAND_CHUNK_BYTES;
    return (struct ht_raw_chunk *)(void *)(g->mapping + offset);
}

static void begin_chunk(struct growing *g, unsigned stream, struct ht_raw_chunk *chunk) {
    struct ht_raw_chunk *old = g->chunk[stream];
    *chunk = (struct ht_raw_chunk){.stream = stream,
                                   .tid = 100 + stream,
                                   .index = old ? old->index + 1 : 0,
                                   .bytes = HAND_CHUNK_BYTES,
                                   .base_stamp = g->cursor[stream].last_stamp,
                                   .base_address = g->cursor[stream].last_address};
    if (old) old->used = (uint32_t)(g->cursor[stream].at - (uint8_t *)old);
    chunk->magic = HT_CHUNK_MAGIC;
    g->chunk[stream] = chunk;
    g->cursor[stream].at = (uint8_t *)(chunk + 1);
}

static void put(struct growing *g, unsigned stream, unsigned op, uint64_t stamp, uint64_t address,
                uint64_t size) {
    if (!g->chunk[stream]) begin_chunk(g, stream, place_chunk(g));
    if (op == HT_RAW_FREE || op == HT_RAW_REALLOC_END) ht_append_bare(&g->cursor[stream], op, stamp, address);
    else ht_append_call(&g->cursor[stream], op, stamp, address, size);
}

static void open_growing(struct growing *g) {
    memset(g, 0, sizeof *g);
    int fd = open(unit_path(g->raw, "growing.mraw"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && !ftruncate(fd, LOG_BYTES));
    g->mapping = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(g->mapping, MAP_FAILED);
    close(fd);
    g->header = (struct ht_raw_header *)(void *)g->mapping;
    *g->header = (struct ht_raw_header){.version = HT_RAW_VERSION,
                                        .min_reader = HT_RAW_MIN_READER,
                                        .header_bytes = HT_RAW_HEADER_BYTES,
                                        .page_bytes = 4096,
                                        .pid = 1,
                                        .clock_kind = HT_CLOCK_GETTIME,
                                        .chunks_end = HT_RAW_HEADER_BYTES,
                                        .reserve_bytes = LOG_BYTES,
                                        .state = HT_RAW_RECORDING};
    memcpy(g->header->magic, HT_RAW_MAGIC, sizeof g->header->magic);
    assert_int_equal(ht_raw_open(&g->log, g->raw, &g->error), 0);
    g->writer = ht_trace_create(unit_path(g->trace, "growing.bin"), 1, 1, &g->error);
    assert_non_null(g->writer);
    g->merge = merge_begin_growing(&g->log, g->writer, &g->error);
    assert_non_null(g->merge);
    live_streams_open(&g->live, &g->log, &g->merge->streams);
}

static void poll_once(struct growing *g) {
    assert_int_equal(live_streams_poll(&g->live, false, &g->error), 0);
    assert_true(merge_know_streams(g->merge));
    for (uint32_t i = 0; i < g->merge->inputs; i++)
        if (g->merge->input[i].idle &&
            g->merge->streams.stream[i].next_chunk < g->merge->streams.stream[i].chunks)
            merge_ready(g->merge, i);
}

// Merges up to the horizon; how many events there are then.
static uint64_t run_to(struct growing *g, uint64_t horizon) {
    static const struct merge_progress quiet;
    g->merge->horizon = horizon;
    assert_int_equal(merge_run(g->merge, &quiet, &g->error), 0);
    return ht_trace_next_event(g->writer);
}

static void close_growing(struct growing *g) {
    free(g->merge->heap.threads);
    live_streams_close(&g->live);
    merge_end(g->merge);
    ht_trace_abandon(g->writer);
    ht_raw_close(&g->log);
    munmap(g->mapping, LOG_BYTES);
    unlink(g->raw);
}

static void test_two_polls(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    poll_once(&g);
    assert_int_equal(run_to(&g, 9), 0);
    poll_once(&g);
    assert_int_equal(run_to(&g, 100), 1);
    poll_once(&g);
    assert_int_equal(run_to(&g, 200), 1);
    close_growing(&g);
}

// A record of which the first poll sees one half, wherever it is torn.
static void test_torn_store(void **state) {
    (void)state;
    for (unsigned seen = 1; seen < 8; seen++) {
        for (unsigned late_half = 0; late_half < 2; late_half++) {
            struct growing g;
            uint8_t whole[8];
            open_growing(&g);
            put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
            uint8_t *at = g.cursor[0].at;
            put(&g, 0, HT_RAW_MALLOC, 0x1234, 0x2340, 0x77);
            memcpy(whole, at, sizeof whole);
            if (late_half) memset(at, 0, seen);
            else memset(at + seen, 0, sizeof whole - seen);
            poll_once(&g);
            memcpy(at, whole, sizeof whole);
            poll_once(&g);
            assert_true(run_to(&g, 100000) <= 2);
            poll_once(&g);
            assert_int_equal(run_to(&g, 200000), 2);
            assert_int_equal(g.merge->heap.live_bytes, 8 + 0x77);
            close_growing(&g);
        }
    }
}

static void test_modifier_waits_for_its_call(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    ht_append_modifier(&g.cursor[0], HT_MODIFIER_COUNT, 3);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 19), 1);
    put(&g, 0, HT_RAW_CALLOC, 20, 0x2000, 5);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 100), 2);
    assert_int_equal(g.merge->heap.live_bytes, 8 + 15);
    close_growing(&g);
}

// The place where the merge is can be found as often as one likes, whatever holes were punched meanwhile.
static void test_place_after_punching(void **state) {
    (void)state;
    enum { CALLS = 16000, STEP = 7 };
    struct growing g;
    open_growing(&g);
    struct hole_punch punch = {.log = &g.log, .trace = "growing.bin"};
    for (uint64_t i = 1; i <= CALLS; i++) put(&g, 0, HT_RAW_MALLOC, 10 * i, 0x100000 + i * 0x50, i % 4096);
    poll_once(&g);
    poll_once(&g);
    for (uint64_t i = STEP; i <= CALLS && !punch.impossible; i += STEP) {
        struct stream_place before, after;
        assert_int_equal(run_to(&g, 10 * i), i);
        assert_int_equal(live_stream_place(&g.live, 0, &before, &g.error), 0);
        assert_int_equal(punch_holes(&punch, &g.live, &g.error), 0);
        assert_int_equal(live_stream_place(&g.live, 0, &after, &g.error), 0);
        assert_int_equal(before.at, after.at);
        assert_int_equal(before.stamp, after.stamp);
    }
    bool impossible = punch.impossible;
    close_growing(&g);
    if (impossible) skip();
    assert_true(punch.bytes > 0);
}

// An idle stream holds nobody up, and nothing beyond the horizon is taken.
static void test_horizon(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    put(&g, 1, HT_RAW_MALLOC, 20, 0x2000, 8);
    put(&g, 1, HT_RAW_MALLOC, 60, 0x3000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 15), 1);
    assert_int_equal(run_to(&g, 59), 2);
    assert_int_equal(run_to(&g, 60), 3);
    assert_int_equal(g.merge->late_records, 0);
    close_growing(&g);
}

// What comes when the others are beyond it is merged where they are, and is no error.
static void test_late_record(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    put(&g, 1, HT_RAW_MALLOC, 100, 0x2000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 100), 2);
    put(&g, 0, HT_RAW_FREE, 50, 0x1000, 0);
    put(&g, 0, HT_RAW_MALLOC, 150, 0x1000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 120), 3);
    assert_int_equal(g.merge->late_records, 1);
    assert_int_equal(run_to(&g, 200), 4);
    assert_int_equal(g.merge->heap.totals.anomalies, 0);
    assert_int_equal(g.merge->late_records, 1);
    close_growing(&g);
}

// An allocation whose address is still taken waits for the free, which another thread's chunk brings later.
static void test_waits_for_the_free(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    put(&g, 1, HT_RAW_MALLOC, 50, 0x1000, 16);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 60), 1);
    put(&g, 0, HT_RAW_FREE, 55, 0x1000, 0);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 70), 3);
    assert_int_equal(g.merge->heap.totals.anomalies, 0);
    assert_int_equal(g.merge->heap.totals.repairs, 1);
    // Whether a free comes is known when the log is 20 µs further, which is 20,000 stamps.
    put(&g, 0, HT_RAW_MALLOC, 100, 0x1000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 20099), 3);
    assert_int_equal(run_to(&g, 20100), 5);
    assert_int_equal(g.merge->heap.totals.anomalies, 1);
    close_growing(&g);
}

// Nor does a free of a block from before the recording make its thread wait: it is foreign as soon as the log shows that
// nobody allocates the block about then, and 2 µs later already once there has been one.
static void test_foreign_frees_are_told_in_time(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    put(&g, 1, HT_RAW_MALLOC, 50, 0x2000, 8);
    put(&g, 0, HT_RAW_FREE, 100, 0x9000, 0);
    put(&g, 1, HT_RAW_MALLOC, 300, 0x3000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 20099), 2);
    assert_int_equal(merge_position(g.merge), 99);
    assert_int_equal(run_to(&g, 20100), 4);
    assert_int_equal(g.merge->heap.totals.foreign_frees, 1);
    put(&g, 0, HT_RAW_FREE, 30000, 0xa000, 0);
    put(&g, 1, HT_RAW_MALLOC, 33000, 0xa000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 31999), 4);
    assert_int_equal(run_to(&g, 32000), 5);
    assert_int_equal(g.merge->heap.totals.foreign_frees, 2);
    // Stamps in the wrong order are repaired all the same.
    put(&g, 0, HT_RAW_FREE, 40000, 0xb000, 0);
    put(&g, 1, HT_RAW_MALLOC, 40100, 0xb000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 40099), 6);
    assert_int_equal(run_to(&g, 40100), 8);
    assert_int_equal(g.merge->heap.totals.repairs, 1);
    assert_int_equal(g.merge->heap.totals.foreign_frees, 2);
    close_growing(&g);
}

// Calls without a time are handed on with the stamp after them.
static void test_untimed_calls_wait_for_a_stamp(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    g.merge->streams.tick_stamps = 1000000;
    put(&g, 0, HT_RAW_MALLOC, 10, 0x1000, 8);
    put(&g, 0, HT_RAW_MALLOC, 0, 0x2000, 8);
    for (unsigned poll = 0; poll < 3; poll++) poll_once(&g);
    assert_int_equal(live_streams_limit(&g.live), 9);
    assert_int_equal(run_to(&g, 9), 0);
    put(&g, 0, HT_RAW_MALLOC, 50, 0x3000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_true(live_streams_limit(&g.live) == UINT64_MAX);
    assert_int_equal(run_to(&g, 29), 1);
    assert_int_equal(run_to(&g, 30), 2);
    assert_int_equal(run_to(&g, 50), 3);
    // A second stream frees the block of a call that will never have a stamp after it.
    put(&g, 0, HT_RAW_MALLOC, 0, 0x4000, 8);
    poll_once(&g);
    g.cursor[1].last_stamp = 200;
    put(&g, 1, HT_RAW_FREE, 210, 0x4000, 0);
    poll_once(&g);
    assert_int_equal(live_streams_limit(&g.live), 49);
    assert_int_equal(run_to(&g, 50), 3);
    poll_once(&g);
    assert_true(live_streams_limit(&g.live) == UINT64_MAX);
    assert_int_equal(run_to(&g, 300), 5);
    assert_int_equal(g.merge->heap.totals.foreign_frees, 0);
    assert_int_equal(g.merge->late_records, 0);
    close_growing(&g);
}

// Chunks are begun in another order than they were handed out in, and streams go on into the next.
static void test_chunks_out_of_order(void **state) {
    (void)state;
    struct growing g;
    open_growing(&g);
    struct ht_raw_chunk *first = place_chunk(&g), *second = place_chunk(&g), *third = place_chunk(&g);
    begin_chunk(&g, 1, second);
    put(&g, 1, HT_RAW_MALLOC, 20, 0x2000, 8);
    poll_once(&g);
    poll_once(&g);
    assert_int_equal(run_to(&g, 30), 1);
    begin_chunk(&g, 0, first);
    put(&g, 0, HT_RAW_MALLOC, 40, 0x1000, 8);
    begin_chunk(&g, 0, third);
    put(&g, 0, HT_RAW_FREE, 50, 0x1000, 0);
    poll_once(&g);
    // The first chunk has a successor, so one poll is enough for it.
    assert_int_equal(run_to(&g, 60), 2);
    poll_once(&g);
    assert_int_equal(run_to(&g, 70), 3);
    assert_int_equal(g.merge->heap.slots.live, 1);
    close_growing(&g);
}

// ---- ended and resumed ----

enum { SITES = 300, SITE_MODULES = 5 };
enum { THREADS = 4, STEPS = 60000, LIVE_MAX = 600, ADDRESSES = 2000, UNTIMED_STEPS = 30000 };

struct program {
    struct raw_log_builder builder;
    uint64_t seed, now;
    uint64_t free_address[ADDRESSES], live[LIVE_MAX];
    unsigned free_count, live_count;
    struct {
        bool open;
        uint64_t old;
    } realloc_of[THREADS];
    unsigned untimed_steps;  // while there is one thread
    bool sites_known[SITES], modules_known[SITE_MODULES];
};

// The next call's stamp, or 0: none. Now and then the program pauses.
static uint64_t next_stamp(struct program *p) {
    uint64_t kind = unit_random(&p->seed);
    p->now += 20 + kind % 500;
    if (p->untimed_steps && kind >> 32 & 31) return 0;
    if (p->untimed_steps && !(kind >> 40 & 63)) p->now += 50000000;
    return p->now;
}

static void append(struct program *p, unsigned thread, unsigned op, uint64_t address, uint64_t size) {
    const struct builder_line line = {thread, op, next_stamp(p), address, size};
    builder_put(&p->builder, &line, 1);
}

static void append_module(struct program *p, unsigned thread, unsigned module) {
    uint64_t word[4] = {p->now, module + 1, 3 | UINT64_C(5) << 32};
    memcpy(&word[3], "id ", 3);
    memcpy((char *)&word[3] + 3, "/m.so", 5);
    ht_append_long(builder_cursor(&p->builder, thread), HT_LONG_MODULE, word, 4);
}

// The call site of the thread's next allocations. Who meets it first says what its number means; some have a stack that takes
// much of a chunk.
static void append_site(struct program *p, unsigned thread) {
    unsigned site = (unsigned)(unit_random(&p->seed) % SITES), module = site % SITE_MODULES;
    uint64_t word[2 + HT_SITE_FRAMES_MAX] = {p->now, (site + 1) | (uint64_t)(site % 3) << 32};
    unsigned frames = site % 50 ? site % 7 : HT_SITE_FRAMES_MAX;
    for (unsigned i = 0; i < frames; i++)
        word[2 + i] = (uint64_t)(i % 2 ? module + 1 : 0) << 48 | (16 + site / (i + 1));
    if (!p->modules_known[module]) append_module(p, thread, module);
    if (!p->sites_known[site])
        ht_append_long(builder_room(&p->builder, thread, 2048), HT_LONG_SITE, word, 2 + frames);
    p->sites_known[site] = p->modules_known[module] = true;
    // The call after it comes into the same chunk.
    ht_append_modifier(builder_room(&p->builder, thread, HT_APPEND_ROOM_BYTES + 16), HT_MODIFIER_SITE,
                       site + 1);
}

// The recorder has measured a live block; how much of a small one is resident it does not record.
static void append_resident(struct program *p, unsigned thread, uint64_t address) {
    const uint64_t word[3] = {p->now, address, unit_random(&p->seed) % 30};
    ht_append_long(builder_cursor(&p->builder, thread), HT_LONG_RESIDENT_SO_FAR, word, 3);
}

static void append_free(struct program *p, unsigned thread, uint64_t address) {
    struct ht_cursor *cursor = builder_cursor(&p->builder, thread);
    ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_AFTER, 20);
    ht_append_bare(cursor, HT_RAW_FREE, next_stamp(p), address);
    builder_count(&p->builder, thread);
}

// One call, or half a realloc, of a random thread. Blocks come back last freed first.
static void program_step(struct program *p) {
    unsigned thread = p->untimed_steps ? 0 : (unsigned)(unit_random(&p->seed) % THREADS),
             kind = (unsigned)(unit_random(&p->seed) % 16);
    uint64_t size = kind == 15 ? 100000 : 1 + unit_random(&p->seed) % 300;
    unsigned victim = p->live_count ? (unsigned)(unit_random(&p->seed) % p->live_count) : 0;
    if (unit_random(&p->seed) % 3 == 0) append_site(p, thread);
    if (p->realloc_of[thread].open) {
        uint64_t address = p->free_address[--p->free_count];
        append(p, thread, HT_RAW_REALLOC_END, address, 0);
        p->free_address[p->free_count++] = p->realloc_of[thread].old;
        p->live[p->live_count++] = address;
        p->realloc_of[thread].open = false;
    } else if (kind == 0 && p->live_count) {
        append(p, thread, HT_RAW_REALLOC_BEGIN, p->live[victim], size);
        p->realloc_of[thread].open = true;
        p->realloc_of[thread].old = p->live[victim];
        p->live[victim] = p->live[--p->live_count];
    } else if (p->live_count < 10 || (p->live_count < LIVE_MAX - THREADS && kind % 2)) {
        append(p, thread, HT_RAW_MALLOC, p->free_address[--p->free_count], size);
        p->live[p->live_count++] = p->free_address[p->free_count];
        append_resident(p, thread, p->live[victim]);
    } else {
        append_free(p, thread, p->live[victim]);
        p->free_address[p->free_count++] = p->live[victim];
        p->live[victim] = p->live[--p->live_count];
    }
}

static void write_program(const char *raw, uint64_t seed) {
    static struct program p;
    p = (struct program){.seed = seed, .now = 1000};
    builder_open(&p.builder, raw);
    for (unsigned i = 0; i < ADDRESSES; i++) p.free_address[p.free_count++] = 0x10000 + (uint64_t)i * 0x40;
    p.untimed_steps = seed % 2 ? 0 : UNTIMED_STEPS;
    p.builder.header.features = HT_RAW_FEATURE_SITES;
    if (p.untimed_steps) {
        p.builder.header.features |= HT_RAW_FEATURE_UNTIMED;
        p.builder.header.tick_ns = 4000000;
    }
    for (unsigned i = 0; i < STEPS; i++) {
        program_step(&p);
        if (!p.untimed_steps || --p.untimed_steps) continue;
        for (unsigned thread = 1; thread < THREADS; thread++)
            p.builder.stream[thread].cursor.last_stamp = p.now;
    }
    builder_close(&p.builder);
}

struct trace_events {
    uint8_t op[STEPS];
    uint32_t thread[STEPS], slot[STEPS], site[STEPS];
    uint64_t size[STEPS], time_ns[STEPS];
    size_t count;
    uint64_t known[STEPS][3];  // of large blocks: how full they were in the end, and meanwhile
    size_t ends, steps;
    uint64_t sites[8];  // how many rows the tables of call sites have, and their checksums
};

static void read_sites(struct trace_events *all, struct ht_trace_reader *reader) {
    struct ht_site_table table;
    struct ht_error error = {0};
    assert_int_equal(ht_trace_site_table(reader, &table, &error), 0);
    const uint64_t sites[8] = {
        table.locations_count, XXH64(table.locations, table.locations_count * sizeof *table.locations, 0),
        table.callers_count,   XXH64(table.callers, table.callers_count * sizeof *table.callers, 0),
        table.sites_count,     XXH64(table.sites, table.sites_count * sizeof *table.sites, 0),
        table.names_count,     XXH64(table.modules_json, strlen(table.modules_json), 0)};
    assert_int_equal(table.sites_count, SITES);
    memcpy(all->sites, sites, sizeof sites);
    ht_site_table_free(&table);
}

static void read_residency(struct trace_events *all, struct ht_trace_reader *reader) {
    struct ht_trace_facts facts;
    struct ht_error error = {0};
    assert_int_equal(ht_trace_facts(reader, &facts, &error), 0);
    assert_true(facts.residency_count + facts.steps_count <= STEPS);
    memset(all->known, 0, sizeof all->known);
    all->ends = facts.residency_count;
    all->steps = facts.steps_count;
    for (size_t i = 0; i < all->ends; i++)
        memcpy(all->known[i], &facts.residency[i], sizeof facts.residency[i]);
    for (size_t i = 0; i < all->steps; i++)
        memcpy(all->known[all->ends + i], &facts.steps[i], sizeof facts.steps[i]);
    ht_trace_facts_free(&facts);
}

static void read_trace(struct trace_events *all, const char *path) {
    struct ht_error error = {0};
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    all->count = 0;
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events e;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        assert_int_equal(ht_trace_events(reader, i, &e, &error), 0);
        for (uint32_t row = 0; row < e.rows; row++, all->count++) {
            assert_true(all->count < STEPS);
            all->op[all->count] = e.op[row];
            all->thread[all->count] = e.thread[row];
            all->slot[all->count] = e.slot[row];
            all->site[all->count] = e.site ? e.site[row] : 0;
            all->size[all->count] = e.size[row];
            all->time_ns[all->count] = e.time_ns[row];
        }
    }
    read_residency(all, reader);
    read_sites(all, reader);
    ht_trace_close(reader);
    unlink(path);
}

static void finish_trace(struct ht_trace_writer *writer, struct merge_result *result) {
    struct ht_error error;
    assert_false(result->no_sites);
    ht_trace_put_site_table(writer, &result->sites);
    ht_site_table_free(&result->sites);
    assert_int_equal(ht_trace_finish(writer, result->threads, result->totals.threads, "{}", NULL, &error), 0);
}

static struct merge_totals convert_at_once(const char *raw, const char *trace) {
    static const struct merge_progress quiet;
    struct ht_raw_log log;
    struct ht_error error;
    struct merge_result result;
    assert_int_equal(ht_raw_open(&log, raw, &error), 0);
    struct ht_trace_writer *writer = ht_trace_create(trace, 1, 1, &error);
    assert_non_null(writer);
    int status = merge_log(&log, NULL, writer, &result, &quiet, &error);
    if (status) fail_msg("%s", error.message);
    finish_trace(writer, &result);
    free(result.threads);
    ht_raw_close(&log);
    return result.totals;
}

// One follower of many: goes on from the state, merges a piece, and leaves a state. True at the end of the
// log.
static bool convert_piece(const char *raw, const char *trace, const char *state_path, bool first,
                          uint64_t bytes, struct merge_totals *totals) {
    static const struct merge_progress quiet;
    struct ht_raw_log log;
    struct ht_error error = {0};
    struct follow_position position = {.time_unit_ns = 1, .level = 1};
    struct live_streams live;
    struct merge_result result;
    uint64_t state_bytes;
    assert_int_equal(ht_raw_open(&log, raw, &error), 0);
    struct follow_state *state = first ? NULL : follow_state_open(state_path, &log, &position, &error);
    assert_true(first || state);
    struct ht_trace_writer *writer = first ? ht_trace_create_lasting(trace, 1, 1, &error)
                                           : ht_trace_resume(trace, 1, 1, &position.trace, &error);
    assert_non_null(writer);
    struct merge *merge = merge_begin_growing(&log, writer, &error);
    assert_non_null(merge);
    merge->heap.keeps_order = true;
    live_streams_open(&live, &log, &merge->streams);
    if (state) assert_int_equal(follow_state_restore(state, merge, &live, &error), 0);
    follow_state_close(state);
    assert_int_equal(live_streams_poll(&live, true, &error), 0);
    assert_true(merge_know_streams(merge));
    merge_stop_growing(merge);
    merge->bytes_limit = bytes;
    assert_int_equal(merge_run(merge, &quiet, &error), 0);
    bool done = !merge->order_count && !merge->blocked_count;
    if (done) {
        merge_results(merge, &result);
        *totals = result.totals;
        finish_trace(writer, &result);
    } else {
        assert_int_equal(ht_trace_checkpoint(writer, &position.trace, &error), 0);
        position.horizon = merge_position(merge);
        assert_int_equal(follow_state_save(state_path, &log, &position, merge, &live, &state_bytes, &error),
                         0);
        // What is written behind the checkpoint is cut off again.
        ht_trace_put_event(writer, ht_op(HT_FREE, HT_NULL), 0, UINT64_C(1) << 40, 0, false, 0, 0);
        assert_int_equal(ht_trace_checkpoint(writer, &position.trace, &error), 0);
        ht_trace_abandon(writer);
    }
    free(merge->heap.threads);
    live_streams_close(&live);
    merge_end(merge);
    ht_raw_close(&log);
    return done;
}

static void test_resumed(void **unused) {
    (void)unused;
    static struct trace_events whole, pieces;
    char raw[256], trace[256], state[256];
    unit_path(raw, "pieces.mraw");
    unit_path(trace, "pieces.bin");
    unit_path(state, "pieces.state");
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct merge_totals wanted, got;
        unsigned followers = 0;
        uint64_t random = seed;
        write_program(raw, seed);
        wanted = convert_at_once(raw, trace);
        read_trace(&whole, trace);
        while (!convert_piece(raw, trace, state, followers == 0, 1 + unit_random(&random) % 100000, &got))
            followers++;
        read_trace(&pieces, trace);
        assert_true(followers >= 3 && whole.ends > 100 && whole.steps > 100);
        assert_int_equal(whole.count, pieces.count);
        assert_memory_equal(&whole, &pieces, sizeof whole);
        assert_memory_equal(&wanted, &got, sizeof wanted);
    }
    unlink(raw);
    unlink(state);
}

static void flip_byte(const char *path, long offset) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 0x40, file);
    fclose(file);
}

static void test_damaged_state(void **unused) {
    (void)unused;
    char raw[256], trace[256], path[256];
    struct merge_totals totals;
    struct ht_raw_log log;
    struct ht_error error;
    struct follow_position position;
    unit_path(raw, "damaged.mraw");
    unit_path(trace, "damaged.bin");
    unit_path(path, "damaged.state");
    write_program(raw, 7);
    assert_false(convert_piece(raw, trace, path, true, 50000, &totals));
    assert_int_equal(ht_raw_open(&log, raw, &error), 0);
    struct follow_state *state = follow_state_open(path, &log, &position, &error);
    assert_non_null(state);
    follow_state_close(state);
    for (long offset = -1; offset > -3000; offset -= 499) {
        flip_byte(path, offset);
        assert_null(follow_state_open(path, &log, &position, &error));
        assert_int_equal(error.status, HT_EXIT_INPUT);
        flip_byte(path, offset);
    }
    log.header.start_realtime_ns ^= 1;  // another log of the same process id
    assert_null(follow_state_open(path, &log, &position, &error));
    assert_non_null(strstr(error.message, "another log's"));
    assert_int_equal(truncate(path, 100), 0);
    assert_null(follow_state_open(path, &log, &position, &error));
    ht_raw_close(&log);
    unlink(raw);
    unlink(path);
    strcat(trace, ".partial");
    unlink(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_polls),
        cmocka_unit_test(test_torn_store),
        cmocka_unit_test(test_modifier_waits_for_its_call),
        cmocka_unit_test(test_place_after_punching),
        cmocka_unit_test(test_horizon),
        cmocka_unit_test(test_late_record),
        cmocka_unit_test(test_waits_for_the_free),
        cmocka_unit_test(test_foreign_frees_are_told_in_time),
        cmocka_unit_test(test_untimed_calls_wait_for_a_stamp),
        cmocka_unit_test(test_chunks_out_of_order),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_damaged_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
