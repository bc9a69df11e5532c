// SPDX-License-Identifier: Apache-2.0
// Whatever a child writes into the memory that it shares with the launcher: the launcher's copy is safe to use
// afterwards, and what cannot be right is told.
#include "unit_support.h"

#include <string.h>

#include "child_answer.h"
#include "form_builder.h"

enum { SAMPLES = 20, TRIES = 20000 };

static struct ht_form form = {.samples = SAMPLES};
static const struct ht_built_form built = {.fd = -1, .form = &form};
static const struct ht_job job = {.pass = HT_PASS_MEMORY, .repeats = 1};
static uint64_t rss_bytes[SAMPLES], high_bytes[SAMPLES];
static char problem[300];

static bool check(struct ht_exchange *answer) {
    problem[0] = 0;
    return ht_child_answer_check(answer, &job, &built, rss_bytes, high_bytes, problem, sizeof problem);
}

static void begin(struct ht_exchange *answer) {
    memset(answer, 0, sizeof *answer);
    memcpy(&answer->job, &job, sizeof job);
    answer->outcome.state = HT_OUTCOME_DONE;
    answer->figures.repeats = 1;
    memset(rss_bytes, 0, sizeof rss_bytes);
    memset(high_bytes, 0, sizeof high_bytes);
}

static void assert_ends(const char *text, size_t room) {
    assert_non_null(memchr(text, 0, room));
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        assert_true(*at >= 0x20 && *at != 0x7f);
}

static void assert_safe(const struct ht_exchange *answer) {
    const struct ht_child_figures *figures = &answer->figures;
    assert_memory_equal(&answer->job, &job, sizeof job);
    assert_in_range(answer->outcome.state, HT_OUTCOME_NONE, HT_OUTCOME_DONE);
    assert_ends(answer->outcome.message, sizeof answer->outcome.message);
    assert_ends(answer->outcome.path, sizeof answer->outcome.path);
    assert_ends(answer->outcome.first_failure, sizeof answer->outcome.first_failure);
    assert_ends(figures->purge_call, sizeof figures->purge_call);
    assert_true(figures->residencies <= HT_RESIDENCIES_MAX && figures->reports <= HT_REPORTS_MAX);
    assert_true(figures->report_values <= HT_REPORT_VALUES_MAX);
    for (uint32_t i = 0; i < figures->residencies; i++) assert_true(figures->residency[i].sample < SAMPLES);
    for (uint32_t i = 0; i < figures->reports; i++) assert_true(figures->report[i].sample < SAMPLES);
    for (int i = 0; i < HT_KNOBS_MAX; i++) assert_ends(figures->knobs[i].value, HT_KNOB_BYTES);
}

// From a few bytes here and there to all of it, most often 0xff or noise.
static void damage(struct ht_exchange *answer, uint64_t *random) {
    for (uint64_t pieces = 1 + unit_random(random) % 4; pieces-- > 0;) {
        size_t at = unit_random(random) % sizeof *answer, bytes = 1 + unit_random(random) % 4096;
        if (unit_random(random) % 20 == 0) at = 0, bytes = sizeof *answer;
        if (bytes > sizeof *answer - at) bytes = sizeof *answer - at;
        bool noise = unit_random(random) % 2;
        for (size_t i = 0; i < bytes; i++) ((char *)answer)[at + i] = noise ? (char)unit_random(random) : -1;
    }
}

static void what_is_damaged_is_safe_or_refused(void **state) {
    static struct ht_exchange answer;
    uint64_t random = 5, refused = 0;
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        begin(&answer);
        damage(&answer, &random);
        bool good = check(&answer);
        assert_int_equal(good, problem[0] == 0);
        assert_safe(&answer);
        refused += !good;
    }
    assert_in_range(refused, TRIES / 20, TRIES - 1);
}

static void what_cannot_be_is_named(void **state) {
    static struct ht_exchange answer;
    (void)state;
    begin(&answer);
    assert_true(check(&answer));
    struct {
        uint64_t *figure;
        uint64_t value;
        const char *help;
    } cases[] = {{&answer.outcome.cpu_ns, UINT64_MAX, "a time"},
                 {&answer.outcome.rss_end_bytes, UINT64_MAX, "RSS"},
                 {&answer.figures.rss_after_free_bytes, 1ull << 60, "RSS"},
                 {&answer.figures.residency_end.swap_bytes, 1ull << 60, "a residency"},
                 {&answer.job.end_ns, 1, "the request"},
                 {&high_bytes[0], 1ull << 60, "RSS"},
                 {&rss_bytes[SAMPLES - 1], 1ull << 60, "RSS"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(&answer);
        *cases[i].figure = cases[i].value;
        assert_false(check(&answer));
        assert_non_null(strstr(problem, cases[i].help));
    }
    begin(&answer);
    answer.figures.rss_after_purge_bytes = HT_FIGURE_UNKNOWN;
    assert_true(check(&answer));
}

static void accounts_add_up(void **state) {
    static struct ht_exchange answer;
    const struct ht_job of_snapshots = {.pass = HT_PASS_SNAPSHOT, .repeats = 1, .stretches = 2};
    struct ht_stretch_accounts *last = &answer.figures.stretch[1];
    const struct ht_stretch_accounts sound = {.rss_bytes = 100, .live_bytes = 60, .holes_bytes = 40};
    uint64_t *const figures[] = {&last->rss_bytes, &last->live_bytes, &last->tables_bytes,
                                 &last->not_resident_bytes};
    (void)state;
    for (size_t i = 0; i <= sizeof figures / sizeof *figures; i++) {
        begin(&answer);
        memcpy(&answer.job, &of_snapshots, sizeof of_snapshots);
        *last = sound;
        if (i > 0) *figures[i - 1] = UINT64_MAX;
        bool good = ht_child_answer_check(&answer, &of_snapshots, &built, rss_bytes, high_bytes, problem,
                                          sizeof problem);
        assert_int_equal(good, i == 0);
        if (i > 0) assert_non_null(strstr(problem, "the accounts of a stretch"));
    }
}

static void text_stays_text(void **state) {
    static struct ht_exchange answer;
    (void)state;
    begin(&answer);
    strcpy(answer.outcome.message, "caf\xc3\xa9 \x1b[31m\xff\xc2\x9b \xe2\x82\xac\xe2\x82");
    memset(answer.outcome.version, 'v', sizeof answer.outcome.version);
    assert_true(check(&answer));
    assert_string_equal(answer.outcome.message, "caf\xc3\xa9 ?[31m??? \xe2\x82\xac??");
    assert_int_equal(strlen(answer.outcome.version), sizeof answer.outcome.version - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_damaged_is_safe_or_refused),
                                       cmocka_unit_test(what_cannot_be_is_named),
                                       cmocka_unit_test(accounts_add_up), cmocka_unit_test(text_stays_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
