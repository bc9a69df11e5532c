// SPDX-License-Identifier: Apache-2.0
// The options of all versions of mimalloc, which several kinds of the catalogue have in common.
#ifndef HEAPTAPE_MIMALLOC_OPTIONS_H
#define HEAPTAPE_MIMALLOC_OPTIONS_H

#include "allocator.h"

extern const struct ht_knob ht_mimalloc_knobs[];

// By what the library itself lists when it is loaded with MIMALLOC_VERBOSE=1: numbers of options mean
// something else in every version, and a variable that a version does not know is ignored without a word.
enum ht_knob_state ht_mimalloc_read_knob(const struct ht_server *server, const struct ht_knob *knob,
                                         char *text, size_t room);

#endif
