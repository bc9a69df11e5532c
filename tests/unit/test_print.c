// SPDX-License-Identifier: Apache-2.0
// Lines and tables for people: what is printed in letters, that a line is one write, and that tables are folded where the
// terminal ends.
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "print.h"
#include "talk.h"
#include "text_table.h"

enum { ROOM = 8192 };

// What one call writes to a stream without a buffer, as standard error is. Each write is a packet.
static unsigned say(const char *text, char *written) {
    int ends[2];
    unsigned writes = 0;
    size_t used = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    FILE *out = fdopen(ends[0], "w");
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0);
    ht_print(out, "%s: %d\n", text, 7);
    fclose(out);
    ssize_t got;
    while ((got = read(ends[1], written + used, ROOM - 1 - used)) > 0) {
        used += (size_t)got;
        writes++;
    }
    written[used] = 0;
    close(ends[1]);
    return writes;
}

static void figures_have_no_exponent(void **state) {
    (void)state;
    char text[32];
    assert_string_equal(ht_figures(text, -32386, 3), "-32,400");
    assert_string_equal(ht_figures(text, 999.96, 4), "1,000");
    assert_string_equal(ht_figures(text, 12.345, 3), "12.3");
    assert_string_equal(ht_figures(text, 0, 3), "0");
    assert_string_equal(ht_figures(text, 584, 2), "580");
    assert_string_equal(ht_figures(text, -96, 1), "-100");
    assert_string_equal(ht_figures(text, 0.0012345, 2), "0.0012");
    assert_string_equal(ht_figures(text, 71999.6, 4), "72,000");
}

static void a_line_is_one_write(void **state) {
    (void)state;
    char written[ROOM];
    assert_int_equal(say("/tmp/a.raw: Übergröße", written), 1);
    assert_string_equal(written, "/tmp/a.raw: Übergröße: 7\n");
}

static void what_leads_astray_is_in_letters(void **state) {
    (void)state;
    char written[ROOM];
    say("a\x1b[2J\nb\xe2\x80\xae\xc2\x9b\xc3", written);
    assert_string_equal(written, "a\\x1b[2J\\x0ab\\u202e\\u009b\\xc3: 7\n");
    // The byte that stands for the format's newlines.
    say("a\xff", written);
    assert_string_equal(written, "a\\xff: 7\n");
}

static void the_c_locale_has_ascii(void **state) {
    (void)state;
    char written[ROOM];
    setenv("LC_ALL", "C", 1);
    say("é €\xf0\x9f\x98\x80\xff", written);
    unsetenv("LC_ALL");
    assert_string_equal(written, "\\xe9 \\u20ac\\U0001f600\\xff: 7\n");
}

static void long_lines_are_whole(void **state) {
    (void)state;
    char text[3001], written[ROOM];
    memset(text, 'x', 3000);
    text[3000] = 0;
    memcpy(text + 1022, "\xe2\x82\xac", 3);
    say(text, written);
    assert_int_equal(strlen(written), 3000 + strlen(": 7\n"));
    assert_memory_equal(written, text, 3000);
}

static void one_is_no_plural(void **state) {
    (void)state;
    static const struct {
        uint64_t number;
        const char *noun, *text;
    } cases[] = {{0, "call", "0 calls"},
                 {1, "call", "1 call"},
                 {6364276, "call", "6,364,276 calls"},
                 {1, "anomaly", "1 anomaly"},
                 {2, "anomaly", "2 anomalies"},
                 {2, "process", "2 processes"},
                 {2, "foreign free", "2 foreign frees"}};
    char text[HT_NUMBER_OF_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(ht_number_of(text, cases[i].number, cases[i].noun), cases[i].text);
}

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_have_no_exponent), cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(a_line_is_one_write),      cmocka_unit_test(what_leads_astray_is_in_letters),
        cmocka_unit_test(the_c_locale_has_ascii),   cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(a_file_is_never_folded),   cmocka_unit_test(a_terminal_is_as_wide_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
