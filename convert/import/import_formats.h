// SPDX-License-Identifier: Apache-2.0
// The foreign trace formats by name, and what each importer is: one small file that knows one grammar and
// hands the calls to the sink.
#ifndef HEAPTAPE_IMPORT_FORMATS_H
#define HEAPTAPE_IMPORT_FORMATS_H

#include <stddef.h>

#include "import_input.h"
#include "import_sink.h"
#include "import_sites.h"

// One import under way, as the importers see it.
struct import {
    struct import_input input;
    struct import_sink sink;
    struct import_sites sites;
    const struct import_format *format;
    void *state;   // the format's own, zeroed at the start
    bool lenient;  // pass over what does not parse, and count it
    uint64_t skipped;
    bool pid_wanted;
    uint64_t pid;
    void (*progress)(void *context, uint64_t done, uint64_t total, uint64_t events);  // may be NULL
    void *progress_context;
};

struct import_format {
    const char *name, *title;
    // Do the file's first bytes match? A newline follows them.
    bool (*sniff)(const char *head, size_t bytes);
    size_t state_bytes;
    const char *time;  // what the context says of its times; NULL: recorded or nominal
    bool has_pids;     // a file may hold several processes
    bool has_sites;    // calls may have stacks
    // Text: takes one line. Returns NULL, or what was expected in its place.
    const char *(*line)(struct import *import, struct import_text *line);
    // Text: a line that begins so was too long, and is passed over (may be NULL).
    void (*pass)(struct import *import, char first);
    // Text: the file is over (may be NULL). As ht_error_input: 0 or -1 with error.
    int (*end)(struct import *import, struct ht_error *error);
    // Frees what the state has (may be NULL).
    void (*release)(void *state);
    // Other files, all at once. Returns 0 or -1 with error.
    int (*whole)(struct import *import, struct ht_error *error);
};

extern const struct import_format import_android, import_logalloc, import_malloc_wrap_raw, import_malloc_wrap,
    import_mtrace, import_heaptrack, import_rep, import_accesses, import_trace_utils, import_workload;

// NULL if there is none of that name.
const struct import_format *import_format_named(const char *name);
// The names, separated by commas.
const char *import_format_names(char text[256]);
// What the input's first bytes say. Returns NULL with error for none or several.
const struct import_format *import_format_sniff(struct import_input *input, struct ht_error *error);

// The first line of a file's head that is not blank. False if there is none, or no end of it.
bool import_first_line(const char *head, size_t bytes, struct import_text *line);

// A piece that does not parse: passed over and counted, or the end. Returns 0 or -1 with error.
// what: the piece's kind and number, as in "record 7".
int import_reject(struct import *import, uint64_t offset, const char *what, const char *expected,
                  struct ht_error *error);

// Time for progress to be shown, every few thousand calls. False if writing has failed: reading on is in
// vain.
bool import_goes_on(struct import *import);

#endif
