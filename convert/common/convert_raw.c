// SPDX-License-Identifier: Apache-2.0
#include "convert_raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert_request.h"
#include "inheritance.h"
#include "inner_allocators.h"
#include "now.h"
#include "print.h"
#include "raw_state.h"
#include "site_names.h"
#include "trace_json.h"

void convert_warn_about(const struct ht_raw_log *log) {
    char words[HT_STOP_TEXT_BYTES];
    const char *ignored = ht_raw_context(log, "ignored_settings"),
               *no_sites = ht_raw_context(log, "no_call_sites");
    if (ignored)
        ht_print(
            stderr,
            "heaptape convert: warning: %s: the recorder ignored settings of its environment whose values "
            "mean nothing: %s\n",
            log->path, ignored);
    if (no_sites)
        ht_print(stderr, "heaptape convert: warning: %s: no call sites are recorded: %s\n", log->path,
                 no_sites);
    if (ht_stopped_early(&log->header))
        ht_print(stderr,
                 "heaptape convert: warning: %s: the recording stopped early (%s), and so does the trace\n",
                 log->path, ht_stop_words(&log->header, words) ? words : "no reason given");
}

// The log is whole, but there is nothing in it.
static int no_calls(const struct ht_raw_log *log, struct ht_error *error) {
    const char *why = "";
    if (log->header.state == HT_RAW_PAUSED)
        why = ": the recording was paused throughout (begin it by heaptape ctl PID resume)";
    else if (log->header.stop_reason == HT_STOP_CONTROL)
        why = ": heaptape ctl ended the recording before the first one";
    return ht_error_input(error, log->path, HT_RAW_HEADER_BYTES, "expected at least one call, found none%s",
                          why);
}

// Writes what is known of the call sites. False for want of memory.
static bool put_sites(const struct convert_request *request, const struct ht_raw_log *log,
                      struct ht_trace_writer *writer, struct ht_site_table *table) {
    if (!table->sites_count) return true;
    bool done = true;
    if (!request->no_names) {
        char path[PERF_MAP_PATH_BYTES];
        json_t *context = trace_json_context(log);
        done = site_names_resolve(table, site_names_perf_map(context, path));
        json_decref(context);
    }
    if (done) ht_trace_put_site_table(writer, table);
    return done;
}

static void warn_of_damage(const struct ht_raw_log *log, const json_t *totals,
                           const struct ht_raw_damage *damage) {
    const char *lost = damage->lost_calls || damage->end_lost ? "; blocks whose free is lost stay live" : "";
    const char *why = ht_raw_context(log, "switched_stacks")
                          ? "; the program switches from stack to stack in signal handlers, also within calls"
                          : "";
    char words[TRACE_DAMAGE_BYTES];
    if (trace_json_damage(totals, words))
        ht_print(stderr, "heaptape convert: warning: %s: damaged: %s%s%s\n", log->path, words, lost, why);
}

int convert_finish(const struct convert_request *request, const struct ht_raw_log *log,
                   struct ht_trace_writer *writer, struct merge_result *result, double started_s,
                   uint64_t *file_bytes, struct ht_error *error) {
    if (result->totals.events == 0 && !request->of_group) {
        ht_trace_abandon(writer);
        free(result->threads);
        ht_site_table_free(&result->sites);
        if (!result->totals.damage.places) return no_calls(log, error);
        ht_raw_report_damage(&result->totals.damage, log, error);
        return -1;
    }
    bool listed = !result->no_sites && put_sites(request, log, writer, &result->sites);
    ht_site_table_free(&result->sites);
    if (!listed) {
        ht_trace_abandon(writer);
        free(result->threads);
        return ht_error_memory(error, log->path, "cannot list the call sites");
    }
    json_t *totals = trace_json_totals(&result->totals, log);
    warn_of_damage(log, totals, &result->totals.damage);
    int status =
        trace_json_finish(writer, result->threads, result->totals.threads, totals, file_bytes, error);
    free(result->threads);
    bool talks = !status && !request->in_record && !request->passing;
    char inside[HT_INNER_ALLOCATORS_BYTES];
    ht_inner_allocators_words(inside, ht_raw_context(log, "inner_allocators"));
    if (talks) convert_warn_of_unseen(request->output, &result->totals, inside);
    if (talks && !request->quiet)
        convert_say_result(request->output, &result->totals, *file_bytes, ht_now_s() - started_s, 0);
    return status;
}

static int write_trace(const struct convert_request *request, const struct ht_raw_log *log,
                       const struct live_blocks *inherited, const struct merge_progress *progress,
                       struct ht_error *error) {
    double started_s = ht_now_s();
    struct merge_result result;
    uint64_t file_bytes;
    struct ht_trace_writer *writer =
        ht_trace_create(request->output, request->time_unit_ns, request->level, error);
    if (!writer) return -1;
    trace_json_put_context(writer, trace_json_context(log));
    struct ht_progress *shown = progress->context;
    ht_progress_start(shown);
    int status = merge_log(log, inherited, writer, &result, progress, error);
    ht_progress_end(shown);
    if (status) ht_trace_abandon(writer);
    else status = convert_finish(request, log, writer, &result, started_s, &file_bytes, error);
    return status;
}

static int convert(const struct convert_request *request, const struct ht_raw_log *log,
                   struct ht_error *error) {
    struct ht_progress shown;
    struct live_blocks inherited = {0};
    struct merge_progress progress = {request->quiet ? NULL : convert_show_progress, &shown};
    char warning[INHERITANCE_WARNING_BYTES] = "";
    ht_progress_start(&shown);
    int status = 0;
    if (!request->no_parent)
        status = inheritance_find(log, request->parent, &inherited, warning, &progress, error);
    ht_progress_end(&shown);
    if (!status && *warning) ht_print(stderr, "heaptape convert: warning: %s: %s\n", log->path, warning);
    if (!status) status = write_trace(request, log, &inherited, &progress, error);
    live_blocks_free(&inherited);
    return status;
}

int convert_raw(const struct convert_request *request, struct ht_error *error) {
    struct ht_raw_log log;
    if (ht_raw_open(&log, request->input, error)) return -1;
    convert_warn_about(&log);
    int status = consumed_log_check(&log, error) ? -1 : convert(request, &log, error);
    ht_raw_close(&log);
    return status;
}
