// SPDX-License-Identifier: Apache-2.0
#include "import_formats.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "raw_layout.h"
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

// What a file begins with, or has anywhere in its head, with something else.
static const struct {
    const char *start, *within, *with, *what;
} strangers[] = {
    {NULL, "-- malloc(", "",
     "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "-- calloc(", "",
     "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "-- free(", "", "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "malloc(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "calloc(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "free(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "execve(", " = ", "strace's output, which has no calls of malloc"},
    {NULL, "brk(", " = ", "strace's output, which has no calls of malloc"},
    {"==", NULL, NULL, "valgrind's output, which has no calls of malloc"},
    {"desc: ", NULL, NULL, "massif's file, which has sums, but no calls"},
    {"{\"dhatFileVersion\"", NULL, NULL, "DHAT's file, which has sums, but no calls"},
    {"heap_v2/", NULL, NULL, "jemalloc's heap profile, which has sums, but no calls"},
    {"heap profile:", NULL, NULL, "a heap profile, which has sums, but no calls"},
    {"PERFILE2", NULL, NULL, "perf's file, which has samples, but not all calls"},
    {"memray", NULL, NULL, "memray's file, which only memray reads"},
};

static bool has(const char *head, size_t bytes, const char *words) {
    return memmem(head, bytes, words, strlen(words)) != NULL;
}

// Names a file that many have and that no trace can be made of, and says what it lacks: "ltrace's output, which ...". NULL if it
// is none of them.
static const char *stranger_named(const char *head, size_t bytes) {
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        const char *start = strangers[i].start, *within = strangers[i].within;
        if (start && bytes >= strlen(start) && !memcmp(head, start, strlen(start))) return strangers[i].what;
        if (within && has(head, bytes, within) && has(head, bytes, strangers[i].with))
            return strangers[i].what;
    }
    return NULL;
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
