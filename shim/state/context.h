// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_CONTEXT_H
#define HEAPTAPE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"
#include "raw_layout.h"
#include "text.h"

// The circumstances of the run as key=value strings, each ended by a zero byte, for the log's header. Returns
// the bytes used; what does not fit is left out.
HIDDEN uint32_t context_write(char *to, size_t room);

// For a string that is added later: the text is behind those in the header, without its zero byte. False: there is no
// room, or another thread is at it. Otherwise it must be ended, with `keep` false if nothing is to be added.
HIDDEN bool context_begin_string(struct ht_raw_header *header, struct text *text);
HIDDEN void context_end_string(struct ht_raw_header *header, const struct text *text, bool keep);
// Adds a name to a value that is a list.
HIDDEN void context_add_name(struct text *text, const char *name);
// Keeps the string if it has a name, and says whether it has.
HIDDEN bool context_end_names(struct ht_raw_header *header, const struct text *text);

#endif
