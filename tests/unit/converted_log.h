// SPDX-License-Identifier: Apache-2.0
// A raw log converted within a test, and the trace's events in one array.
#ifndef HEAPTAPE_CONVERTED_LOG_H
#define HEAPTAPE_CONVERTED_LOG_H

#include "inheritance.h"

enum { CONVERTED_EVENTS_MAX = 16384 };

struct converted_event {
    uint8_t op;
    uint32_t thread, slot;
    uint64_t time_ns, size;
};

struct converted_log {
    struct merge_totals totals;
    struct converted_event event[CONVERTED_EVENTS_MAX];
    size_t events;
    struct ht_trace_facts facts;
    char warning[INHERITANCE_WARNING_BYTES];
};

// Converts as the verb does. parent_path: as for inheritance_find. Returns 0 or -1 with error.
int converted_open(struct converted_log *converted, const char *raw, const char *parent_path,
                   struct ht_error *error);
void converted_close(struct converted_log *converted);

#endif
