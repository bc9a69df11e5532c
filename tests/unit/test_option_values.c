// SPDX-License-Identifier: Apache-2.0
// Values of options as they are typed: sizes and times, by the examples that the Python verbs are held to as well, and the
// conditions of --fail-if.
#include "unit_support.h"

#include <inttypes.h>
#include <string.h>

#include "option_values.h"
#include "replay_values.h"

static void test_examples(void **state) {
    (void)state;
    FILE *file = fopen(GOLDEN_OPTION_VALUES, "r");
    char line[256], kind[8];
    unsigned examples = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (*line == '#') continue;
        char *text = strchr(line, '['), *end = strchr(line, ']');
        assert_non_null(text);
        assert_non_null(end);
        *end = 0;
        assert_int_equal(sscanf(line, "%7s", kind), 1);
        uint64_t wanted = 0, got = 12345;
        bool sound = sscanf(end + 1, " %" SCNu64, &wanted) == 1;
        bool taken =
            strcmp(kind, "size") ? ht_parse_duration(text + 1, &got) : ht_parse_bytes(text + 1, 1, &got);
        if (taken != sound || (sound && got != wanted)) fail_msg("%s '%s': %" PRIu64, kind, text + 1, got);
        if (!taken) assert_int_equal(got, 12345);  // left alone
        examples++;
    }
    fclose(file);
    assert_true(examples > 60);
}

static void test_plain_numbers_count_what_the_option_says(void **state) {
    (void)state;
    uint64_t value;
    assert_true(ht_parse_bytes("3", 1 << 20, &value) && value == 3 << 20);
    assert_true(ht_parse_bytes("1.5", 1 << 20, &value) && value == 3 << 19);
    assert_true(ht_parse_bytes("3K", 1 << 20, &value) && value == 3 << 10);
    assert_false(ht_parse_bytes("8796093022208", 1 << 20, &value));
}

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_plain_numbers_count_what_the_option_says),
                                       cmocka_unit_test(conditions_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
