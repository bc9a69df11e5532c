// SPDX-License-Identifier: Apache-2.0
// Gathered call sites as bytes, for the next follower or a child: what comes back, and what is refused.
#include "unit_support.h"

#include <string.h>

#include "site_collector.h"

enum { MODULES = 3, STACKS = 40, USED = 25 };

static void take(struct site_collector *collector, unsigned kind, const uint64_t *word, unsigned words) {
    const struct ht_raw_record record = {
        .words = (const uint8_t *)word, .long_kind = (uint8_t)kind, .long_words = (uint8_t)words};
    assert_true(site_collector_take(collector, &record));
}

// Modules 1 and 3, stacks of all lengths, some of which the trace has numbers for, in another order.
static void fill(struct site_collector *collector) {
    uint64_t word[1 + HT_SITE_FRAMES_MAX];
    for (uint64_t number = 1; number <= MODULES; number += 2) {
        const uint64_t module[3] = {number, 4 | UINT64_C(3) << 32, 0x6261};
        take(collector, HT_LONG_MODULE, module, 3);
    }
    for (uint64_t number = 1; number <= STACKS; number++) {
        unsigned frames = (unsigned)(number * number % (HT_SITE_FRAMES_MAX + 1));
        word[0] = number * 7 | (number % 3) << 32;
        for (unsigned i = 0; i < frames; i++)
            word[1 + i] = (uint64_t)(1 + i % MODULES) << 48 | (number << 8 | i);
        take(collector, HT_LONG_SITE, word, 1 + frames);
    }
    for (uint32_t i = 0; i < USED; i++) site_collector_number(collector, (i * 11 % STACKS + 1) * 7);
    site_collector_number(collector, 999);  // of a stack that no record has told
}

static void assert_same_tables(const struct site_collector *left, const struct site_collector *right) {
    struct ht_site_table a, b;
    assert_true(site_collector_table(left, &a) && site_collector_table(right, &b));
    assert_string_equal(a.modules_json, b.modules_json);
    assert_int_equal(a.sites_count, USED + 1);
    assert_true(a.locations_count == b.locations_count && a.callers_count == b.callers_count &&
                a.sites_count == b.sites_count);
    assert_memory_equal(a.locations, b.locations, a.locations_count * sizeof *a.locations);
    assert_memory_equal(a.callers, b.callers, a.callers_count * sizeof *a.callers);
    assert_memory_equal(a.sites, b.sites, a.sites_count * sizeof *a.sites);
    ht_site_table_free(&a);
    ht_site_table_free(&b);
}

static void test_what_comes_back(void **unused) {
    (void)unused;
    struct site_collector made = {0}, back = {0};
    struct site_store store, again;
    fill(&made);
    assert_true(site_store_make(&store, &made));
    assert_true(site_store_restore(store.bytes, store.count, &back));
    assert_same_tables(&made, &back);
    assert_true(site_store_make(&again, &back));
    assert_int_equal(store.count, again.count);
    assert_memory_equal(store.bytes, again.bytes, store.count);
    site_store_free(&store);
    site_store_free(&again);
    site_collector_free(&made);
    site_collector_free(&back);
}

// The same stack told whole, and by frames of another one: at its begin, in the middle, at its end.
static void test_frames_of_another_site(void **unused) {
    (void)unused;
    static const uint64_t base[] = {5, 101, 102, 103, 104, 105};
    static const struct {
        struct ht_site_like like;
        unsigned own;
        uint64_t expected[8];
        unsigned frames;
    } wanted[] = {
        {{5, 0, 1, 4, 0}, 0, {102, 103, 104, 105}, 4},
        {{5, 2, 3, 2, 0}, 2, {901, 902, 104, 105}, 4},
        {{5, 1, 0, 3, 0}, 3, {901, 101, 102, 103, 902, 903}, 6},
        {{5, 0, 4, 1, 0}, 2, {105, 901, 902}, 3},
        {{5, 1, 5, 0, 0}, 1, {901}, 1},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct site_collector made = {0};
        uint64_t word[5] = {6 | UINT64_C(1) << 32, 0, 901, 902, 903};
        memcpy(&word[1], &wanted[i].like, sizeof wanted[i].like);
        take(&made, HT_LONG_SITE, base, 6);
        take(&made, HT_LONG_SITE_LIKE, word, 2 + wanted[i].own);
        assert_int_equal(made.stacks[6].frames, wanted[i].frames);
        assert_int_equal(made.stacks[6].flags, 1);
        assert_memory_equal(made.stacks[6].location, wanted[i].expected,
                            wanted[i].frames * sizeof *wanted[i].expected);
        site_collector_free(&made);
    }
}

