// SPDX-License-Identifier: Apache-2.0
// Why a recording ended before its process did, in words.
#ifndef HEAPTAPE_STOP_REASON_H
#define HEAPTAPE_STOP_REASON_H

#include <stdbool.h>
#include <stddef.h>

#include "raw_layout.h"

enum { HT_STOP_TEXT_BYTES = 192 };

// The reason that the header gives, in words, or NULL where it gives none: the recording went on to the end.
const char *ht_stop_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES]);

// Ended against the user's will: needs a warning.
bool ht_stopped_early(const struct ht_raw_header *header);

#endif
