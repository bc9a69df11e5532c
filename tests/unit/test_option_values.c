// SPDX-License-Identifier: Apache-2.0
// Sizes and times in options, by the examples that the Python verbs are held to as well.
#include "unit_support.h"

#include <inttypes.h>
#include <string.h>

#include "option_values.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_plain_numbers_count_what_the_option_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
