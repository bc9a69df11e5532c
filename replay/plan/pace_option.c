// SPDX-License-Identifier: Apache-2.0
#include "pace_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FASTER_MIN = 1e-3, FASTER_MAX = 1e6;

static bool parse_times(const char *text, double *times) {
    char *end;
    // A plain decimal: strtod would also take hexadecimal, infinity and leading space.
    if (!*text || text[strspn(text, "0123456789.")]) return false;
    *times = strtod(text, &end);
    return end != text && !*end && *times >= FASTER_MIN && *times <= FASTER_MAX;
}

static bool parse_one(const char *text, struct ht_pace *pace) {
    double times = 0;
    if (strlen(text) >= sizeof pace->name) return false;
    if (!strcmp(text, "none")) *pace = (struct ht_pace){.virtual_time = false};
    else if (!strcmp(text, "virtual")) *pace = (struct ht_pace){.virtual_time = true};
    else if (!strcmp(text, "real")) *pace = (struct ht_pace){.real_ns_per_trace_ns = 1};
    else if (*text == 'x' && parse_times(text + 1, &times))
        *pace = (struct ht_pace){.virtual_time = true, .real_ns_per_trace_ns = 1 / times};
    else return false;
    strcpy(pace->name, text);
    return true;
}

bool ht_paces_parse(const char *text, struct ht_paces *paces) {
    char copy[128], *rest = copy, *one;
    struct ht_paces parsed = *paces;
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    if (!strchr(copy, '=')) {
        if (!parse_one(copy, &parsed.time)) return false;
        parsed.memory = parsed.time;
    } else {
        while ((one = strsep(&rest, ","))) {
            bool of_time = !strncmp(one, "time=", 5), of_memory = !strncmp(one, "memory=", 7);
            if (of_time ? !parse_one(one + 5, &parsed.time)
                        : !of_memory || !parse_one(one + 7, &parsed.memory)) {
                return false;
            }
        }
    }
    *paces = parsed;
    return true;
}
