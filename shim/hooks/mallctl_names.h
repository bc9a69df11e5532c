// SPDX-License-Identifier: Apache-2.0
// What a call of jemalloc's mallctl does, by the name that it is given.
#ifndef HEAPTAPE_MALLCTL_NAMES_H
#define HEAPTAPE_MALLCTL_NAMES_H

#include "attributes.h"
#include "control_calls.h"

// The names by which something can be changed, those of arenas with arena 0; and how many numbers stand for one at most.
enum { WRAP_MALLCTL_NAMES = 8, WRAP_MALLCTL_WORDS = 3 };
HIDDEN const char *wrap_mallctl_name(unsigned number);
HIDDEN bool wrap_mallctl_has_arena(unsigned number);

// One that changes something, or else HT_CTL_MALLCTL with the name. value: the new one, NULL where none is passed.
HIDDEN struct ht_control_call wrap_mallctl_call(const char *text, const void *value, size_t bytes);

#endif
