// The knobs of an allocator that were asked for (--alloc NAME:knob=value), how they reach the allocator, and
// whether it heeds them.
#ifndef HEAPTAPE_KNOB_CHOICE_H
#define HEAPTAPE_KNOB_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"
#include "child_figures.h"

enum { HT_KNOB_CHOICES_MAX = 12, HT_KNOB_VARIABLE_BYTES = 512, HT_KNOB_PROBLEM_BYTES = 950 };

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

// Whether the kind has a knob of the name that text, a KNOB=VALUE, begins with.
bool ht_knob_known(const struct ht_allocator *kind, const char *text);

// Adds a KNOB=VALUE. What the environment has already in a variable of several knobs stays, before ours.
// False, with a problem that names what was expected.
bool ht_knob_choices_add(struct ht_knob_choices *choices, const char *text,
                         char problem[HT_KNOB_PROBLEM_BYTES]);

// Whether what the allocator of that version told of its knobs, in the order of its kind's table, is what was
// asked for.
bool ht_knob_choices_heeded(const struct ht_knob_choices *choices, const char *version,
                            const struct ht_knob_report *reports, char problem[HT_KNOB_PROBLEM_BYTES]);

#endif
