// SPDX-License-Identifier: Apache-2.0
// What is to be said of a trace that heaptape extend has continued, wherever its figures are shown.
#ifndef HEAPTAPE_EXTENDED_WORDS_H
#define HEAPTAPE_EXTENDED_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXTENDED_TIME_BYTES = 32, EXTENDED_LEFT_OUT_BYTES = 128, EXTENDED_WORDS_BYTES = 256 };

// "2.5 s", "3:10", "24:00:00": a time since the trace's start.
const char *extended_time(char text[EXTENDED_TIME_BYTES], uint64_t ns);

// "what was recorded after 3:10 is left out: live bytes reached 81.2 MB there": a peak that is not in the extension. False where there
// is none.
bool extended_left_out(const json_t *extended, char words[EXTENDED_LEFT_OUT_BYTES]);

// "time after 3:10 is extrapolated from 1:00 to 3:00". False where the trace's context (may be NULL) says of no extension.
bool extended_words(const json_t *context, char words[EXTENDED_WORDS_BYTES]);

#endif
