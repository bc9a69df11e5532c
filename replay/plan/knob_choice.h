// SPDX-License-Identifier: Apache-2.0
// The knobs of an allocator that were asked for (--alloc NAME:knob=value), how they reach the allocator, and
// whether it takes them.
#ifndef HEAPTAPE_KNOB_CHOICE_H
#define HEAPTAPE_KNOB_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"
#include "child_figures.h"

// What knobs are called: here, in the environment, and in a variable that holds several.
enum { HT_KNOB_NAME_BYTES = 96 };

// The knob whose name text, a KNOB=VALUE, begins with: its own name, or one that the environment has for it.
// NULL: there is none.
const struct ht_knob *ht_knob_named(const struct ht_allocator *kind, const char *text);

// Its range in a version, and its value there when nobody sets it. "": in the latest that is known.
struct ht_knob_range ht_knob_range_in(const struct ht_knob *knob, const char *version);
const char *ht_knob_standard_in(const struct ht_knob *knob, const char *version);

// Whether an allocator of that version ("": not known) that told this state has the knob.
bool ht_knob_is_had(const struct ht_knob *knob, const char *version, enum ht_knob_state told);

// Whether it is a number of a range, not a word or a boolean.
bool ht_knob_is_integer(const struct ht_knob *knob);

// The environment variable that sets it, alone or with others.
const char *ht_knob_variable(const struct ht_allocator *kind, const struct ht_knob *knob,
                             char text[HT_KNOB_NAME_BYTES]);

// As the environment has it: MIMALLOC_PURGE_DELAY, glibc.malloc.arena_max.
const char *ht_knob_full_name(const struct ht_allocator *kind, const struct ht_knob *knob,
                              char text[HT_KNOB_NAME_BYTES]);

// What the environment of the recorded program set of its allocator (MALLOC_CONF, GLIBC_TUNABLES, MIMALLOC_PURGE_DELAY).
// An allocator of that kind is replayed with it: as it was set.
enum {
    HT_SETTINGS_MAX = 40,
    HT_SETTING_NAME_BYTES = 64,
    HT_SETTING_VALUE_BYTES = 192,
    HT_SETTINGS_TEXT_BYTES = 320
};

enum ht_setting_state {
    HT_SETTING_TAKEN,     // the replay has it
    HT_SETTING_LEFT_OUT,  // it has not: not known, for debugging, or no value that the allocator takes
    HT_SETTING_OTHERS     // in the same variable, but nothing of the allocator: glibc.pthread.rseq
};

struct ht_setting {
    enum ht_setting_state state;
    const struct ht_knob *knob;            // NULL: no knob of the catalogue
    char name[HT_SETTING_NAME_BYTES];      // the knob's, or as it was written
    char value[HT_SETTING_VALUE_BYTES];    // as it was written
    char variable[HT_SETTING_NAME_BYTES];  // that holds it
    // Before the value, in a variable of several; empty: the value is all of it.
    char key[HT_SETTING_NAME_BYTES];
};

struct ht_recorded_settings {
    const struct ht_allocator *kind;  // of the allocator that served the program; NULL: not known
    size_t count;
    struct ht_setting list[HT_SETTINGS_MAX];
};

// Adds those of a variable of the recorded program's environment, if its allocator reads it. linked: that one is part of
// the program, and may read MALLOC_CONF by another name (_RJEM_MALLOC_CONF).
void ht_recorded_settings_add(struct ht_recorded_settings *settings, const char *variable, const char *value,
                              bool linked);

// Those in this state as one text, such as arena_max=1,tcache_count=0. What does not fit is left out.
const char *ht_settings_text(const struct ht_setting *list, size_t count, enum ht_setting_state state,
                             char text[HT_SETTINGS_TEXT_BYTES]);

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
