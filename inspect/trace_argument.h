// The one argument of the verbs that read a trace.
#ifndef HEAPTAPE_TRACE_ARGUMENT_H
#define HEAPTAPE_TRACE_ARGUMENT_H

#include <argp.h>

// What a parser does with the keys that are no options of its own: exactly one trace must be named.
static inline error_t trace_argument(int key, char *value, struct argp_state *state, const char **trace) {
    switch (key) {
    case ARGP_KEY_ARG:
        if (*trace) argp_error(state, "expected one trace, found another: '%s'", value);
        *trace = value;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "expected TRACE"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

#endif
