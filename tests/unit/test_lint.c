// SPDX-License-Identifier: Apache-2.0
// Lint on raw logs built by hand, with mistakes that no allocator would survive; and the map of live ranges.
#include "unit_support.h"

#include <string.h>

#include "lint_passes.h"
#include "live_ranges.h"
#include "raw_log_builder.h"

static void lint_lines(struct lint *lint, const struct builder_line *line, size_t lines) {
    struct raw_log_builder builder;
    struct ht_raw_log log;
    struct ht_error error;
    struct ht_raw_damage damage;
    const struct merge_progress progress = {0};
    char path[256], warning[1024] = "";
    builder_open(&builder, unit_path(path, "lint.mraw"));
    builder_put(&builder, line, lines);
    builder_close(&builder);
    assert_true(lint_init(lint, true, 8));
    assert_int_equal(ht_raw_open(&log, path, &error), 0);
    assert_int_equal(lint_raw(lint, &log, warning, &damage, &progress, &error), 0);
    assert_int_equal(damage.places, 0);
    ht_raw_close(&log);
    unlink(path);
}

// Every kind but those named was found nowhere.
static void only(const struct lint *lint, enum lint_kind kind, uint64_t count) {
    for (unsigned i = 0; i < LINT_KINDS; i++)
        assert_int_equal(lint->tally[i].count, i == (unsigned)kind ? count : 0);
}

static const struct lint_finding *first(const struct lint *lint, enum lint_kind kind) {
    assert_true(lint->tally[kind].examples > 0);
    return &lint->tally[kind].example[0];
}

#define LINES(...)                                                                                           \
    (const struct builder_line[]){__VA_ARGS__},                                                              \
        sizeof((const struct builder_line[]){__VA_ARGS__}) / sizeof(struct builder_line)

static void test_clean(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_MALLOC, 110, 0x1040, 64},
                            {0, HT_RAW_FREE, 120, 0x1000, 0}, {0, HT_RAW_MALLOC, 130, 0x1000, 64},
                            {1, HT_RAW_REALLOC_BEGIN, 140, 0x1000, 128},
                            {1, HT_RAW_REALLOC_END, 150, 0x1080, 0}, {0, HT_RAW_MALLOC, 160, 0x1000, 64}));
    only(&lint, LINT_KINDS, 0);
    assert_int_equal(lint.calls, 6);
    assert_int_equal(lint.leaks.blocks, 3);
    assert_int_equal(lint.leaks.bytes, 64 + 64 + 128);
    assert_int_equal(lint.leaks.oldest[0].name, 0x1040);
    assert_int_equal(lint_defects(&lint), 0);
    lint_free(&lint);
}

static void test_double_free(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_FREE, 120, 0x1000, 0},
                            {0, HT_RAW_MALLOC, 125, 0x3000, 64}, {0, HT_RAW_FREE, 130, 0x1000, 0}));
    only(&lint, LINT_DOUBLE_FREE, 1);
    const struct lint_finding *finding = first(&lint, LINT_DOUBLE_FREE);
    assert_int_equal(finding->call.time_ns, 130);
    assert_int_equal(finding->call.address, 0x1000);
    assert_int_equal(finding->block.time_ns, 120);
    // The offset is that of the very record: three records lie before it in the first chunk.
    assert_true(finding->call.offset > HT_RAW_HEADER_BYTES + sizeof(struct ht_raw_chunk));
    assert_true(finding->call.offset < HT_RAW_HEADER_BYTES + sizeof(struct ht_raw_chunk) + 3 * 12);
    assert_int_equal(lint_defects(&lint), 1);
    lint_free(&lint);
}

static void test_realloc_of_what_is_gone(void **unused) {
    (void)unused;
    struct lint lint;
    // The block has moved; its old address is freed, and reallocated.
    lint_lines(&lint,
               LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_REALLOC_BEGIN, 110, 0x1000, 100},
                     {0, HT_RAW_REALLOC_END, 120, 0x2000, 0}, {0, HT_RAW_FREE, 130, 0x1000, 0},
                     {0, HT_RAW_REALLOC_BEGIN, 140, 0x1000, 50}, {0, HT_RAW_REALLOC_END, 150, 0x5000, 0}));
    only(&lint, LINT_DOUBLE_FREE, 2);
    assert_int_equal(lint.leaks.blocks, 2);
    lint_free(&lint);
}

static void test_free_inside(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_FREE, 120, 0x1038, 0},
                            {0, HT_RAW_FREE, 130, 0x1000, 0}));
    only(&lint, LINT_INSIDE_FREE, 1);
    assert_int_equal(first(&lint, LINT_INSIDE_FREE)->block_address, 0x1000);
    lint_free(&lint);
}

static void test_free_behind_the_end_is_foreign(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_FREE, 120, 0x1040, 0}));
    only(&lint, LINT_FOREIGN, 1);
    assert_int_equal(lint_defects(&lint), 0);
    lint_free(&lint);
}

