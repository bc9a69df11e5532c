// SPDX-License-Identifier: Apache-2.0
#include "checked_conversion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checked_trace.h"
#include "fuzz_input.h"
#include "inheritance.h"
#include "merge.h"

// What has been put, for comparison with what is read: the linker brings the writer's callers here.
static uint64_t put_digest, put_records, put_unit_ns;
#ifdef FUZZ_SEES_PUTS
void __real_ht_trace_put_event(struct ht_trace_writer *writer, uint8_t op, uint32_t thread, uint64_t time_ns,
                               uint32_t slot, bool own_slot, uint64_t size, uint64_t extra);
void __wrap_ht_trace_put_event(struct ht_trace_writer *writer, uint8_t op, uint32_t thread, uint64_t time_ns,
                               uint32_t slot, bool own_slot, uint64_t size, uint64_t extra);
void __wrap_ht_trace_put_event(struct ht_trace_writer *writer, uint8_t op, uint32_t thread, uint64_t time_ns,
                               uint32_t slot, bool own_slot, uint64_t size, uint64_t extra) {
    const struct ht_op_shape shape = ht_op_shape(op);
    put_digest = checked_trace_add(put_digest, op, thread, time_ns / put_unit_ns, shape.slot ? slot : 0,
                                   shape.size ? size : 0, shape.extra ? extra : 0);
    put_records++;
    __real_ht_trace_put_event(writer, op, thread, time_ns, slot, own_slot, size, extra);
}
#endif

// In memory where there is such a folder: a fuzzer would wear out a disk.
static const char *output_path(void) {
    static char path[FUZZ_PATH_BYTES];
    if (!*path)
        snprintf(path, sizeof path, "%s/heaptape-fuzz-%d.bin", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
                 (int)getpid());
    return path;
}

static int convert(const struct ht_raw_log *log, const char *parent, uint32_t time_unit_ns,
                   struct merge_totals *totals, struct ht_error *error) {
    const struct merge_progress quiet = {0};
    struct live_blocks inherited = {0};
    struct merge_result result;
    char warning[INHERITANCE_WARNING_BYTES];
    if (parent && inheritance_find(log, parent, &inherited, warning, &quiet, error)) return -1;
    struct ht_trace_writer *writer = ht_trace_create(output_path(), time_unit_ns, 1, error);
    FUZZ_EXPECT(writer, "%s", error->message);
    ht_trace_put_context(writer, "{}");
    int status = merge_log(log, &inherited, writer, &result, &quiet, error);
    live_blocks_free(&inherited);
    if (status) {
        ht_trace_abandon(writer);
        return -1;
    }
    *totals = result.totals;
    status = ht_trace_finish(writer, result.threads, result.totals.threads, "{}", NULL, error);
    FUZZ_EXPECT(!status, "%s", error->message);
    free(result.threads);
    return 0;
}

const char *checked_output_begin(uint32_t time_unit_ns) {
    put_digest = put_records = 0;
    put_unit_ns = time_unit_ns;
    return output_path();
}

static void check_output(const struct merge_totals *totals, bool converted) {
    struct checked_trace trace = checked_trace(output_path(), converted);
    FUZZ_EXPECT(trace.whole && trace.decoded, "the reader refuses what convert wrote");
#ifdef FUZZ_SEES_PUTS
    FUZZ_EXPECT(trace.records == put_records && trace.digest == put_digest, "events differ from those put");
#endif
    FUZZ_EXPECT(!totals || (trace.records == totals->records && trace.calls == totals->events),
                "totals of events");
    FUZZ_EXPECT(!totals || trace.threads == totals->threads, "totals of threads");
    unlink(output_path());
}

void checked_output_end(const struct merge_totals *totals) { check_output(totals, true); }

void checked_copy_end(const struct merge_totals *totals) { check_output(totals, false); }

void checked_conversion(const char *raw, const char *parent, uint32_t time_unit_ns) {
    struct ht_raw_log log;
    struct ht_error error = {0};
    struct merge_totals totals;
    checked_output_begin(time_unit_ns);
    if (ht_raw_open(&log, raw, &error)) {
        FUZZ_EXPECT(error.status && *error.message, "a log that does not open without an error");
        return;
    }
    if (!convert(&log, parent, time_unit_ns, &totals, &error)) checked_output_end(&totals);
    else FUZZ_EXPECT(error.status && *error.message, "a conversion that fails without an error");
    ht_raw_close(&log);
}
