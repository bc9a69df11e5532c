// SPDX-License-Identifier: Apache-2.0
// The knobs of an allocator that were asked for (--alloc NAME:knob=value), how they reach the allocator, and
// whether it takes them.
#ifndef HEAPTAPE_KNOB_CHOICE_H
#define HEAPTAPE_KNOB_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"
#include "child_figures.h"

enum {
    HT_KNOB_CHOICES_MAX = 12,
    HT_KNOB_VARIABLE_BYTES = 512,
    HT_KNOB_PROBLEM_BYTES = 1000,
    HT_KNOB_NAME_BYTES = 96
};

struct ht_knob_choices {
    const struct ht_allocator *kind;  // NULL: its knobs are not known
    size_t count;
    struct {
        const struct ht_knob *knob;
        char value[HT_KNOB_BYTES];  // as the allocator spells it
    } list[HT_KNOB_CHOICES_MAX];
    size_t variables_count;
    char variables[HT_KNOB_CHOICES_MAX][HT_KNOB_VARIABLE_BYTES];  // of the environment, as NAME=value
};

// The knob whose name text, a KNOB=VALUE, begins with: its own name, or one that the environment has for it.
// NULL: there is none.
const struct ht_knob *ht_knob_named(const struct ht_allocator *kind, const char *text);

// Whether it is a number of a range, not a word or a boolean.
bool ht_knob_is_integer(const struct ht_knob *knob);

// The environment variable that sets it, alone or with others.
const char *ht_knob_variable(const struct ht_allocator *kind, const struct ht_knob *knob,
                             char text[HT_KNOB_NAME_BYTES]);

// As the environment has it: MIMALLOC_PURGE_DELAY, glibc.malloc.arena_max.
const char *ht_knob_full_name(const struct ht_allocator *kind, const struct ht_knob *knob,
                              char text[HT_KNOB_NAME_BYTES]);

// The knob that an unknown name probably means, as KIND:KNOB: one of the same kind with a typing error, or
// another kind's.
bool ht_knob_meant(const struct ht_allocator *kind, const char *text, char meant[HT_KNOB_NAME_BYTES]);

// Adds a KNOB=VALUE. What the environment has already in a variable of several knobs stays, before ours.
// False, with a problem that names what was expected.
bool ht_knob_choices_add(struct ht_knob_choices *choices, const char *text,
                         char problem[HT_KNOB_PROBLEM_BYTES]);

// Whether what the allocator of that version reported of its knobs, in the order of its kind's table, is what
// was asked for.
bool ht_knob_choices_heeded(const struct ht_knob_choices *choices, const char *version,
                            const struct ht_knob_report *reports, char problem[HT_KNOB_PROBLEM_BYTES]);

#endif
