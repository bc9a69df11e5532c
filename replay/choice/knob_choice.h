// SPDX-License-Identifier: Apache-2.0
// The knobs of an allocator that were asked for (--alloc NAME:knob=value), how they reach the allocator, and
// whether it takes them.
#ifndef HEAPTAPE_KNOB_CHOICE_H
#define HEAPTAPE_KNOB_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"
#include "child_figures.h"
#include "knob_names.h"
#include "recorded_settings.h"

enum {
    HT_KNOB_CHOICES_MAX = 12,
    HT_KNOB_VARIABLES_MAX = HT_KNOB_CHOICES_MAX + HT_SETTINGS_MAX,
    HT_KNOB_VARIABLE_BYTES = 1536,
    HT_KNOB_PROBLEM_BYTES = 1000
};

struct ht_knob_choices {
    const struct ht_allocator *kind;  // NULL: its knobs are not known
    size_t count;
    struct {
        const struct ht_knob *knob;
        char value[HT_KNOB_BYTES];  // as the allocator spells it
    } list[HT_KNOB_CHOICES_MAX];
    size_t settings_count;  // of the recorded program, but for those that a choice changes
    struct ht_setting settings[HT_SETTINGS_MAX];
};

// Variables of the environment, as NAME=value.
struct ht_knob_variables {
    size_t count;
    char list[HT_KNOB_VARIABLES_MAX][HT_KNOB_VARIABLE_BYTES];
};

// The knob that an unknown name probably means, as KIND:KNOB: one of the same kind with a typing error, or
// another kind's.
bool ht_knob_meant(const struct ht_allocator *kind, const char *text, char meant[HT_KNOB_NAME_BYTES]);

// Adds a KNOB=VALUE. False, with a problem that names what was expected.
bool ht_knob_choices_add(struct ht_knob_choices *choices, const char *text,
                         char problem[HT_KNOB_PROBLEM_BYTES]);

// Puts these settings of the recorded program below the knobs that were asked for.
void ht_knob_choices_take(struct ht_knob_choices *choices, const struct ht_recorded_settings *settings);

// What gives an allocator the knobs and settings. whole: with all that the recorded program had in these variables, for the
// program itself; a replay leaves out what it must not have. False: there is no room for them.
bool ht_knob_variables_make(const struct ht_knob_choices *choices, bool whole,
                            struct ht_knob_variables *variables);

// Whether what the allocator of that version reported of its knobs, in the order of its kind's table, is what
// was asked for.
bool ht_knob_choices_heeded(const struct ht_knob_choices *choices, const char *version,
                            const struct ht_knob_report *reports, char problem[HT_KNOB_PROBLEM_BYTES]);

#endif
