// SPDX-License-Identifier: Apache-2.0
// Knobs as --alloc gives them: parsed, spelled as the allocator wants them, and held against what it tells.
#include <stdlib.h>
#include <string.h>

#include "knob_choice.h"
#include "unit_support.h"

static const struct ht_knob table[] = {
    {.name = "count", .range = {-1, 100}},
    {.name = "yes", .spelled = "yes_or_no"},
    {.name = "word", .words = "one|two|three"},
    {.name = "size", .range = {0, 100}, .ending = "K", .rounded = true},
    {.name = "new", .range = {0, 9}, .since = "2.1"},
    {.name = "grown",
     .range = {0, 9},
     .standard = "1",
     .changes = (const struct ht_knob_change[]){{"2.0", {0, 99}}, {"2.1", {0, 999}, "2"}, {0}}},
    {0}};
static const char *const booleans[] = {"false", "true"};
static const struct ht_allocator kind = {.name = "kind",
                                         .knobs = table,
                                         .knobs_variable = "KIND_CONF",
                                         .knobs_format = "%s:%s",
                                         .knobs_booleans = booleans,
                                         .knobs_separator = ',',
                                         .knobs_always = "strict:true",
                                         .passed = "raw_*",
                                         .variables = "KIND_CONF=*"};
static const struct ht_allocator prefixed = {
    .name = "prefixed", .knobs = table, .knobs_prefix = "KIND_", .variables = "KIND_*"};
enum { COUNT, YES, WORD, SIZE, NEW, GROWN };

static char problem[HT_KNOB_PROBLEM_BYTES];

static const struct ht_knob_variables *made(const struct ht_knob_choices *choices) {
    static struct ht_knob_variables variables;
    assert_true(ht_knob_variables_make(choices, false, &variables));
    return &variables;
}

static struct ht_knob_choices none(void) { return (struct ht_knob_choices){.kind = &kind}; }

static void refused(const char *text, const char *says) {
    struct ht_knob_choices choices = none();
    assert_false(ht_knob_choices_add(&choices, text, problem));
    assert_string_equal(problem, says);
}

static void wrong_specs(void **state) {
    (void)state;
    refused("nope=1", "kind has no knob nope; it has count, yes, word, size, new, grown");
    refused("count", "count: expected KNOB=VALUE");
    refused("count=", "count=: expected a whole number from -1 to 100");
    refused("count=-2", "count=-2: expected a whole number from -1 to 100");
    refused("count=101", "count=101: expected a whole number from -1 to 100");
    refused("count=1x", "count=1x: expected a whole number from -1 to 100");
    refused("count=99999999999999999999",
            "count=99999999999999999999: expected a whole number from -1 to 100");
    refused("yes=perhaps", "yes=perhaps: expected 0 or 1");
    refused("word=on", "word=on: expected one of one|two|three");
    refused("word=", "word=: expected one of one|two|three");
    struct ht_knob_choices choices = none();
    assert_true(ht_knob_choices_add(&choices, "count=1", problem));
    assert_false(ht_knob_choices_add(&choices, "count=1", problem));
    assert_string_equal(problem, "count is given twice");
}

static void spelled(void **state) {
    (void)state;
    struct ht_knob_choices choices = none();
    assert_true(ht_knob_choices_add(&choices, "count=-1", problem));
    assert_true(ht_knob_choices_add(&choices, "size=64", problem));
    assert_true(ht_knob_choices_add(&choices, "yes=off", problem));
    assert_true(ht_knob_choices_add(&choices, "word=three", problem));
    assert_int_equal(made(&choices)->count, 1);
    assert_string_equal(made(&choices)->list[0],
                        "KIND_CONF=strict:true,count:-1,size:64K,yes_or_no:false,word:three");
    choices = (struct ht_knob_choices){.kind = &prefixed};
    assert_true(ht_knob_choices_add(&choices, "size=64", problem));
    assert_true(ht_knob_choices_add(&choices, "KIND_YES=off", problem));
    assert_int_equal(made(&choices)->count, 2);
    assert_string_equal(made(&choices)->list[0], "KIND_SIZE=64K");
    assert_string_equal(made(&choices)->list[1], "KIND_YES=0");
}

