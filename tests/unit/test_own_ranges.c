// SPDX-License-Identifier: Apache-2.0
// The ranges that a program mapped for itself: with what the kernel is about to take away.
#include "unit_support.h"

#include "own_ranges.h"
#include "real.h"
#include "settings.h"
#include "state.h"

enum { PAGE = 4096, BASE = 0x100000 };

// What own_ranges.c asks of the rest of the shim.
struct settings settings = {.page_bytes = PAGE};
struct real_functions real;
bool recorder_may_call(void) { return true; }
void recorder_has_called(void) {}

static struct own_ranges copy;
static struct own_moves moves;
static int one, other;  // threads

static void map(unsigned page, unsigned pages) { own_map(BASE + page * PAGE, pages * PAGE); }

// Those of the copy are the ones given, as first page and pages, up to an end that is 0.
static void expect_ranges(const unsigned *expected) {
    assert_true(own_copy(&copy, &moves));
    for (size_t i = 0; i < copy.mapped.count; i++, expected += 2) {
        assert_int_equal((copy.mapped.range[i].start - BASE) / PAGE, expected[0]);
        assert_int_equal((copy.mapped.range[i].end - copy.mapped.range[i].start) / PAGE, expected[1]);
    }
    assert_int_equal(expected[1], 0);
}
#define EXPECT(...) expect_ranges((const unsigned[]){__VA_ARGS__ __VA_OPT__(, ) 0, 0})

static int begin(void **state) {
    (void)state;
    own_ranges_after_fork();
    own_unmap(0, BASE + 1000 * PAGE);
    return 0;
}

static void neighbours_grow_together(void **state) {
    (void)state;
    map(0, 2);
    map(4, 1);
    map(2, 1);
    EXPECT(0, 3, 4, 1);
    own_unmap(BASE + PAGE, PAGE);
    EXPECT(0, 1, 2, 1, 4, 1);
    assert_true(own_has(BASE) && !own_has(BASE + PAGE));
}

// Who the allocator is shows later than its first mapping.
static void what_an_allocator_maps_early_is_its_own(void **state) {
    (void)state;
    static char allocator[8], program[8];
    own_map_early(BASE, 4 * PAGE, program);
    own_map_early(BASE + 4 * PAGE, 4 * PAGE, allocator + 1);
    EXPECT(0, 8);
    real.object_start = (uintptr_t)allocator;
    real.object_end = real.object_start + sizeof allocator;
    own_end_early();
    EXPECT(0, 4);
    for (unsigned i = 0; i < 2 * OWN_EARLY_MAX; i++) own_map_early(BASE + 10 * PAGE, PAGE, program);
    own_end_early();
    EXPECT(0, 4, 10, 1);
}

static void what_is_being_unmapped_is_counted(void **state) {
    (void)state;
    map(0, 4);
    map(6, 2);
    own_unmap_begins(BASE + 2 * PAGE, 5 * PAGE, &one);
    EXPECT(0, 4, 6, 2);
    assert_true(!own_has(BASE + 2 * PAGE) && own_has(BASE + 7 * PAGE));
    own_unmap_ends(&other, false);
    EXPECT(0, 4, 6, 2);
    own_unmap_ends(&one, false);
    EXPECT(0, 2, 7, 1);
}

static void another_thread_gets_the_addresses_at_once(void **state) {
    (void)state;
    map(0, 4);
    own_unmap_begins(BASE, 4 * PAGE, &one);
    map(2, 4);
    EXPECT(0, 6);
    own_unmap_begins(BASE + 5 * PAGE, PAGE, &other);
    own_unmap_ends(&one, false);
    EXPECT(2, 4);
    own_unmap_ends(&other, false);
    EXPECT(2, 3);
}

static void a_child_has_no_thread_that_unmaps(void **state) {
    (void)state;
    map(0, 4);
    own_unmap_begins(BASE, 2 * PAGE, &one);
    own_ranges_after_fork();
    EXPECT(2, 2);
}

// More threads than there is room for: theirs is forgotten early.
static void many_threads_unmap(void **state) {
    (void)state;
    char thread[100];
    for (unsigned i = 0; i < 100; i++) map(2 * i, 1);
    for (unsigned i = 0; i < 100; i++) own_unmap_begins(BASE + 2 * i * PAGE, PAGE, &thread[i]);
    assert_true(own_copy(&copy, &moves));
    assert_in_range(copy.mapped.count, 1, 100);
    assert_true(moves.unknown);
    for (unsigned i = 0; i < 100; i++) own_unmap_ends(&thread[i], false);
    assert_true(own_copy(&copy, &moves));
    assert_int_equal(copy.mapped.count, 0);
    assert_false(moves.unknown);
}

// Such a call is refused by the kernel: what was known before is known again, and nothing more.
static void what_the_kernel_refuses_stays_as_it_was(void **state) {
    (void)state;
    const size_t bytes[] = {PAGE, SIZE_MAX, SIZE_MAX - BASE, (size_t)1 << 46};
    map(0, 4);
    map(6, 2);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        assert_true(own_unmap_begins(BASE + PAGE, bytes[i], &one));
        assert_false(own_has(BASE + PAGE));
        own_unmap_ends(&one, true);
        EXPECT(0, 4, 6, 2);
    }
    assert_false(own_unmap_begins(BASE + 4 * PAGE, PAGE, &one));
    own_unmap_begins(BASE, 4 * PAGE, &one);
    own_unmap_ends_alone();
    EXPECT(6, 2);
}

static void a_copy_tells_what_moves(void **state) {
    (void)state;
    enum { MUCH = OWN_MOVED_BYTES_MIN / PAGE };
    map(0, 2 * MUCH);
    EXPECT(0, 2 * MUCH);
    own_unmap_begins(BASE, PAGE, &one);
    own_unmap_ends(&one, false);
    assert_false(own_has_moved(&moves));  // too little to matter
    own_unmap_begins(BASE + MUCH * PAGE, MUCH * PAGE, &one);
    assert_true(own_has_moved(&moves));
    EXPECT(1, 2 * MUCH - 1);
    assert_int_equal(moves.leaving_count, 1);
    assert_int_equal(moves.leaving[0].end - moves.leaving[0].start, MUCH * PAGE);
    own_unmap_ends(&one, false);
    assert_true(own_has_moved(&moves));
    EXPECT(1, MUCH - 1);
    assert_true(moves.leaving_count == 0 && !own_has_moved(&moves) && !moves.unknown);
}

static void what_is_being_filled_is_unknown(void **state) {
    (void)state;
    own_fill_begins(PAGE, &other);
    EXPECT();
    assert_false(moves.unknown);
    own_fill_begins(OWN_MOVED_BYTES_MIN, &one);
    assert_true(own_has_moved(&moves));
    EXPECT();
    assert_true(moves.unknown);
    own_thread_ends(&one);  // cancelled
    EXPECT();
    assert_false(moves.unknown);
    own_fill_ends(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(neighbours_grow_together, begin),
        cmocka_unit_test_setup(what_an_allocator_maps_early_is_its_own, begin),
        cmocka_unit_test_setup(what_is_being_unmapped_is_counted, begin),
        cmocka_unit_test_setup(another_thread_gets_the_addresses_at_once, begin),
        cmocka_unit_test_setup(a_child_has_no_thread_that_unmaps, begin),
        cmocka_unit_test_setup(many_threads_unmap, begin),
        cmocka_unit_test_setup(what_the_kernel_refuses_stays_as_it_was, begin),
        cmocka_unit_test_setup(a_copy_tells_what_moves, begin),
        cmocka_unit_test_setup(what_is_being_filled_is_unknown, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
