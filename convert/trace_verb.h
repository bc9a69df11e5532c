// SPDX-License-Identifier: Apache-2.0
// What the verbs that read or write traces have in common: their argument, and the paths that they write to.
#ifndef HEAPTAPE_TRACE_VERB_H
#define HEAPTAPE_TRACE_VERB_H

#include <argp.h>
#include <stdbool.h>

#include "convert_request.h"
#include "trace_reader.h"

// What a parser does with the keys that are no options of its own: exactly one trace must be named.
error_t trace_argument(int key, char *value, struct argp_state *state, const char **trace);

// Would the verb's output overwrite the trace, or a raw log? Then that has been printed, and the exit status is HT_EXIT_USAGE.
bool trace_output_refused(const char *verb, const char *output, const char *trace);

// Runs a verb on its trace; *whole is true, and to be set to false where `show` does not get to the trace's end. Of a
// trace that is cut short it then says so. show returns 0 or -1 with error. Returns the exit status.
int trace_verb(const char *verb, const char *trace,
               int (*show)(struct ht_trace_reader *reader, void *options, bool *whole,
                           struct ht_error *error),
               void *options);

// ---- the traces' names, and what must not be overwritten ----

#define CONVERT_TRACE_ENDING ".bin"

// Does the path name a folder, or does it end like one?
bool convert_is_folder(const char *path);

// Is it a regular file that begins like a raw log; like a trace? "-" is none.
bool convert_is_raw_log(const char *path);
bool convert_is_trace(const char *path);

// The output's path for one input: `wanted` itself, or a name in the folder `wanted`, or beside the input
// where that is NULL (then the name's known endings make room for `ending`, .bin for a trace). To be freed;
// NULL for want of memory.
char *convert_output_path(const char *input, const char *wanted, const char *ending);

// What is wrong with writing `output`, given all inputs; NULL if nothing. `own` is the input that it is made
// of.
const char *convert_overwrites(const char *output, const char *own, char *const *inputs, unsigned count);

#endif