static const struct ht_recorded_settings *recorded(const struct ht_allocator *of, const char *variable,
                                                   const char *value) {
    static struct ht_recorded_settings settings;
    settings = (struct ht_recorded_settings){.kind = of};
    ht_recorded_settings_add(&settings, variable, value, false);
    return &settings;
}

// Below what was asked for, without what it changes, and without what an allocator would print, refuse or not know.
static void recorded_settings(void **state) {
    (void)state;
    char text[HT_SETTINGS_TEXT_BYTES];
    static struct ht_knob_variables whole;
    struct ht_knob_choices choices = none();
    const struct ht_recorded_settings *settings = recorded(
        &kind, "KIND_CONF", "count:0x7,size:9K,stats:true,yes_or_no:true,raw_a:1|2,word:four,count:8");
    ht_settings_text(settings->list, settings->count, HT_SETTING_TAKEN, text);
    assert_string_equal(text, "count=8,size=9K,yes=true,raw_a=1|2");
    ht_settings_text(settings->list, settings->count, HT_SETTING_LEFT_OUT, text);
    assert_string_equal(text, "stats=true,word=four");
    ht_knob_choices_take(&choices, settings);
    assert_string_equal(made(&choices)->list[0], "KIND_CONF=count:8,size:9K,yes_or_no:true,raw_a:1|2");
    assert_true(ht_knob_choices_add(&choices, "size=1", problem));
    ht_knob_choices_take(&choices, settings);
    assert_string_equal(made(&choices)->list[0],
                        "KIND_CONF=count:8,yes_or_no:true,raw_a:1|2,strict:true,size:1K");
    assert_true(ht_knob_variables_make(&choices, true, &whole));
    assert_string_equal(
        whole.list[0], "KIND_CONF=count:8,stats:true,yes_or_no:true,raw_a:1|2,word:four,strict:true,size:1K");
    assert_int_equal(recorded(&kind, "OTHER_CONF", "count:7")->count, 0);
}

static void recorded_variables(void **state) {
    (void)state;
    struct ht_knob_choices choices = {.kind = &prefixed};
    struct ht_recorded_settings settings = *recorded(&prefixed, "KIND_SIZE", "1GiB");
    ht_recorded_settings_add(&settings, "KIND_COUNT", "0.5", false);
    ht_recorded_settings_add(&settings, "KIND_VERBOSE", "1", false);
    ht_recorded_settings_add(&settings, "KIND_NEW", "10", false);
    ht_knob_choices_take(&choices, &settings);
    assert_int_equal(made(&choices)->count, 2);
    assert_string_equal(made(&choices)->list[0], "KIND_SIZE=1GiB");
    assert_string_equal(made(&choices)->list[1], "KIND_COUNT=0.5");
    assert_true(ht_knob_choices_add(&choices, "count=2", problem));
    ht_knob_choices_take(&choices, &settings);
    assert_string_equal(made(&choices)->list[1], "KIND_COUNT=2");
}

static bool heeded(const char *asked, int knob, enum ht_knob_state told, const char *value) {
    struct ht_knob_choices choices = none();
    struct ht_knob_report reports[HT_KNOBS_MAX] = {0};
    assert_true(ht_knob_choices_add(&choices, asked, problem));
    problem[0] = 0;
    reports[knob].state = told;
    strcpy(reports[knob].value, value);
    return ht_knob_choices_heeded(&choices, "2.0.9", reports, problem);
}

