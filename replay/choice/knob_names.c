// SPDX-License-Identifier: Apache-2.0
#include "knob_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool ht_knob_is_integer(const struct ht_knob *knob) { return knob->range.lowest < knob->range.highest; }

bool ht_knob_is_had(const struct ht_knob *knob, const char *version, enum ht_knob_state told) {
    if (told != HT_KNOB_UNREPORTED) return told == HT_KNOB_REPORTED;
    return !*version || ht_version_within(version, knob->since, knob->last);
}

static const struct ht_knob_change *next_change(const struct ht_knob *knob,
                                                const struct ht_knob_change *change, const char *version) {
    change = change ? change + 1 : knob->changes;
    if (!change || !change->since) return NULL;
    return !*version || ht_version_within(version, change->since, NULL) ? change : NULL;
}

struct ht_knob_range ht_knob_range_in(const struct ht_knob *knob, const char *version) {
    struct ht_knob_range range = knob->range;
    for (const struct ht_knob_change *at = NULL; (at = next_change(knob, at, version));)
        if (at->range.lowest || at->range.highest) range = at->range;
    return range;
}

const char *ht_knob_standard_in(const struct ht_knob *knob, const char *version) {
    const char *standard = knob->standard;
    for (const struct ht_knob_change *at = NULL; (at = next_change(knob, at, version));)
        if (at->standard) standard = at->standard;
    return standard;
}

const char *ht_knob_variable(const struct ht_allocator *kind, const struct ht_knob *knob,
                             char text[HT_KNOB_NAME_BYTES]) {
    if (!kind->knobs_prefix) return kind->knobs_variable;
    snprintf(text, HT_KNOB_NAME_BYTES, "%s%s", kind->knobs_prefix, knob->name);
    for (char *at = text; *at; at++) *at = (char)toupper((unsigned char)*at);
    return text;
}

const char *ht_knob_full_name(const struct ht_allocator *kind, const struct ht_knob *knob,
                              char text[HT_KNOB_NAME_BYTES]) {
    const char *spelled = knob->spelled ? knob->spelled : knob->name;
    if (kind->knobs_prefix) return ht_knob_variable(kind, knob, text);
    snprintf(text, HT_KNOB_NAME_BYTES, "%.*s%s", (int)strcspn(kind->knobs_format, "%"), kind->knobs_format,
             spelled);
    return text;
}

const struct ht_knob *ht_knob_named(const struct ht_allocator *kind, const char *text) {
    char name[HT_KNOB_NAME_BYTES], full[HT_KNOB_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (const struct ht_knob *knob = kind ? kind->knobs : NULL; knob && knob->name; knob++) {
        if (!strcmp(knob->name, name) || !strcmp(ht_knob_full_name(kind, knob, full), name) ||
            ht_fits_any(knob->also, name))
            return knob;
    }
    return NULL;
}
