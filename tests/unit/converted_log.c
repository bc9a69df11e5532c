// SPDX-License-Identifier: Apache-2.0
#include "unit_support.h"

#include "converted_log.h"

#include <string.h>

static void read_events(struct converted_log *converted, const char *trace) {
    struct ht_error error = {0};
    struct ht_trace_reader *reader = ht_trace_open(trace, &error);
    assert_non_null(reader);
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events e;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        assert_int_equal(ht_trace_events(reader, i, &e, &error), 0);
        for (uint32_t row = 0; row < e.rows && converted->events < CONVERTED_EVENTS_MAX; row++)
            converted->event[converted->events++] =
                (struct converted_event){e.op[row], e.thread[row], e.slot[row], e.time_ns[row], e.size[row]};
    }
    assert_int_equal(ht_trace_facts(reader, &converted->facts, &error), 0);
    ht_trace_close(reader);
}

int converted_open(struct converted_log *converted, const char *raw, const char *parent_path,
                   struct ht_error *error) {
    const struct merge_progress quiet = {0};
    struct ht_raw_log log;
    struct live_blocks inherited;
    struct merge_result result;
    char trace[256];
    memset(converted, 0, sizeof *converted);
    if (ht_raw_open(&log, raw, error)) return -1;
    int status = inheritance_find(&log, parent_path, &inherited, converted->warning, &quiet, error);
    struct ht_trace_writer *writer =
        status ? NULL : ht_trace_create(unit_path(trace, "converted.bin"), 1, 1, error);
    if (writer) {
        ht_trace_put_context(writer, "{}");
        status = merge_log(&log, &inherited, writer, &result, &quiet, error);
        live_blocks_free(&inherited);
        if (status) ht_trace_abandon(writer);
    }
    ht_raw_close(&log);
    if (status) return -1;
    converted->totals = result.totals;
    assert_int_equal(ht_trace_finish(writer, result.threads, result.totals.threads, "{}", NULL, error), 0);
    free(result.threads);
    read_events(converted, trace);
    unlink(trace);
    return 0;
}

void converted_close(struct converted_log *converted) { ht_trace_facts_free(&converted->facts); }
