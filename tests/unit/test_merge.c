// SPDX-License-Identifier: Apache-2.0
// The merge: a simulated heap of several threads is logged with stamps that are wrong on purpose; the trace
// must have every thread's calls in order and every free naming the object that was freed.
#include "unit_support.h"

#include <string.h>

#include "merge.h"
#include "raw_log_builder.h"

enum {
    THREADS = 4,
    ADDRESSES = 3000,
    STEPS = 300000,
    LIVE_MAX = 800,
    EXCHANGE_SLOTS_MAX = 256,
    CLASSES = 16,
    CACHE = 16
};

struct call {
    uint8_t function;
    uint64_t size;  // of the object: unique, so it names it
};

struct simulation {
    struct raw_log_builder builder;
    uint64_t seed, now, jitter_ns, next_size;
    uint64_t free_address[ADDRESSES];
    unsigned free_count;
    struct {
        uint64_t address, size;
    } live[LIVE_MAX];
    unsigned live_count;
    struct {
        bool open;
        uint64_t old_size, new_size;
    } realloc_of[THREADS];
    struct call *call[THREADS];
    unsigned calls[THREADS];
};

// A stamp that is wrong by up to the jitter; the appender keeps a thread's stamps from stepping back.
static uint64_t wrong_stamp(struct simulation *s) {
    uint64_t base = s->now + 10000;
    return s->jitter_ns ? base + unit_random(&s->seed) % (2 * s->jitter_ns) - s->jitter_ns : base;
}

static void note(struct simulation *s, unsigned thread, unsigned function, uint64_t size) {
    s->call[thread][s->calls[thread]++] = (struct call){(uint8_t)function, size};
    builder_count(&s->builder, thread);
}

// Last freed, first reused: the case in which order matters most.
static uint64_t take_address(struct simulation *s) { return s->free_address[--s->free_count]; }

static void step_malloc(struct simulation *s, unsigned thread) {
    uint64_t address = take_address(s), size = ++s->next_size;
    s->live[s->live_count].address = address;
    s->live[s->live_count++].size = size;
    ht_append_call(builder_cursor(&s->builder, thread), HT_RAW_MALLOC, wrong_stamp(s), address, size);
    note(s, thread, HT_MALLOC, size);
}

static uint64_t take_live(struct simulation *s, uint64_t *size) {
    unsigned i = (unsigned)(unit_random(&s->seed) % s->live_count);
    uint64_t address = s->live[i].address;
    *size = s->live[i].size;
    s->live[i] = s->live[--s->live_count];
    s->free_address[s->free_count++] = address;
    return address;
}

static void step_free(struct simulation *s, unsigned thread) {
    uint64_t size, address = take_live(s, &size);
    ht_append_bare(builder_cursor(&s->builder, thread), HT_RAW_FREE, wrong_stamp(s), address);
    note(s, thread, HT_FREE, size);
}

static void step_realloc(struct simulation *s, unsigned thread) {
    if (!s->realloc_of[thread].open) {
        uint64_t address = take_live(s, &s->realloc_of[thread].old_size);
        s->realloc_of[thread].new_size = ++s->next_size;
        s->realloc_of[thread].open = true;
        ht_append_call(builder_cursor(&s->builder, thread), HT_RAW_REALLOC_BEGIN, wrong_stamp(s), address,
                       s->next_size);
        return;
    }
    uint64_t address = take_address(s), size = s->realloc_of[thread].new_size;
    s->live[s->live_count].address = address;
    s->live[s->live_count++].size = size;
    s->realloc_of[thread].open = false;
    ht_append_bare(builder_cursor(&s->builder, thread), HT_RAW_REALLOC_END, wrong_stamp(s), address);
    note(s, thread, HT_REALLOC, size);
}

