// SPDX-License-Identifier: Apache-2.0
#include "import_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert_request.h"
#include "now.h"
#include "trace_json.h"

enum { LINES_AT_ONCE = 4096, EXCERPT_BYTES = 40 };

// As much of a line as a message can take; what is no plain text becomes '?'.
static void excerpt(const struct import_text *line, char text[EXCERPT_BYTES + 4]) {
    size_t length = (size_t)(line->end - line->at), shown = length < EXCERPT_BYTES ? length : EXCERPT_BYTES;
    for (size_t i = 0; i < shown; i++) text[i] = line->at[i] >= ' ' && line->at[i] < 127 ? line->at[i] : '?';
    strcpy(text + shown, length > shown ? "..." : "");
}

static int reject_line(struct import *import, const struct import_text *line, const char *expected,
                       struct ht_error *error) {
    char what[32], found[EXCERPT_BYTES + 4];
    excerpt(line, found);
    snprintf(what, sizeof what, "line %" PRIu64, import->input.line_number);
    int status = import_reject(import, import->input.line_offset, what, expected, error);
    if (status && error->status == HT_EXIT_INPUT) {
        size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, ", found '%s'", found);
    }
    return status;
}

static int take_lines(struct import *import, struct ht_error *error) {
    struct import_text line;
    for (unsigned n = 1; import_input_line(&import->input, &line); n++) {
        const char *expected = "a line of at most 65,536 bytes";
        struct import_text whole = line;
        if (!import->input.line_too_long) {
            if (text_ends(&line)) continue;  // blank
            line.at = whole.at;
            expected = import->format->line(import, &line);
        } else if (import->lenient && import->format->pass) {
            import->format->pass(import, import->input.line_first);
        }
        if (expected && reject_line(import, &whole, expected, error)) return -1;
        if (n % LINES_AT_ONCE == 0 && !import_goes_on(import)) return 0;
    }
    return 0;
}

// Reads the whole input into the sink.
static int take_all(struct import *import, struct ht_error *error) {
    int status = import->format->line ? take_lines(import, error) : import->format->whole(import, error);
    if (!status && import->input.failed) {
        *error = import->input.error;
        status = -1;
    }
    if (!status && import->format->end) status = import->format->end(import, error);
    if (!status && (import->sink.no_memory || import->sites.no_memory))
        return ht_error_memory(error, import->input.path, "cannot follow the heap");
    if (!status && !import->sink.begun)
        return ht_error_input(error, import->input.path, import->input.offset,
                              "expected at least one call, found none");
    return status;
}

// "time" comes with the first call.
static json_t *context_of(const struct convert_request *request, const struct import_format *format) {
    const char *name = import_input_name(request->input), *slash = strrchr(name, '/');
    json_t *context = json_object();
    json_object_set_new(context, "source", trace_json_string(slash ? slash + 1 : name));
    json_object_set_new(context, "source_format", json_string(format->name));
    json_object_set_new(context, "page_bytes", json_integer(IMPORT_PAGE_BYTES));
    if (request->pid_wanted) json_object_set_new(context, "pid", json_integer((json_int_t)request->pid));
    return context;
}

// Writes what the input holds; the writer is gone afterwards, in every case.
static int write_trace(struct import *import, const struct convert_request *request,
                       struct ht_trace_writer *writer, struct ht_error *error) {
    struct ht_progress shown;
    double started_s = ht_now_s();
    uint64_t file_bytes;
    ht_progress_start(&shown);
    if (!request->quiet) {
        import->progress = convert_show_progress;
        import->progress_context = &shown;
    }
    int status = take_all(import, error);
    ht_progress_end(&shown);
    if (status) {
        ht_trace_abandon(writer);
        return -1;
    }
    struct heap_model *heap = &import->sink.heap;
    heap_model_fill_totals(heap);
    if (import_sites_put(&import->sites, request, writer, error)) {
        ht_trace_abandon(writer);
        return -1;
    }
    status = trace_json_finish(writer, heap->threads, heap->threads_count,
                               trace_json_import_totals(&heap->totals, import->skipped), &file_bytes, error);
    if (!status && !request->quiet && !request->passing)
        convert_say_result(request->output, &heap->totals, file_bytes, ht_now_s() - started_s,
                           import->skipped);
    return status;
}

static int run_format(struct import *import, const struct convert_request *request, struct ht_error *error) {
    json_t *context = context_of(request, import->format);
    struct ht_trace_writer *writer =
        ht_trace_create(request->output, request->time_unit_ns, request->level, error);
    int status = writer ? 0 : -1;
    import->state = calloc(1, import->format->state_bytes + 1);
    if (writer && (!import_sink_init(&import->sink, writer, request->time_unit_ns, context) ||
                   !import_sites_init(&import->sites) || !import->state || !context)) {
        status = ht_error_memory(error, import->input.path, "cannot convert");
        ht_trace_abandon(writer);
    } else if (writer) {
        import->sink.time = import->format->time;
        status = write_trace(import, request, writer, error);
    }
    if (writer) {
        free(import->sink.heap.threads);
        import_sink_free(&import->sink);
        import_sites_free(&import->sites);
    }
    if (import->state && import->format->release) import->format->release(import->state);
    free(import->state);
    json_decref(context);
    return status;
}

int import_run(const struct convert_request *request, const struct import_format *format,
               struct ht_error *error) {
    struct import import = {
        .lenient = request->lenient, .pid_wanted = request->pid_wanted, .pid = request->pid};
    int status = import_input_open(&import.input, request->input, request->member, error);
    if (!status) import.format = format ? format : import_format_sniff(&import.input, error);
    if (!status && !import.format) status = -1;
    if (!status && request->pid_wanted && !import.format->has_pids)
        status = ht_error_input(error, import.input.path, 0,
                                "expected calls of several processes, for --pid, found %s, which names none",
                                import.format->title);
    if (!status && request->no_names && !import.format->has_sites)
        status =
            ht_error_input(error, import.input.path, 0,
                           "expected stacks, for --no-names, found %s, which has none", import.format->title);
    if (!status) status = run_format(&import, request, error);
    import_input_close(&import.input);
    return status;
}

bool import_knows(const char *path, const char *member, struct ht_error *error) {
    struct import_input input;
    bool known = !import_input_open(&input, path, member, error) && import_format_sniff(&input, error);
    import_input_close(&input);
    return known;
}
