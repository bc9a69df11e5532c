// SPDX-License-Identifier: Apache-2.0
// Every total that convert writes is of a kind, or known to stay in a trace that is continued.
#include "unit_support.h"

#include <string.h>

#include "raw_reader.h"
#include "trace_json.h"

// What is said of a recording itself, and the time, which whoever continues a trace sets.
static const char *const staying[] = {"repairs", "anomalies",   "unfinished",      "lost_calls",
                                      "damage",  "duration_ns", "freed_looked_at", "freed_warm"};

static json_t *all_totals(void) {
    static struct ht_raw_log log = {.fd = -1};
    struct merge_totals totals;
    memset(&totals, 1, sizeof totals);
    totals.damage.first[sizeof totals.damage.first - 1] = 0;
    log.header.freed_probes[0] = 1;
    log.header.freed_probe_step_counts = 1;
    return trace_json_totals(&totals, &log);
}

static bool stays(const char *key) {
    for (size_t i = 0; i < sizeof staying / sizeof *staying; i++)
        if (!strcmp(key, staying[i])) return true;
    return false;
}

static void each_total_has_a_kind(void **state) {
    (void)state;
    json_t *totals = all_totals(), *value;
    const char *key;
    assert_non_null(json_object_get(totals, "foreign_queries"));
    totals_make_unknown(totals, TOTALS_COUNTED | TOTALS_DROPPED | TOTALS_RECORDED);
    json_object_foreach(totals, key, value) {
        if (json_is_null(value) != !stays(key)) fail_msg("%s", key);
    }
    json_decref(totals);
}

static void what_is_absent_stays_absent(void **state) {
    (void)state;
    json_t *totals = json_pack("{s:i, s:i}", "events", 3, "recorded_cpu_ns", 4);
    totals_make_unknown(totals, TOTALS_RECORDED);
    assert_int_equal(json_object_size(totals), 2);
    assert_true(json_is_null(json_object_get(totals, "recorded_cpu_ns")));
    assert_int_equal(json_integer_value(json_object_get(totals, "events")), 3);
    json_decref(totals);
}

static void only_what_is_counted_is_taken_over(void **state) {
    (void)state;
    json_t *totals = json_pack("{s:i, s:i}", "events", 3, "recorded_cpu_ns", 4), *other = all_totals();
    totals_put_counted(totals, other);
    assert_true(json_equal(json_object_get(totals, "events"), json_object_get(other, "events")));
    assert_true(json_equal(json_object_get(totals, "failed_calls"), json_object_get(other, "failed_calls")));
    assert_int_equal(json_integer_value(json_object_get(totals, "recorded_cpu_ns")), 4);
    assert_null(json_object_get(totals, "repairs"));
    assert_null(json_object_get(totals, "foreign_queries"));
    json_decref(totals);
    json_decref(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_total_has_a_kind),
                                       cmocka_unit_test(what_is_absent_stays_absent),
                                       cmocka_unit_test(only_what_is_counted_is_taken_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
