// SPDX-License-Identifier: Apache-2.0
// How far threads may run apart: further in an extension, but no further than threads live.
#include "unit_support.h"

#include "runner.h"

enum { MS = 1000000 };

static uint64_t window_ns(enum ht_pass pass, const struct ht_extended_part *extended, uint64_t asked_ns) {
    static struct ht_plan plan;
    static struct ht_built_form built;
    static struct ht_runner x;
    static struct ht_recorded_program program;
    plan.window_ns = asked_ns;
    x.plan = &plan;
    x.built = &built;
    program.extended = extended ? *extended : (struct ht_extended_part){0};
    x.program = &program;
    return ht_runner_job(&x, pass).window_ns;
}

static void recordings(void **state) {
    (void)state;
    const struct ht_extended_part none = {.thread_lives_ns = 3 * MS};
    assert_int_equal(window_ns(HT_PASS_MEMORY, NULL, 0), MS);
    assert_int_equal(window_ns(HT_PASS_MEMORY, &none, 0), MS);
    assert_int_equal(window_ns(HT_PASS_FLAT, &none, 0), 10 * MS);
}

static void extensions(void **state) {
    (void)state;
    struct ht_extended_part part = {.to_ns = UINT64_C(100000) * MS};
    assert_int_equal(window_ns(HT_PASS_MEMORY, &part, 0), 5 * MS);
    part.to_ns = UINT64_C(86400000) * MS;
    assert_int_equal(window_ns(HT_PASS_MEMORY, &part, 0), 100 * MS);
    part.thread_lives_ns = 8 * MS;
    assert_int_equal(window_ns(HT_PASS_MEMORY, &part, 0), 8 * MS);
    assert_int_equal(window_ns(HT_PASS_ACCOUNT, &part, 0), 8 * MS);
    assert_int_equal(window_ns(HT_PASS_FLAT, &part, 0), 10 * MS);
    part.thread_lives_ns = MS / 100;
    assert_int_equal(window_ns(HT_PASS_MEMORY, &part, 0), MS);
    assert_int_equal(window_ns(HT_PASS_MEMORY, &part, 77 * MS), 77 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recordings), cmocka_unit_test(extensions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