static void simulate(struct simulation *s, const char *path, uint64_t jitter_ns, uint64_t seed) {
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->jitter_ns = jitter_ns;
    builder_open(&s->builder, path);
    for (unsigned i = 0; i < THREADS; i++) s->call[i] = calloc(STEPS, sizeof **s->call);
    for (unsigned i = 0; i < ADDRESSES; i++)
        s->free_address[s->free_count++] = 0x10000 + 32 * (uint64_t)(ADDRESSES - i);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned thread = (unsigned)(unit_random(&s->seed) % THREADS);
        s->now += 10 + unit_random(&s->seed) % 20;
        unsigned wanted = (unsigned)(unit_random(&s->seed) % 10);
        if (s->realloc_of[thread].open) step_realloc(s, thread);
        else if (s->live_count < 10 || (wanted < 5 && s->live_count < LIVE_MAX - THREADS))
            step_malloc(s, thread);
        else if (wanted == 9) step_realloc(s, thread);
        else step_free(s, thread);
    }
    for (unsigned thread = 0; thread < THREADS; thread++)
        if (s->realloc_of[thread].open) step_realloc(s, thread);
    builder_close(&s->builder);
}

static void convert(const char *raw, const char *trace, struct merge_totals *totals) {
    struct ht_raw_log log;
    struct ht_error error = {0};
    struct merge_result result;
    if (ht_raw_open(&log, raw, &error)) fail_msg("%s", error.message);
    struct ht_trace_writer *writer = ht_trace_create(trace, 1, 1, &error);
    assert_non_null(writer);
    ht_trace_put_context(writer, "{}");
    if (merge_log(&log, NULL, writer, &result, &(struct merge_progress){0}, &error))
        fail_msg("%s", error.message);
    if (ht_trace_finish(writer, result.threads, result.totals.threads, "{}", NULL, &error))
        fail_msg("%s", error.message);
    *totals = result.totals;
    free(result.threads);
    ht_raw_close(&log);
}

// Walks the trace and compares each thread's calls with what the simulation did; with `identity`, also that
// every free ends the very object that was freed.
static void check_trace(const char *path, const struct simulation *s, bool identity) {
    struct ht_error error;
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    struct ht_trace_facts facts;
    assert_int_equal(ht_trace_facts(reader, &facts, &error), 0);
    assert_int_equal(facts.threads_count, THREADS);
    uint64_t *object = calloc(4 * ADDRESSES, sizeof *object), last_time = 0;
    unsigned at[THREADS] = {0};
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events e;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        assert_int_equal(ht_trace_events(reader, i, &e, &error), 0);
        for (uint32_t row = 0; row < e.rows; row++) {
            unsigned thread = facts.threads[e.thread[row]].tid - 100;
            const struct call *call = &s->call[thread][at[thread]++];
            assert_true(e.time_ns[row] >= last_time);
            last_time = e.time_ns[row];
            assert_int_equal(ht_op_function(e.op[row]), call->function);
            assert_int_equal(ht_op_variant(e.op[row]), HT_PLAIN);
            assert_in_range(e.slot[row], 1, 4 * ADDRESSES - 1);
            uint64_t *here = &object[e.slot[row]];
            if (call->function == HT_FREE) {
                assert_true(*here != 0);
                if (identity) assert_int_equal(*here, call->size);
                *here = 0;
            } else {
                assert_true(call->function == HT_REALLOC ? *here != 0 : *here == 0);
                assert_int_equal(e.size[row], call->size);
                *here = call->size;
            }
        }
    }
    for (unsigned thread = 0; thread < THREADS; thread++) {
        assert_int_equal(at[thread], s->calls[thread]);
        assert_int_equal(facts.threads[thread].calls > 0, 1);
    }
    free(object);
    ht_trace_facts_free(&facts);
    ht_trace_close(reader);
}

static void run_simulation(uint64_t jitter_ns, uint64_t seed, bool identity, struct merge_totals *totals) {
    char raw[256], trace[256];
    struct simulation *s = malloc(sizeof *s);
    simulate(s, unit_path(raw, "merge.mraw"), jitter_ns, seed);
    convert(raw, unit_path(trace, "merge.bin"), totals);
    check_trace(trace, s, identity);
    assert_int_equal(totals->anomalies, 0);
    assert_int_equal(totals->foreign_frees, 0);
    assert_int_equal(totals->unfinished, 0);
    assert_int_equal(totals->end_live_objects, s->live_count);
    for (unsigned i = 0; i < THREADS; i++) free(s->call[i]);
    free(s);
    unlink(raw);
    unlink(trace);
}

