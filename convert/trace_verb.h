// SPDX-License-Identifier: Apache-2.0
// What the verbs that read one trace have in common.
#ifndef HEAPTAPE_TRACE_VERB_H
#define HEAPTAPE_TRACE_VERB_H

#include <argp.h>
#include <stdbool.h>

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

#endif
