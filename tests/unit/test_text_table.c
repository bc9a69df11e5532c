// SPDX-License-Identifier: Apache-2.0
// Tables for people: aligned, and folded where the terminal ends.
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>

#include "text_table.h"

static const char *printed(const char *columns) {
    static struct ht_text_table table;
    static char text[1024];
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text, "w");
    table = (struct ht_text_table){.alignments = "lrl"};
    ht_table_add(&table, (const char *[]){"name", "time", "verdict"});
    ht_table_add(&table, (const char *[]){"glibc", "1.2 s", ""});
    ht_table_add(&table, (const char *[]){"a", "17 s", "unresolved (one round is not enough)"});
    if (columns) setenv("COLUMNS", columns, 1);
    else unsetenv("COLUMNS");
    ht_table_print(out, &table);
    fclose(out);
    return text;
}

static const char whole[] = "name    time  verdict\n"
                            "glibc  1.2 s\n"
                            "a       17 s  unresolved (one round is not enough)\n";

static void a_file_is_never_folded(void **state) {
    (void)state;
    assert_string_equal(printed(NULL), whole);
    assert_string_equal(printed("0"), whole);
}

static void a_terminal_is_as_wide_as_it_is(void **state) {
    (void)state;
    assert_string_equal(printed("50"), whole);
    assert_string_equal(printed("34"), "name    time  verdict\n"
                                       "glibc  1.2 s\n"
                                       "a       17 s  unresolved (one\n"
                                       "              round is not enough)\n");
    assert_string_equal(printed("20"), whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_is_never_folded),
                                       cmocka_unit_test(a_terminal_is_as_wide_as_it_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
