// SPDX-License-Identifier: Apache-2.0
#include "replay_warnings.h"

#include <stdarg.h>

#include "print.h"

const char *const ht_warning_names[HT_WARNINGS] = {
    "busy",          "steal",           "throttled",      "swap",          "governor",         "turbo",
    "thp",           "few_events",      "short_run",      "lossy_trace",   "dropped",          "harness",
    "few_rounds",    "control",         "budget",         "cycle_counter", "no_repeats",       "known_fault",
    "mostly_unseen", "skipped_queries", "no_cxx_library", "fresh_heap",    "zeroed_by_calloc", "settings",
    "unwatched",     "copying",         "unmeasured",     "unknown_heap",  "swollen_heap"};

void ht_warn(struct ht_warnings *warnings, enum ht_warning_kind kind, const char *remedy, const char *format,
             ...) {
    if (warnings->count == HT_WARNINGS_MAX) return;
    struct ht_warning *warning = &warnings->list[warnings->count++];
    va_list arguments;
    warning->kind = kind;
    va_start(arguments, format);
    vsnprintf(warning->message, sizeof warning->message, format, arguments);
    va_end(arguments);
    snprintf(warning->remedy, sizeof warning->remedy, "%s", remedy);
}

void ht_warnings_print(FILE *out, const struct ht_warnings *warnings, size_t first) {
    for (size_t i = first; i < warnings->count; i++) {
        ht_print(out, "heaptape replay: warning: %s; %s\n", warnings->list[i].message,
                 warnings->list[i].remedy);
    }
}