static void test_overlap(void **unused) {
    (void)unused;
    struct lint lint;
    // Into the end of one, and over the start of another: one new block, two overlaps.
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_MALLOC, 110, 0x1080, 64},
                            {1, HT_RAW_MALLOC, 120, 0x1020, 100}));
    only(&lint, LINT_OVERLAP, 2);
    assert_int_equal(first(&lint, LINT_OVERLAP)->block_address, 0x1000);
    assert_int_equal(lint.tally[LINT_OVERLAP].example[1].block_address, 0x1080);
    assert_int_equal(first(&lint, LINT_OVERLAP)->call.thread, 1);
    lint_free(&lint);
}

static void test_touching_is_no_overlap(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_MALLOC, 110, 0x1040, 0},
                            {0, HT_RAW_MALLOC, 120, 0x1048, 8}));
    only(&lint, LINT_ZERO_SIZED, 1);
    lint_free(&lint);
}

static void test_unseen_free(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_MALLOC, 110, 0x1000, 32}));
    only(&lint, LINT_UNSEEN_FREE, 1);
    assert_int_equal(first(&lint, LINT_UNSEEN_FREE)->block.bytes, 64);
    assert_int_equal(lint.leaks.bytes, 32);
    lint_free(&lint);
}

static void test_unfinished_realloc_leaves_its_block(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint,
               LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_REALLOC_BEGIN, 110, 0x1000, 100}));
    only(&lint, LINT_KINDS, 0);
    assert_int_equal(lint.leaks.bytes, 64);
    lint_free(&lint);
}

static void test_a_query_is_no_realloc(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {0, HT_RAW_QUERY, 110, 0x1000, 0}));
    only(&lint, LINT_KINDS, 0);
    assert_int_equal(lint.calls, 2);
    lint_free(&lint);
}

// From where its thread's records end, not from the end of the log: another thread has the block then.
static void test_the_block_of_an_unfinished_realloc_goes_on(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint, LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {1, HT_RAW_MALLOC, 105, 0x2000, 8},
                            {1, HT_RAW_REALLOC_BEGIN, 110, 0x1000, 100}, {0, HT_RAW_FREE, 200, 0x1000, 0}));
    only(&lint, LINT_KINDS, 0);
    assert_int_equal(lint.leaks.bytes, 8);
    lint_free(&lint);
}

// A realloc of a third thread comes right behind it, is taken to have been overtaken by it, and ends the block once that is
// known to be there.
static void test_an_unfinished_realloc_that_overtakes_another(void **unused) {
    (void)unused;
    struct lint lint;
    lint_lines(&lint,
               LINES({0, HT_RAW_MALLOC, 100, 0x1000, 64}, {2, HT_RAW_MALLOC, 101, 0x3000, 8},
                     {1, HT_RAW_MALLOC, 105, 0x2000, 8}, {1, HT_RAW_REALLOC_BEGIN, 110, 0x1000, 100},
                     {2, HT_RAW_REALLOC_BEGIN, 120, 0x1000, 200}, {2, HT_RAW_REALLOC_END, 130, 0x4000, 0},
                     {1, HT_RAW_MALLOC, 5000, 0x2100, 8}, {0, HT_RAW_QUERY, 6000, 0x1000, 0}));
    only(&lint, LINT_FOREIGN, 1);
    assert_int_equal(lint.leaks.bytes, 8 + 8 + 8 + 200);
    lint_free(&lint);
}

// Random additions and removals against a plain array.
static void test_live_ranges(void **unused) {
    (void)unused;
    enum { ADDRESSES = 512, STEPS = 200000 };
    static bool live[ADDRESSES];
    struct live_ranges ranges = {0};
    uint64_t seed = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned address = (unsigned)(unit_random(&seed) % ADDRESSES);
        struct lint_block block = {.bytes = address};
        if (live[address]) live_ranges_remove(&ranges, address);
        else assert_true(live_ranges_add(&ranges, address, &block));
        live[address] = !live[address];
        unsigned asked = (unsigned)(unit_random(&seed) % ADDRESSES);
        int below = (int)asked, above = (int)asked + 1;
        while (below >= 0 && !live[below]) below--;
        while (above < ADDRESSES && !live[above]) above++;
        const struct live_range *range = live_ranges_below(&ranges, asked);
        assert_int_equal(range ? (int)range->address : -1, below);
        if (range) assert_int_equal(range->block.bytes, below);
        range = live_ranges_above(&ranges, asked);
        assert_int_equal(range ? (int)range->address : ADDRESSES, above);
    }
    assert_true(ranges.room < 2 * ADDRESSES + 1024);
    live_ranges_free(&ranges);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_double_free),
        cmocka_unit_test(test_realloc_of_what_is_gone),
        cmocka_unit_test(test_free_inside),
        cmocka_unit_test(test_free_behind_the_end_is_foreign),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_touching_is_no_overlap),
        cmocka_unit_test(test_unseen_free),
        cmocka_unit_test(test_unfinished_realloc_leaves_its_block),
        cmocka_unit_test(test_a_query_is_no_realloc),
        cmocka_unit_test(test_the_block_of_an_unfinished_realloc_goes_on),
        cmocka_unit_test(test_an_unfinished_realloc_that_overtakes_another),
        cmocka_unit_test(test_live_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
