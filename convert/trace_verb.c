// SPDX-License-Identifier: Apache-2.0
#include "trace_verb.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"
#include "print.h"
#include "raw_layout.h"
#include "talk.h"
#include "trace_layout.h"

error_t trace_argument(int key, char *value, struct argp_state *state, const char **trace) {
    switch (key) {
    case ARGP_KEY_ARG:
        if (*trace) argp_error(state, "%s: expected one trace", value);
        *trace = value;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "expected TRACE"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

bool trace_output_refused(const char *verb, const char *output, const char *trace) {
    const char *wrong = convert_overwrites(output, trace, NULL, 0);
    if (wrong) ht_print(stderr, "%s: %s: %s\n", verb, output, wrong);
    return wrong;
}

int trace_verb(const char *verb, const char *trace,
               int (*show)(struct ht_trace_reader *reader, void *options, bool *whole,
                           struct ht_error *error),
               void *options) {
    struct ht_error error;
    struct ht_trace_reader *reader = ht_trace_open(trace, &error);
    if (!reader) return ht_complain(verb, &error);
    bool whole = true;
    int status = show(reader, options, &whole, &error);
    if (!status && whole && ht_trace_truncated(reader)) {
        fflush(stdout);
        ht_trace_report_truncated(reader, &error);
        status = -1;
    }
    ht_trace_close(reader);
    return ht_stdout_status(verb, status ? ht_complain(verb, &error) : HT_EXIT_DONE);
}

// ---- paths ----

bool convert_is_folder(const char *path) {
    struct stat status;
    size_t length = strlen(path);
    return (length && path[length - 1] == '/') || (!stat(path, &status) && S_ISDIR(status.st_mode));
}

static bool begins_with(const char *path, const char wanted[8]) {
    struct stat status;
    char magic[8];
    if (!strcmp(path, "-")) return false;                               // no file of that name
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;  // a pipe must not be touched
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool is = read(fd, magic, sizeof magic) == sizeof magic && !memcmp(magic, wanted, sizeof magic);
    close(fd);
    return is;
}

bool convert_is_raw_log(const char *path) { return begins_with(path, HT_RAW_MAGIC); }
bool convert_is_trace(const char *path) { return begins_with(path, HT_TRACE_MAGIC); }

// The length of a name without the endings that say nothing more once it is a trace.
static size_t stem_length(const char *name) {
    static const char *const packed[] = {".gz", ".xz", ".zst", ".bz2", ".lzma", ".zip"};
    static const char *const kinds[] = {".mraw", ".txt", ".log", ".rep", ".wl", ".mtrace", ".acc"};
    size_t length = strlen(name), shorter = length;
    for (unsigned i = 0; i < sizeof packed / sizeof *packed; i++) {
        size_t ending = strlen(packed[i]);
        if (length > ending && !memcmp(name + length - ending, packed[i], ending)) shorter = length - ending;
    }
    length = shorter;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t ending = strlen(kinds[i]);
        if (length > ending && !memcmp(name + length - ending, kinds[i], ending)) shorter = length - ending;
    }
    return shorter;
}

char *convert_output_path(const char *input, const char *wanted, const char *ending) {
    const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input;
    size_t stem = stem_length(name), trace = strlen(CONVERT_TRACE_ENDING);
    char *path;
    if (strcmp(ending, CONVERT_TRACE_ENDING) && stem > trace &&
        !memcmp(name + stem - trace, CONVERT_TRACE_ENDING, trace))
        stem -= trace;  // it is exported
    if (wanted && !convert_is_folder(wanted)) return strdup(wanted);
    if (asprintf(&path, "%.*s%s%.*s%s", wanted ? (int)strlen(wanted) : (int)(name - input),
                 wanted ? wanted : input, wanted && wanted[strlen(wanted) - 1] != '/' ? "/" : "", (int)stem,
                 name, ending) < 0)
        return NULL;
    return path;
}

const char *convert_overwrites(const char *output, const char *own, char *const *inputs, unsigned count) {
    struct stat status;
    if (!strcmp(output, "-") || stat(output, &status) || !S_ISREG(status.st_mode)) return NULL;
    if (output_file_replaces(output, own))
        return convert_is_raw_log(own) ? "the trace would overwrite its raw log"
                                       : "the trace would overwrite its input";
    for (unsigned i = 0; i < count; i++)
        if (output_file_replaces(output, inputs[i])) return "the trace would overwrite another input";
    // Its parent's, for one: raw logs cannot be made again.
    if (convert_is_raw_log(output)) return "the trace would overwrite a raw log";
    return NULL;
}
