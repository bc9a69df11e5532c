// SPDX-License-Identifier: Apache-2.0
// Traces, as lint, stats, slice, share and the exporters read them: with tables of what is live. The first bytes say
// which of them, and of what part of the trace.
#include <stdlib.h>

#include "checked_conversion.h"
#include "export.h"
#include "lint_checks.h"
#include "lint_passes.h"
#include "lint_report.h"
#include "sealed_trace.h"
#include "shared_trace.h"
#include "stats_report.h"
#include "trace_slice.h"

enum verb { LINT, STATS, SLICE, EXPORT, SHARE };

static void lint(struct ht_trace_reader *reader, const char *path, struct ht_error *error) {
    struct lint lint;
    FUZZ_EXPECT(lint_init(&lint, false, 5), "no memory");
    if (lint_trace(&lint, reader, path, error)) FUZZ_EXPECT(error->status, "no error reported");
    else json_decref(lint_report_json(&lint, path));
    lint_free(&lint);
}

static void count(struct ht_trace_reader *reader, const char *path, struct ht_error *error) {
    struct trace_stats *stats = trace_stats_count(reader, path, 20, 1000, error);
    FUZZ_EXPECT(stats || error->status, "no error reported");
    if (stats) json_decref(stats_report_json(stats, NULL));
    trace_stats_free(stats);
}

static void slice(struct ht_trace_reader *reader, const char *path, struct trace_range *range,
                  const struct left_out_blocks *left_out, struct ht_error *error) {
    const struct slice_request request = {.path = path, .range = range, .left_out = left_out};
    struct slice_result result = {0};
    uint32_t unit_ns = ht_trace_time_unit_ns(reader);
    struct ht_trace_writer *writer = ht_trace_create(checked_output_begin(unit_ns), unit_ns, 1, error);
    FUZZ_EXPECT(writer, "%s", error->message);
    ht_trace_put_context(writer, "{}");
    bool failed = trace_slice(reader, &request, writer, &result, error) != 0;
    FUZZ_EXPECT(!failed || error->status, "no error reported");
    if (failed || !result.totals.events) {
        ht_trace_abandon(writer);
    } else {
        int status = ht_trace_finish(writer, result.threads, result.totals.threads, "{}", NULL, error);
        FUZZ_EXPECT(!status, "%s", error->message);
        checked_output_end(&result.totals);
    }
    slice_result_free(&result);
    trace_range_free(range);
}

// A copy has the other's threads and slots, whichever those are.
static void share(struct ht_trace_reader *reader, uint8_t choice, struct ht_error *error) {
    uint32_t unit_ns = ht_trace_time_unit_ns(reader);
    struct shared_trace shared = {.reader = reader, .quiet = true};
    if (choice & 1) shared.coarsening.size_bits = 1 + (choice >> 5);
    if (choice & 2) shared.coarsening.time_ns = 2 + (choice >> 3);
    if (shared_trace_write(&shared, checked_output_begin(unit_ns), error))
        FUZZ_EXPECT(error->status, "no error reported");
    else checked_copy_end(&shared.totals);
    json_decref(shared.context);
}

static void export(const char *path, uint8_t choice, struct ht_error *error) {
    static const char *const names[] = {"malloc_wrap", "android", "rep"};
    const struct export_format *format = export_find(names[choice % 3]);
    FUZZ_EXPECT(format, "no format %s", names[choice % 3]);
    if (export_trace(format, path, false, "/dev/null", true, error))
        FUZZ_EXPECT(error->status, "no error reported");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    struct ht_error error = {0};
    char path[FUZZ_PATH_BYTES];
    // The kept inputs are older than share.
    uint8_t wanted = fuzz_take_byte(&input) % 8, choice = fuzz_take_byte(&input);
    uint8_t verb = wanted == SHARE ? SHARE : wanted % 4;
    struct trace_range range = {.from_event = fuzz_take_byte(&input), .to_ns = UINT64_MAX};
    range.to_event = range.from_event + fuzz_take_byte(&input);
    range.threads = choice & 1 ? "0" : choice & 2 ? "1" : NULL;
    struct left_out_blocks left_out = {0};
    const char *blocks = choice & 8 ? "size=0-64,thread=0,live=1us" : "size=0-64,thread=0";
    if (choice & 4) FUZZ_EXPECT(!left_out_blocks_parse(blocks, &left_out), "refused");
    left_out.only = choice & 16;
    sealed_trace_write(&input, fuzz_memory_file(0, path));
    if (verb == EXPORT) {
        export(path, choice, &error);
        return 0;
    }
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    if (!reader) return 0;
    if (verb == LINT) lint(reader, path, &error);
    else if (verb == STATS) count(reader, path, &error);
    else if (verb == SHARE) share(reader, choice, &error);
    else slice(reader, path, &range, &left_out, &error);
    ht_trace_close(reader);
    return 0;
}
