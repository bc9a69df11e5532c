// SPDX-License-Identifier: Apache-2.0
#include "import_formats.h"

#include <stdio.h>
#include <string.h>

#include "raw_layout.h"
#include "strangers.h"
#include "trace_layout.h"

static const struct import_format *const formats[] = {
    &import_malloc_wrap_raw, &import_malloc_wrap, &import_android, &import_logalloc,  &import_trace_utils,
    &import_workload,        &import_rep,         &import_mtrace,  &import_heaptrack, &import_accesses,
};
enum { FORMATS = sizeof formats / sizeof *formats };

const struct import_format *import_format_named(const char *name) {
    for (unsigned i = 0; i < FORMATS; i++)
        if (!strcmp(formats[i]->name, name)) return formats[i];
    return NULL;
}

const char *import_format_names(char text[256]) {
    size_t used = 0;
    for (unsigned i = 0; i < FORMATS; i++)
        used += (size_t)snprintf(text + used, 256 - used, "%s%s", i ? ", " : "", formats[i]->name);
    return text;
}

bool import_first_line(const char *head, size_t bytes, struct import_text *line) {
    const char *at = head, *end = head + bytes;
    while (at < end && (*at == '\n' || *at == '\r' || *at == ' ' || *at == '\t')) at++;
    if (at == end) return false;
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *line = (struct import_text){at, newline ? newline : end};
    if (line->end > at && line->end[-1] == '\r') line->end--;
    return line->end - at <= IMPORT_LINE_BYTES_MAX;
}

// Our own files are distinguished from unknown ones, for they can stand in a zip or come from a pipe too.
static bool is_ours(const struct import_input *input, const char *head, size_t bytes,
                    struct ht_error *error) {
    const char *what = NULL;
    if (bytes >= 8 && !memcmp(head, HT_RAW_MAGIC, 8))
        what = "expected a raw log in a file of its own, found one from a pipe or packed";
    else if (bytes >= 8 && !memcmp(head, HT_TRACE_MAGIC, 8)) what = "expected a raw log, found a trace";
    if (what) ht_error_input(error, input->path, 0, "%s", what);
    return what != NULL;
}

const struct import_format *import_format_sniff(struct import_input *input, struct ht_error *error) {
    char names[256];
    const struct import_format *found = NULL;
    size_t bytes = import_input_peek(input, IMPORT_HEAD_BYTES);
    if (input->failed) {
        *error = input->error;
        return NULL;
    }
    char *head = input->buffer + input->begin;
    head[bytes] = '\n';
    if (bytes > IMPORT_HEAD_BYTES) bytes = IMPORT_HEAD_BYTES;
    if (is_ours(input, head, bytes, error)) return NULL;
    for (unsigned i = 0; i < FORMATS; i++) {
        if (!formats[i]->sniff(head, bytes)) continue;
        if (found) {
            ht_error_input(error, input->path, 0, "it may be %s or %s: choose by --from", found->name,
                           formats[i]->name);
            return NULL;
        }
        found = formats[i];
    }
    const char *stranger = found ? NULL : stranger_named(head, bytes);
    if (stranger)
        ht_error_input(error, input->path, 0,
                       "expected a raw log (HTAPERAW) or a trace of a known format, found %s: record by "
                       "heaptape record -- PROGRAM",
                       stranger);
    else if (!found)
        ht_error_input(error, input->path, 0,
                       "expected a raw log (HTAPERAW) or a trace of a known format, found none of "
                       "heaptape, %s (--from names one)",
                       import_format_names(names));
    return found;
}

int import_reject(struct import *import, uint64_t offset, const char *what, const char *expected,
                  struct ht_error *error) {
    if (import->sink.no_memory) return ht_error_memory(error, import->input.path, "cannot follow the heap");
    import->skipped++;
    if (import->lenient) return 0;
    return ht_error_input(error, import->input.path, offset, "%s: expected %s", what, expected);
}

bool import_goes_on(struct import *import) {
    if (import->progress)
        import->progress(import->progress_context, import_input_done(&import->input),
                         import->input.file_bytes, ht_trace_next_event(import->sink.writer));
    return !ht_trace_failed(import->sink.writer);
}