static void test_refused_frames_of_another_site(void **unused) {
    (void)unused;
    static const uint64_t base[] = {5, 101, 102, 103};
    static const struct ht_site_like wrong[] = {
        {4, 0, 0, 1, 0},  // nothing is known of it
        {6, 0, 0, 1, 0},  // itself
        {5, 2, 0, 1, 0},  // behind its own frames
        {5, 0, 1, 3, 0},  // beyond the base's last
        {5, 0, 0, 1, 1},
    };
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        struct site_collector made = {0};
        uint64_t word[3] = {6, 0, 901};
        unsigned words = i < sizeof wrong / sizeof *wrong ? 3 : 1;
        memcpy(&word[1], &wrong[i % (sizeof wrong / sizeof *wrong)], sizeof *wrong);
        const struct ht_raw_record record = {
            .words = (const uint8_t *)word, .long_kind = HT_LONG_SITE_LIKE, .long_words = (uint8_t)words};
        take(&made, HT_LONG_SITE, base, 4);
        assert_false(site_collector_take(&made, &record));
        site_collector_free(&made);
    }
}

static void test_nothing(void **unused) {
    (void)unused;
    struct site_collector none = {0};
    struct site_store store;
    assert_true(site_store_make(&store, &none));
    assert_int_equal(store.count, 0);
    assert_true(site_store_restore(store.bytes, store.count, &none));
    site_store_free(&store);
}

// Whatever became of the bytes, they are refused, or are call sites.
static void test_damaged_bytes(void **unused) {
    (void)unused;
    struct site_collector made = {0};
    struct site_store store;
    uint64_t random = 1;
    unsigned refused = 0, tried = 0;
    fill(&made);
    assert_true(site_store_make(&store, &made));
    for (size_t i = 0; i < store.count; i += unit_stride(7)) {
        struct site_collector cut = {0}, changed = {0};
        struct ht_site_table table;
        // Between two entries it ends well.
        site_store_restore(store.bytes, i, &cut);
        uint8_t before = store.bytes[i];
        store.bytes[i] ^= (uint8_t)(1 + unit_random(&random) % 255);
        tried++;
        refused += !site_store_restore(store.bytes, store.count, &changed);
        if (site_collector_table(&changed, &table)) ht_site_table_free(&table);
        store.bytes[i] = before;
        site_collector_free(&cut);
        site_collector_free(&changed);
    }
    assert_true(refused > tried / 200);
    site_store_free(&store);
    site_collector_free(&made);
}

static void test_refused_bytes(void **unused) {
    (void)unused;
    static const struct {
        uint64_t words[4];
        size_t bytes;
    } wrong[] = {
        {{HT_LONG_SITE | 1 << 8, 1}, 15},                 // half a word
        {{HT_LONG_SITE | 2 << 8, 1}, 16},                 // a word less than it says
        {{HT_LONG_SITE | UINT64_C(1) << 60, 1}, 16},      // far more
        {{HT_LONG_SITE | 1 << 8, 0}, 16},                 // number 0
        {{HT_LONG_SITE | 1 << 8, HT_SITES_MAX + 1}, 16},  // beyond the last
        {{3 | 1 << 8, 1}, 16},                            // a record of another kind
        {{1 << 8, 1 | UINT64_C(1) << 32}, 16},            // one number twice
        {{2 << 8, 1, 2}, 24},                             // a gap among the numbers
        {{1 << 8, (uint64_t)(HT_SITES_MAX + 1)}, 16},     // a number beyond the last
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct site_collector collector = {0};
        assert_false(site_store_restore((const uint8_t *)wrong[i].words, wrong[i].bytes, &collector));
        site_collector_free(&collector);
    }
}

// A child needs the stacks of the blocks that it inherits.
static void test_some_of_it(void **unused) {
    (void)unused;
    struct site_collector made = {0}, some = {0};
    static const uint32_t wanted[] = {0, 14, 999, 14, 7};
    fill(&made);
    assert_true(site_collector_copy_some(&some, &made, wanted, sizeof wanted / sizeof *wanted));
    assert_int_equal(some.modules_count, made.modules_count);
    size_t stacks = 0;
    for (size_t i = 0; i < some.stacks_room; i++) stacks += some.stacks[i].location != NULL;
    assert_int_equal(stacks, 2);
    assert_int_equal(some.stacks[14].frames, made.stacks[14].frames);
    assert_memory_equal(some.stacks[14].location, made.stacks[14].location,
                        some.stacks[14].frames * sizeof(uint64_t));
    site_collector_free(&made);
    site_collector_free(&some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_comes_back),
        cmocka_unit_test(test_frames_of_another_site),
        cmocka_unit_test(test_refused_frames_of_another_site),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_refused_bytes),
        cmocka_unit_test(test_some_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
