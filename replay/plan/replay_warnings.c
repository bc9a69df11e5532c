// SPDX-License-Identifier: Apache-2.0
#include "replay_warnings.h"

#include <stdarg.h>

#include "print.h"

const char *const ht_warning_names[HT_WARNINGS] = {
    [HT_WARNING_CYCLE_COUNTER] = "cycle_counter", [HT_WARNING_KNOWN_FAULT] = "known_fault",
    [HT_WARNING_MOSTLY_UNSEEN] = "mostly_unseen", [HT_WARNING_SETTINGS] = "settings",
    [HT_WARNING_UNKNOWN_HEAP] = "unknown_heap",   [HT_WARNING_SWOLLEN_HEAP] = "swollen_heap"};

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
