// SPDX-License-Identifier: Apache-2.0
#include "replay_warnings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "print.h"
#include "talk.h"

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

// The next fault of alignments that the choice's version has; from NULL: the first. NULL: there is none.
static const struct ht_fault *next_fault(const struct ht_choice *choice, const struct ht_fault *fault) {
    if (!choice->kind || !choice->kind->faults || !choice->version[0]) return NULL;
    fault = fault ? fault + 1 : choice->kind->faults;
    for (; fault->help; fault++) {
        if (fault->alignment_highest && ht_version_within(choice->version, fault->since, fault->last)) {
            return fault;
        }
    }
    return NULL;
}

struct ht_known_alignments ht_known_alignments_of(const struct ht_choice *choice) {
    const struct ht_fault *fault = next_fault(choice, NULL);
    struct ht_known_alignments known = {0};
    if (!fault) return known;
    known = (struct ht_known_alignments){fault->alignment_lowest, fault->alignment_highest};
    // Several ranges of one version would be reported as one that holds them all.
    while ((fault = next_fault(choice, fault))) {
        if (fault->alignment_lowest < known.lowest) known.lowest = fault->alignment_lowest;
        if (fault->alignment_highest > known.highest) known.highest = fault->alignment_highest;
    }
    return known;
}

void ht_known_faults_add(json_t *run, const struct ht_choice *choice, uint64_t known_failures) {
    json_t *list = json_array();
    const struct ht_fault *fault = NULL;
    while (known_failures && (fault = next_fault(choice, fault))) {
        json_array_append_new(list, json_string(fault->help));
    }
    json_object_set_new(run, "known_failures", json_integer((json_int_t)known_failures));
    json_object_set_new(run, "known_faults", list);
}

static bool is_reported(const struct ht_warnings *warnings, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < warnings->count; i++) {
        const struct ht_warning *warning = &warnings->list[i];
        if (warning->kind != HT_WARNING_KNOWN_FAULT || strncmp(warning->message, name, length)) continue;
        if (warning->message[length] == ':') return true;
    }
    return false;
}

void ht_known_faults_warn(struct ht_warnings *warnings, const struct ht_choice *choice,
                          uint64_t known_failures) {
    const struct ht_fault *fault = NULL;
    char text[HT_NUMBER_OF_BYTES];
    if (!known_failures || is_reported(warnings, choice->name)) return;
    while ((fault = next_fault(choice, fault))) {
        ht_warn(warnings, HT_WARNING_KNOWN_FAULT, "a known fault of this version; the run counts",
                "%s: %s failed: %s", choice->name, ht_number_of(text, known_failures, "call"), fault->help);
    }
}