static void read_back(void **state) {
    (void)state;
    assert_true(heeded("count=07", COUNT, HT_KNOB_REPORTED, "7"));
    assert_true(heeded("yes=on", YES, HT_KNOB_REPORTED, "1"));
    assert_true(heeded("count=7", COUNT, HT_KNOB_UNREPORTED, ""));
    assert_true(heeded("size=7", SIZE, HT_KNOB_REPORTED, "8"));
    assert_false(heeded("count=7", COUNT, HT_KNOB_REPORTED, "8"));
    assert_string_equal(problem, "count=7 was set, but 8 is in force");
    assert_false(heeded("word=one", WORD, HT_KNOB_REPORTED, "two"));
    assert_false(heeded("new=1", NEW, HT_KNOB_MISSING, ""));
    assert_string_equal(problem, "version 2.0.9 ignores the knob new; it has count, yes, word, size, grown");
    assert_false(heeded("new=1", NEW, HT_KNOB_UNREPORTED, ""));
    assert_true(heeded("new=1", NEW, HT_KNOB_REPORTED, "1"));
    assert_true(heeded("grown=99", GROWN, HT_KNOB_REPORTED, "99"));
    assert_false(heeded("grown=100", GROWN, HT_KNOB_REPORTED, "100"));
    assert_string_equal(problem, "grown=100: version 2.0.9 takes whole numbers from 0 to 99");
    assert_string_equal(ht_knob_standard_in(&table[GROWN], "2.0.9"), "1");
    assert_string_equal(ht_knob_standard_in(&table[GROWN], "2.1"), "2");
    assert_string_equal(ht_knob_standard_in(&table[GROWN], ""), "2");
}

// What the measured child and the messages have room for.
static void catalogue(void **state) {
    (void)state;
    for (size_t i = 0; ht_allocators[i]; i++) {
        const struct ht_knob *knobs = ht_allocators[i]->knobs;
        for (size_t k = 0; knobs && knobs[k].name; k++) {
            assert_true(k < HT_KNOBS_MAX);
            assert_true(ht_allocators[i]->knobs_prefix || ht_allocators[i]->knobs_variable);
            assert_true(knobs[k].help && knobs[k].standard);
            // A number has a default of digits, so that a forgotten range is seen here.
            const char *standard = knobs[k].standard;
            bool digit = !standard[1] && (*standard == '0' || *standard == '1');
            assert_true(knobs[k].words || digit || knobs[k].range.lowest < knobs[k].range.highest);
            assert_true(knobs[k].range.lowest <= knobs[k].range.highest);
            for (size_t m = 0; m < k; m++) assert_string_not_equal(knobs[m].name, knobs[k].name);
            if (!knobs[k].search.highest) continue;
            struct ht_knob_range range = ht_knob_range_in(&knobs[k], "");
            assert_true(knobs[k].search.lowest >= range.lowest);
            assert_true(knobs[k].search.highest <= range.highest);
        }
    }
}

static void packages_by_the_version_of_the_library(void **state) {
    (void)state;
    const struct ht_allocator *mimalloc = ht_allocator_named("mimalloc");
    assert_string_equal(ht_package_of(mimalloc, "/usr/lib/libmimalloc.so.2.0"), "libmimalloc2.0");
    assert_string_equal(ht_package_of(mimalloc, "/usr/lib/libmimalloc.so.3.0"), "libmimalloc3");
    assert_string_equal(ht_package_of(mimalloc, "/usr/lib/libmimalloc.so.9"), "libmimalloc-dev");
    assert_string_equal(ht_package_of(ht_allocator_named("scudo19"), "/usr/lib/scudo.so"),
                        "libclang-rt-19-dev");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_specs),
                                       cmocka_unit_test(spelled),
                                       cmocka_unit_test(recorded_settings),
                                       cmocka_unit_test(recorded_variables),
                                       cmocka_unit_test(read_back),
                                       cmocka_unit_test(catalogue),
                                       cmocka_unit_test(packages_by_the_version_of_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
