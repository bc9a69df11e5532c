// SPDX-License-Identifier: Apache-2.0
#include "export.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "convert_request.h"
#include "export_format.h"
#include "now.h"
#include "output_file.h"
#include "print.h"
#include "talk.h"
#include "trace_json.h"

static const struct export_format *const formats[] = {&export_malloc_wrap, &export_android, &export_rep};
enum { FORMATS = sizeof formats / sizeof *formats, PAGE_BYTES_UNKNOWN = 4096 };

const struct export_format *export_find(const char *name) {
    for (unsigned i = 0; i < FORMATS; i++)
        if (!strcmp(formats[i]->name, name)) return formats[i];
    return NULL;
}

const char *export_suffix(const struct export_format *format) { return format->suffix; }

char *export_temporary_trace(const char *output, struct ht_error *error) {
    char *path;
    const char *folder = getenv("TMPDIR");
    int made = export_text_in_place(output)
                   ? asprintf(&path, "%s.trace.XXXXXX", output)
                   : asprintf(&path, "%s/heaptape-export.XXXXXX", folder && *folder ? folder : "/tmp");
    sigset_t before = hold_signals();
    int fd = made < 0 ? -1 : mkstemp(path);
    if (fd >= 0) {
        remove_on_signal(path);
        let_signals(before);
        close(fd);
        return path;
    }
    int why = errno;
    let_signals(before);
    errno = why;
    ht_error_system(error, made < 0 ? output : path, "cannot create");
    if (made >= 0) free(path);
    return NULL;
}

void export_drop_temporary(const char *trace) {
    unlink(trace);
    keep_on_signal(trace);
}

void export_padded_number(char *at, size_t width, uint64_t number) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    memset(at, ' ', width);
    memcpy(at, digits, (size_t)length);
    at[width] = '\n';
}

// The numbers that formats want to know beforehand.
static int read_totals(struct exporter *exporter, struct ht_trace_reader *reader, struct ht_error *error) {
    json_t *info = trace_json_info(reader, error);
    if (!info) return -1;
    json_int_t page = json_integer_value(json_object_get(json_object_get(info, "context"), "page_bytes"));
    exporter->page_bytes = page > 0 ? (uint64_t)page : PAGE_BYTES_UNKNOWN;
    json_int_t peak = json_integer_value(json_object_get(info, "peak_live_bytes"));
    exporter->peak_live_bytes = peak > 0 ? (uint64_t)peak : 0;
    json_decref(info);
    return 0;
}

static int exporter_begin(struct exporter *exporter, const struct export_format *format,
                          struct ht_trace_reader *reader, struct ht_error *error) {
    *exporter = (struct exporter){.format = format, .numbers = slot_table_of(sizeof(uint64_t))};
    if (read_totals(exporter, reader, error) || ht_trace_facts(reader, &exporter->facts, error)) return -1;
    export_rules_make(&exporter->rules, format->abilities, exporter->page_bytes);
    if (!format->begin || format->begin(exporter)) return 0;
    return ht_error_memory(error, "export", "cannot begin");
}

static void exporter_end(struct exporter *exporter) {
    if (exporter->format->end) exporter->format->end(exporter);
    slot_table_free(&exporter->numbers);
    ht_trace_facts_free(&exporter->facts);
}

static void put_section(struct exporter *exporter, const struct ht_events *events) {
    if (!slot_table_reach(&exporter->numbers, events->slot, events->rows)) {
        exporter->wrong = "not enough address space for a number per slot";
        return;
    }
    for (uint32_t row = 0; row < events->rows && !exporter->wrong; row++) {
        struct export_call call = export_call_of(&exporter->rules, events, row, &exporter->losses);
        if (call.slot > exporter->slot_max) exporter->slot_max = call.slot;
        exporter->format->call(exporter, &call);
    }
    exporter->events += events->rows;
}

