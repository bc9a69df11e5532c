// SPDX-License-Identifier: Apache-2.0
// What stands in base/: option values, texts for people, the map of addresses, files that signals remove.
#include "unit_support.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "map64.h"
#include "option_values.h"
#include "output_file.h"
#include "print.h"
#include "replay_values.h"
#include "talk.h"
#include "text_table.h"

// ---- option values ----

// Values of options as they are typed: sizes and times, by the examples that the Python verbs are held to as well, and the
// conditions of --fail-if.

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

// ---- print ----

// Lines and tables for people: what is printed in letters, that a line is one write, and that tables are folded where the
// terminal ends.

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

// ---- the address map against a plain array ----

enum { KEYS = 5000, STEPS = 400000 };

static void follows_a_plain_array(void **state) {
    (void)state;
    uint64_t seed = 3, *value = calloc(KEYS, sizeof *value), *key = calloc(KEYS, sizeof *key);
    struct map64 map;
    assert_true(map64_init(&map));
    // Addresses as an allocator gives them: near each other, 16 apart, some far away.
    for (unsigned i = 0; i < KEYS; i++)
        key[i] = i % 7 ? 0x55550000 + 16 * (uint64_t)i : unit_random(&seed) | 1;
    size_t count = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(unit_random(&seed) % KEYS);
        size_t at = map64_find(&map, key[i]);
        assert_int_equal(map64_has(&map, at), value[i] != 0);
        if (value[i]) assert_int_equal(map.entry[at].value, value[i]);
        if (value[i] && unit_random(&seed) % 2) {
            map64_remove_at(&map, at);
            value[i] = 0;
            count--;
        } else {
            count += value[i] == 0;
            value[i] = unit_random(&seed) | 1;
            assert_true(map64_put(&map, key[i], value[i]));
        }
        assert_int_equal(map.count, count);
    }
    map64_free(&map);
    free(value);
    free(key);
}

// Growing in place moves every entry; runs at the table's start and across its end are where one could get
// lost. A large table grows in other steps.
static void grows_to(unsigned many, uint64_t first_seed) {
    uint64_t seed = first_seed;
    struct map64 map;
    assert_true(map64_init(&map));
    for (unsigned i = 0; i < many; i++) assert_true(map64_put(&map, unit_random(&seed) | 1, i));
    seed = first_seed;
    for (unsigned i = 0; i < many; i++) {
        size_t at = map64_find(&map, unit_random(&seed) | 1);
        assert_true(map64_has(&map, at));
        assert_int_equal(map.entry[at].value, i);
    }
    for (size_t i = 0; i < map.room; i++)
        while (map64_has(&map, i) && map.entry[i].value % 4) map64_remove_at(&map, i);
    assert_int_equal(map.count, (many + 3) / 4);
    map64_free(&map);
}

static void growing_loses_nothing(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 300; round++) grows_to(14000, round);
    grows_to(1500000, 5);
}

// A key whose home is the table's first place, however large the table is.
static uint64_t key_at_the_start(uint64_t number) {
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) inverse *= 2 - UINT64_C(0x9e3779b97f4a7c15) * inverse;
    return inverse * number;
}

// Where a table cannot grow it is as it was before; a thousand entries that are all in each other's way are
// what growing needs most memory for.
static void stays_whole_without_memory(void **state) {
    (void)state;
    enum { MANY = 512 };
    struct map64 map;
    struct rlimit before, none;
    assert_true(map64_init(&map));
    for (uint64_t i = 1; i <= MANY; i++) assert_true(map64_put(&map, key_at_the_start(i), i));
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    for (unsigned grown = 0; grown < 2; grown++) {
        assert_int_equal(setrlimit(RLIMIT_AS, grown ? &before : &none), 0);
        bool put = map64_put(&map, key_at_the_start(MANY + 1), MANY + 1);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        assert_int_equal(put, grown);
        assert_int_equal(map.count, MANY + grown);
        for (uint64_t i = 1; i <= MANY + grown; i++) {
            size_t at = map64_find(&map, key_at_the_start(i));
            assert_true(map64_has(&map, at));
            assert_int_equal(map.entry[at].value, i);
        }
    }
    map64_free(&map);
}

// ---- holding signals back leaves the caller's mask as it was ----

static bool is_blocked(int number) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, number) == 1;
}

static void the_callers_mask_stays(void **state) {
    (void)state;
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGTERM);
    sigprocmask(SIG_SETMASK, &mine, NULL);
    remove_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGTERM) && !is_blocked(SIGINT));
    keep_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGTERM) && !is_blocked(SIGINT) && !is_blocked(SIGHUP));
}

static void held_signals_wait_until_they_are_let(void **state) {
    (void)state;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sigset_t before = hold_signals();
    remove_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGINT) && is_blocked(SIGTERM) && is_blocked(SIGHUP));
    let_signals(before);
    assert_false(is_blocked(SIGINT) || is_blocked(SIGTERM) || is_blocked(SIGHUP));
    keep_on_signal("/nonexistent/output");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_plain_numbers_count_what_the_option_says),
        cmocka_unit_test(conditions_are_read),
        cmocka_unit_test(figures_have_no_exponent),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(a_line_is_one_write),
        cmocka_unit_test(what_leads_astray_is_in_letters),
        cmocka_unit_test(the_c_locale_has_ascii),
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(a_file_is_never_folded),
        cmocka_unit_test(a_terminal_is_as_wide_as_it_is),
        cmocka_unit_test(stays_whole_without_memory),
        cmocka_unit_test(follows_a_plain_array),
        cmocka_unit_test(growing_loses_nothing),
        cmocka_unit_test(the_callers_mask_stays),
        cmocka_unit_test(held_signals_wait_until_they_are_let),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
