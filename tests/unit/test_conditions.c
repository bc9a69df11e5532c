// SPDX-License-Identifier: Apache-2.0
// Conditions of --fail-if as they are typed.
#include "unit_support.h"

#include "replay_values.h"

static void conditions_are_read(void **state) {
    (void)state;
    struct ht_conditions conditions = {0};
    assert_null(ht_fail_if_add(&conditions, "time>1.05"));
    assert_null(ht_fail_if_add(&conditions, " rss_peak <= 0.5 "));
    assert_int_equal(conditions.count, 2);
    assert_true(conditions.list[0].above && !conditions.list[0].inclusive &&
                conditions.list[0].limit == 1.05);
    assert_true(!conditions.list[1].above && conditions.list[1].inclusive && conditions.list[1].figure == 1);
    static const char *const bad[] = {"",         "time",    "time>",  "time>x",   "time>1.05x", "time=1",
                                      "tim>1",    "timer>1", ">1",     "time>0",   "time>-1",    "time>nan",
                                      "time>inf", "time>>1", "1>time", "time>0x2", "time>0x1p1", "time>\t2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(ht_fail_if_add(&conditions, bad[i]));
    assert_int_equal(conditions.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(conditions_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