static int put_events(struct exporter *exporter, struct ht_trace_reader *reader, const char *trace,
                      struct ht_progress *progress, struct ht_error *error) {
    uint64_t records = ht_trace_records(reader);
    for (size_t i = 0; i < ht_trace_sections(reader) && !exporter->text.failed; i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, error)) return -1;
        put_section(exporter, &events);
        if (exporter->wrong)
            return ht_error_input(error, trace, ht_trace_section(reader, i)->offset, "%s", exporter->wrong);
        if (progress) convert_show_progress(progress, exporter->events, records, exporter->events);
    }
    if (exporter->format->finish) exporter->format->finish(exporter);
    return 0;
}

// Writes header and lines. Where the header must come first and cannot be written again, a rehearsal has
// filled it.
static int put_all(struct exporter *exporter, struct ht_trace_reader *reader, const char *trace, char *header,
                   struct ht_progress *progress, struct ht_error *error) {
    const struct export_format *format = exporter->format;
    if (format->header_bytes) export_put_words(&exporter->text, header, format->header_bytes);
    if (put_events(exporter, reader, trace, progress, error)) {
        export_text_abandon(&exporter->text);
        return -1;
    }
    if (format->header) format->header(exporter, header);
    if (format->header && exporter->text.in_place)
        export_text_put_head(&exporter->text, header, format->header_bytes);
    export_text_flush(&exporter->text);
    return export_text_finish(&exporter->text, error);
}

static int rehearse(const struct export_format *format, struct ht_trace_reader *reader, const char *trace,
                    const char *output, char *header, struct ht_progress *progress, struct ht_error *error) {
    struct exporter exporter;
    int status = exporter_begin(&exporter, format, reader, error);
    if (!status) status = export_text_rehearse(&exporter.text, output, error);
    if (!status) status = put_all(&exporter, reader, trace, header, progress, error);
    exporter_end(&exporter);
    return status;
}

static void say_result(const struct exporter *exporter, const char *output, double seconds) {
    char lines[HT_NUMBER_OF_BYTES], events[HT_NUMBER_OF_BYTES], bytes[32];
    ht_print(stderr, "%s: %s from %s, %s in %.1f s; not held: %s",
             strcmp(output, "-") ? output : "standard output", ht_number_of(lines, exporter->lines, "line"),
             ht_number_of(events, exporter->events, "event"), ht_bytes(bytes, (double)exporter->text.bytes),
             seconds, exporter->format->unsaid);
    export_losses_print(stderr, &exporter->losses);
    putc('\n', stderr);
}

static int export_opened(const struct export_format *format, struct ht_trace_reader *reader,
                         const char *trace, const char *output, bool quiet, struct ht_error *error) {
    char header[EXPORT_HEADER_MAX];
    double started_s = ht_now_s();
    struct ht_progress progress;
    struct exporter exporter;
    memset(header, ' ', sizeof header);
    ht_progress_start(&progress);
    int status = 0;
    if (format->header_bytes && !export_text_in_place(output))
        status = rehearse(format, reader, trace, output, header, quiet ? NULL : &progress, error);
    if (status) {
        ht_progress_end(&progress);
        return status;
    }
    status = exporter_begin(&exporter, format, reader, error);
    if (!status) status = export_text_open(&exporter.text, output, error);
    if (!status) status = put_all(&exporter, reader, trace, header, quiet ? NULL : &progress, error);
    ht_progress_end(&progress);
    if (!status && !quiet) say_result(&exporter, output, ht_now_s() - started_s);
    exporter_end(&exporter);
    return status;
}

int export_trace(const struct export_format *format, const char *trace, bool temporary, const char *output,
                 bool quiet, struct ht_error *error) {
    struct ht_trace_reader *reader = ht_trace_open(trace, error);
    if (temporary) export_drop_temporary(trace);
    if (!reader) return -1;
    // No text format can say that it is only a part.
    int status = ht_trace_truncated(reader)
                     ? ht_error_input(error, trace, ht_trace_valid_bytes(reader),
                                      "expected a whole section or the footer, found the file cut short or "
                                      "damaged: export takes whole traces only")
                     : export_opened(format, reader, trace, output, quiet, error);
    ht_trace_close(reader);
    return status;
}
