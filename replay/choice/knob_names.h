// SPDX-License-Identifier: Apache-2.0
// What knobs are called: here, in the environment, and in a variable that holds several.
#ifndef HEAPTAPE_KNOB_NAMES_H
#define HEAPTAPE_KNOB_NAMES_H

#include <stdbool.h>

#include "allocator.h"

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

#endif
