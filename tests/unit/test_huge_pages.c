// SPDX-License-Identifier: Apache-2.0
// Which mode of transparent huge pages can be had, on machines other than this one.
#include "unit_support.h"

#include <string.h>

#include "huge_pages.h"

// What --thp makes of what the system has: the mode in force, or NULL where it is refused.
static const char *choose(enum ht_thp asked, const char *system, int inherited, bool can_except,
                          enum ht_thp_disable disable) {
    static struct ht_huge_pages chosen;
    char problem[256] = "";
    if (!ht_huge_pages_choose(asked, system, inherited, can_except, &chosen, problem, sizeof problem)) {
        assert_non_null(strstr(problem, "--thp "));
        return NULL;
    }
    assert_string_equal(problem, "");
    assert_int_equal(chosen.disable, disable);
    return chosen.mode;
}

static void never_can_be_had_everywhere(void **state) {
    (void)state;
    assert_string_equal(choose(HT_THP_NEVER, "always", 0, false, HT_THP_DISABLE_ALL), "never");
    assert_string_equal(choose(HT_THP_NEVER, "madvise", 0, false, HT_THP_DISABLE_ALL), "never");
    assert_string_equal(choose(HT_THP_NEVER, "never", 0, false, HT_THP_DISABLE_NOT), "never");
    assert_string_equal(choose(HT_THP_NEVER, "always", 1, false, HT_THP_DISABLE_NOT), "never");
}

static void less_than_always_takes_a_new_kernel(void **state) {
    (void)state;
    assert_string_equal(choose(HT_THP_MADVISE, "always", 0, true, HT_THP_DISABLE_EXCEPT_ADVISED), "madvise");
    assert_null(choose(HT_THP_MADVISE, "always", 0, false, HT_THP_DISABLE_NOT));
    assert_string_equal(choose(HT_THP_MADVISE, "madvise", 0, false, HT_THP_DISABLE_NOT), "madvise");
    assert_string_equal(choose(HT_THP_MADVISE, "always", 3, false, HT_THP_DISABLE_NOT), "madvise");
}

static void more_than_there_is_is_refused(void **state) {
    (void)state;
    assert_null(choose(HT_THP_ALWAYS, "madvise", 0, true, HT_THP_DISABLE_NOT));
    assert_null(choose(HT_THP_MADVISE, "never", 0, true, HT_THP_DISABLE_NOT));
    assert_null(choose(HT_THP_ALWAYS, "", -1, false, HT_THP_DISABLE_NOT));
    assert_null(choose(HT_THP_MADVISE, "madvise", 1, true, HT_THP_DISABLE_NOT));
    assert_null(choose(HT_THP_ALWAYS, "always", 3, true, HT_THP_DISABLE_NOT));
    assert_string_equal(choose(HT_THP_ALWAYS, "always", 0, false, HT_THP_DISABLE_NOT), "always");
}

static void what_is_in_force_is_reported(void **state) {
    (void)state;
    assert_string_equal(choose(HT_THP_AS_IS, "always", 0, true, HT_THP_DISABLE_NOT), "always");
    assert_string_equal(choose(HT_THP_AS_IS, "always", 1, true, HT_THP_DISABLE_NOT), "never");
    assert_string_equal(choose(HT_THP_AS_IS, "always", 3, true, HT_THP_DISABLE_NOT), "madvise");
    assert_string_equal(choose(HT_THP_AS_IS, "madvise", 3, true, HT_THP_DISABLE_NOT), "madvise");
    assert_string_equal(choose(HT_THP_AS_IS, "", 0, true, HT_THP_DISABLE_NOT), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_can_be_had_everywhere),
        cmocka_unit_test(less_than_always_takes_a_new_kernel),
        cmocka_unit_test(more_than_there_is_is_refused),
        cmocka_unit_test(what_is_in_force_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
