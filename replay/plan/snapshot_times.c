// SPDX-License-Identifier: Apache-2.0
#include "snapshot_times.h"

#include <string.h>

#include "option_values.h"

static bool parse_one(const char *text, struct ht_snapshot_times *times) {
    if (!strcmp(text, "peak")) return times->peak = true;
    if (!strcmp(text, "end")) return times->end = true;
    if (!strcmp(text, "jumps")) return times->jumps = true;
    return times->count < HT_SNAPSHOT_TIMES_MAX && ht_parse_duration(text, &times->at_ns[times->count++]);
}

bool ht_snapshot_times_parse(const char *text, struct ht_snapshot_times *times) {
    char copy[256], *rest = copy, *one;
    struct ht_snapshot_times parsed = {0};
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    while ((one = strsep(&rest, ","))) {
        if (!parse_one(one, &parsed)) return false;
    }
    *times = parsed;
    return true;
}
