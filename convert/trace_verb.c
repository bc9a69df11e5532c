// SPDX-License-Identifier: Apache-2.0
#include "trace_verb.h"

#include "convert_paths.h"
#include "print.h"
#include "talk.h"

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
