// SPDX-License-Identifier: Apache-2.0
#include "trace_range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"

enum { FROM_TIME = 512, TO_TIME, FROM_EVENT, TO_EVENT, THREADS };

static const struct argp_option option_table[] = {
    {"from-time", FROM_TIME, "TIME", 0,
     "Begin at TIME since the trace's start, such as 1.5s or 250ms (default: 0)", 0},
    {"to-time", TO_TIME, "TIME", 0, "End before TIME (default: the trace's end)", 0},
    {"from-event", FROM_EVENT, "N", 0, "Begin at event number N, as dump numbers them (default: 0)", 0},
    {"to-event", TO_EVENT, "N", 0, "End before event number N (default: the trace's end)", 0},
    {"threads", THREADS, "LIST", 0, "Take only the calls of these threads, such as 0,3-5 (default: all)", 0},
    {0}};

static uint64_t parse_time(const char *option, const char *text, struct argp_state *state) {
    uint64_t ns;
    if (ht_parse_duration(text, &ns)) return ns;
    argp_error(state, "%s %s: expected a time such as 250ms or 1.5s", option, text);
    return 0;
}

static uint64_t parse_event(const char *option, const char *text, struct argp_state *state) {
    uint64_t value;
    if (!ht_parse_whole(text, 0, UINT64_MAX, &value))
        argp_error(state, "%s %s: expected an event's number", option, text);
    return value;
}

// The next of a list like 0,3-5. Returns what follows it, or NULL if this is no such list.
static const char *next_span(const char *text, uint32_t *first, uint32_t *last) {
    char *end;
    if (*text < '0' || *text > '9') return NULL;
    unsigned long low = strtoul(text, &end, 10), high = low;
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return NULL;
        high = strtoul(end + 1, &end, 10);
    }
    if (low > high || high >= HT_THREADS_MAX || (*end && (*end != ',' || !end[1]))) return NULL;
    *first = (uint32_t)low;
    *last = (uint32_t)high;
    return *end ? end + 1 : end;
}

static void check_threads(const char *text, struct argp_state *state) {
    uint32_t first, last;
    const char *at = text;
    do at = next_span(at, &first, &last);
    while (at && *at);
    if (!at) argp_error(state, "--threads %s: expected numbers and spans such as 0,3-5", text);
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct trace_range *range = state->input;
    switch (key) {
    case ARGP_KEY_INIT: *range = (struct trace_range){.to_event = UINT64_MAX, .to_ns = UINT64_MAX}; return 0;
    case FROM_TIME: range->from_ns = parse_time("--from-time", value, state); return 0;
    case TO_TIME: range->to_ns = parse_time("--to-time", value, state); return 0;
    case FROM_EVENT: range->from_event = parse_event("--from-event", value, state); return 0;
    case TO_EVENT: range->to_event = parse_event("--to-event", value, state); return 0;
    case THREADS:
        check_threads(value, state);
        range->threads = value;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (range->from_event >= range->to_event || range->from_ns >= range->to_ns)
            argp_error(state, "expected a range that begins before it ends");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp trace_range_argp = {option_table, parse_option, NULL, NULL, NULL, NULL, NULL};

int trace_range_no_thread(uint32_t thread, uint32_t threads_count, const char *path, struct ht_error *error) {
    errno = 0;
    return ht_error_system(error, path, "there is no thread %" PRIu32 ": the trace has %" PRIu32, thread,
                           threads_count);
}

int trace_range_know_threads(struct trace_range *range, uint32_t threads_count, const char *path,
                             struct ht_error *error) {
    if (!range->threads) return 0;
    range->wanted = calloc((size_t)threads_count + 1, sizeof *range->wanted);
    range->wanted_count = threads_count;
    if (!range->wanted) return ht_error_memory(error, path, "cannot choose threads");
    uint32_t first, last;
    const char *at = range->threads;
    while (*at && (at = next_span(at, &first, &last))) {
        if (last >= threads_count) return trace_range_no_thread(last, threads_count, path, error);
        for (uint32_t thread = first; thread <= last; thread++) range->wanted[thread] = true;
    }
    return 0;
}

void trace_range_free(struct trace_range *range) { free(range->wanted); }

bool trace_range_section_over(const struct trace_range *range, const struct ht_trace_reader *reader,
                              size_t i) {
    const struct ht_section_place *place = ht_trace_section(reader, i);
    return trace_range_over(range, place->first_event, place->first_time * ht_trace_time_unit_ns(reader));
}

bool trace_range_section_before(const struct trace_range *range, const struct ht_trace_reader *reader,
                                size_t i) {
    const struct ht_section_place *place = ht_trace_section(reader, i);
    if (range->from_event && place->first_event + place->rows <= range->from_event) return true;
    // The events of a section are no later than the first of the next one.
    while (++i < ht_trace_sections(reader)) {
        place = ht_trace_section(reader, i);
        if (place->kind == HT_SECTION_EVENTS)
            return place->first_time * ht_trace_time_unit_ns(reader) < range->from_ns;
    }
    return false;
}