static void true_stamps_need_no_repair(void **state) {
    (void)state;
    struct merge_totals totals;
    run_simulation(0, 1, true, &totals);
    assert_int_equal(totals.repairs, 0);
}

static void wrong_stamps_are_repaired(void **state) {
    (void)state;
    // A call every 20 ns in one of the threads, stamps wrong by up to 9 or 18 ns: neighbouring calls change
    // places all the time. Beyond that an address could go through free, malloc and free again in other
    // threads within the error; then stamps no longer tell which of its objects a free meant, and at 18 ns a
    // test of identity would already fail.
    for (uint64_t seed = 2; seed < 12; seed += unit_thorough() ? 1 : 5) {
        struct merge_totals totals;
        run_simulation(seed % 2 ? 9 : 18, seed, seed % 2, &totals);
        assert_true(totals.repairs > 500);
    }
}

// Threads that free each other's blocks, each with a cache of its own for every size class, as allocators have: the block
// that a thread has just freed is the next of its class that it allocates.
struct exchange {
    struct raw_log_builder builder;
    uint64_t seed, now, cached[THREADS][CLASSES][CACHE], shared[EXCHANGE_SLOTS_MAX], made[THREADS];
    unsigned caches[THREADS][CLASSES], calls[THREADS], live, foreign_frees, foreign_queries;
    uint64_t next_address;
    unsigned slots, early_ns, unseen_steps;
    bool unseen;  // the recording has not begun
};

// Blocks that were allocated before the recording.
static const uint64_t UNSEEN = UINT64_C(1) << 63;

static void exchange_logs(struct exchange *x, unsigned thread, unsigned op, uint64_t stamp,
                          uint64_t address) {
    struct ht_cursor *cursor = builder_cursor(&x->builder, thread);
    if (op == HT_RAW_MALLOC) ht_append_call(cursor, op, stamp, address, 24);
    else ht_append_bare(cursor, op, stamp, address);
    if (op == HT_RAW_QUERY) return;
    x->calls[thread]++;
    builder_count(&x->builder, thread);
}

static void exchange_allocates(struct exchange *x, unsigned thread) {
    unsigned class = (unsigned)(unit_random(&x->seed) % CLASSES), *count = &x->caches[thread][class];
    uint64_t address =
        *count ? x->cached[thread][class][--*count] : (x->next_address += 32) * CLASSES + class;
    x->made[thread] = x->unseen ? address | UNSEEN : address;
    if (x->unseen) return;
    exchange_logs(x, thread, HT_RAW_MALLOC, x->now, address);
    x->live++;
}

// Another thread's block for its own. The counter is read some time before that block is fetched.
static void exchange_frees(struct exchange *x, unsigned thread) {
    unsigned at = (unsigned)(unit_random(&x->seed) % x->slots);
    uint64_t old = x->shared[at], address = old & ~UNSEEN, early = unit_random(&x->seed) % x->early_ns;
    bool foreign = old & UNSEEN;
    x->shared[at] = x->made[thread];
    x->made[thread] = 0;
    if (!address) return;
    if (!x->unseen) {
        // In a late recording some ask how large the block is, too.
        bool asks = x->unseen_steps && unit_random(&x->seed) % 8 == 0;
        if (asks) exchange_logs(x, thread, HT_RAW_QUERY, x->now - early, address);
        exchange_logs(x, thread, HT_RAW_FREE, x->now - early, address);
        x->foreign_queries += foreign && asks;
        x->calls[thread] += asks && !foreign;
        x->foreign_frees += foreign;
        x->live -= !foreign;
    }
    unsigned class = address % CLASSES, *count = &x->caches[thread][class];
    if (*count < CACHE) x->cached[thread][class][(*count)++] = address;
}

static void simulate_exchange(struct exchange *x, const char *path) {
    x->now = 10000;
    x->next_address = 0x10000;
    builder_open(&x->builder, path);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned thread = (unsigned)(unit_random(&x->seed) % THREADS);
        x->unseen = step < x->unseen_steps;
        x->now += 10 + unit_random(&x->seed) % 20;
        if (x->made[thread]) exchange_frees(x, thread);
        else exchange_allocates(x, thread);
    }
    builder_close(&x->builder);
}

static void check_calls(const char *path, const struct exchange *x) {
    struct ht_error error;
    struct ht_trace_facts facts;
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    assert_int_equal(ht_trace_facts(reader, &facts, &error), 0);
    assert_int_equal(facts.threads_count, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(facts.threads[i].calls, x->calls[facts.threads[i].tid - 100]);
    ht_trace_facts_free(&facts);
    ht_trace_close(reader);
}

static void convert_exchange(struct exchange *x, struct merge_totals *totals) {
    char raw[256], trace[256];
    simulate_exchange(x, unit_path(raw, "exchange.mraw"));
    convert(raw, unit_path(trace, "exchange.bin"), totals);
    check_calls(trace, x);
    unlink(raw);
    unlink(trace);
}

// An address goes through free, malloc and free again within the error of a stamp: no block is lost by it.
static void early_frees_of_addresses_in_use_again_are_repaired(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed += unit_thorough() ? 1 : 4) {
        struct merge_totals totals;
        struct exchange *x = calloc(1, sizeof *x);
        x->seed = seed;
        x->slots = 4;
        x->early_ns = 200;
        convert_exchange(x, &totals);
        assert_int_equal(totals.anomalies, 0);
        assert_int_equal(totals.foreign_frees, 0);
        assert_int_equal(totals.end_live_objects, x->live);
        assert_true(totals.repairs > 500);
        free(x);
    }
}

// Hundreds of blocks that were allocated before the recording are freed as it begins, and their addresses are in use again
// within microseconds: a thread that waited for their allocations would fall behind those who use them.
static void a_recording_that_begins_late_keeps_its_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed += unit_thorough() ? 1 : 4) {
        struct merge_totals totals;
        struct exchange *x = calloc(1, sizeof *x);
        x->seed = seed;
        x->slots = EXCHANGE_SLOTS_MAX;
        x->early_ns = 1 + 10 * (unsigned)(seed % 3);
        x->unseen_steps = STEPS / 10;
        convert_exchange(x, &totals);
        assert_int_equal(totals.anomalies, 0);
        assert_int_equal(totals.foreign_frees, x->foreign_frees);
        assert_int_equal(totals.foreign_queries, x->foreign_queries);
        assert_int_equal(totals.end_live_objects, x->live);
        assert_true(x->foreign_frees > 200);
        free(x);
    }
}

static void convert_lines(const struct builder_line *line, size_t lines, struct merge_totals *totals) {
    char raw[256], trace[256];
    struct raw_log_builder builder;
    builder_open(&builder, unit_path(raw, "lines.mraw"));
    builder_put(&builder, line, lines);
    builder_close(&builder);
    convert(raw, unit_path(trace, "lines.bin"), totals);
    unlink(raw);
    unlink(trace);
}

// A realloc in place, and one that moves its block, after which the address is allocated again: each time another thread's
// free of the new block is stamped first.
static void a_realloc_that_a_free_overtook_leaves_nothing_behind(void **state) {
    (void)state;
    static const struct builder_line in_place[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40},     {1, HT_RAW_MALLOC, 11, 0x900, 40},
        {1, HT_RAW_FREE, 20, 0x100, 0},        {0, HT_RAW_REALLOC_BEGIN, 25, 0x100, 80},
        {0, HT_RAW_REALLOC_END, 26, 0x100, 0}, {0, HT_RAW_MALLOC, 5000, 0x100, 50},
        {0, HT_RAW_FREE, 6000, 0x100, 0},      {1, HT_RAW_FREE, 6001, 0x900, 0}};
    static const struct builder_line moved[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40},     {1, HT_RAW_MALLOC, 11, 0x900, 40},
        {1, HT_RAW_FREE, 20, 0x100, 0},        {0, HT_RAW_REALLOC_BEGIN, 25, 0x100, 80},
        {0, HT_RAW_REALLOC_END, 26, 0x200, 0}, {0, HT_RAW_MALLOC, 27, 0x100, 30},
        {0, HT_RAW_FREE, 100, 0x200, 0},       {0, HT_RAW_MALLOC, 5000, 0x100, 50},
        {0, HT_RAW_FREE, 6000, 0x100, 0},      {1, HT_RAW_FREE, 6001, 0x900, 0}};
    struct merge_totals totals;
    for (unsigned i = 0; i < 2; i++) {
        if (i) convert_lines(moved, sizeof moved / sizeof *moved, &totals);
        else convert_lines(in_place, sizeof in_place / sizeof *in_place, &totals);
        assert_int_equal(totals.anomalies, 0);
        assert_int_equal(totals.foreign_frees, 0);
        assert_int_equal(totals.repairs, 1);
        assert_int_equal(totals.end_live_objects, 0);
    }
}

static void a_free_that_nothing_explains_is_foreign(void **state) {
    (void)state;
    static const struct builder_line lines[] = {{0, HT_RAW_MALLOC, 10, 0x100, 1},
                                                {0, HT_RAW_FREE, 20, 0x900, 0},
                                                {1, HT_RAW_MALLOC, 30, 0x200, 1},
                                                {1, HT_RAW_FREE, 9000000, 0x100, 0}};
    struct merge_totals totals;
    convert_lines(lines, 4, &totals);
    assert_int_equal(totals.foreign_frees, 1);
    assert_int_equal(totals.anomalies, 0);
    assert_int_equal(totals.events, 4);
    assert_int_equal(totals.end_live_objects, 1);
}

static void a_live_address_handed_out_again_is_an_anomaly(void **state) {
    (void)state;
    static const struct builder_line lines[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40}, {0, HT_RAW_MALLOC, 20, 0x100, 50}, {0, HT_RAW_FREE, 30, 0x100, 0}};
    struct merge_totals totals;
    convert_lines(lines, 3, &totals);
    assert_int_equal(totals.anomalies, 1);
    assert_int_equal(totals.events, 3);
    assert_int_equal(totals.records, 4);  // with the drop
    assert_int_equal(totals.end_live_objects, 0);
    assert_int_equal(totals.peak_live_bytes, 50);
}

static void a_realloc_cut_off_leaves_its_block_alive(void **state) {
    (void)state;
    static const struct builder_line lines[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                {0, HT_RAW_REALLOC_BEGIN, 20, 0x100, 80}};
    struct merge_totals totals;
    convert_lines(lines, 2, &totals);
    assert_int_equal(totals.unfinished, 1);
    assert_int_equal(totals.events, 1);
    assert_int_equal(totals.end_live_bytes, 40);
}

static void two_threads_that_wait_for_what_never_comes_both_end(void **state) {
    (void)state;
    // Each frees a block that was never allocated, at the same time: no wait may last.
    static const struct builder_line lines[] = {{0, HT_RAW_FREE, 10, 0x900, 0},
                                                {1, HT_RAW_FREE, 10, 0xa00, 0},
                                                {0, HT_RAW_FREE, 11, 0xa00, 0},
                                                {1, HT_RAW_FREE, 11, 0x900, 0}};
    struct merge_totals totals;
    convert_lines(lines, 4, &totals);
    assert_int_equal(totals.foreign_frees, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(true_stamps_need_no_repair),
                                       cmocka_unit_test(wrong_stamps_are_repaired),
                                       cmocka_unit_test(early_frees_of_addresses_in_use_again_are_repaired),
                                       cmocka_unit_test(a_recording_that_begins_late_keeps_its_order),
                                       cmocka_unit_test(a_realloc_that_a_free_overtook_leaves_nothing_behind),
                                       cmocka_unit_test(a_free_that_nothing_explains_is_foreign),
                                       cmocka_unit_test(a_live_address_handed_out_again_is_an_anomaly),
                                       cmocka_unit_test(a_realloc_cut_off_leaves_its_block_alive),
                                       cmocka_unit_test(two_threads_that_wait_for_what_never_comes_both_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
