// SPDX-License-Identifier: Apache-2.0
// What heaptape share left of sizes and times in a copy for others, and in which words that is shown.
#ifndef HEAPTAPE_SHARED_WORDS_H
#define HEAPTAPE_SHARED_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { SHARED_WORDS_BYTES = 224, SHARED_TIME_BYTES = 32 };

struct coarsening {
    uint64_t size_bits;  // sizes are rounded up to so many significant bits; 0: exact
    uint64_t time_ns;    // times are rounded down to multiples of it; 0: exact
};

// What the trace's context (may be NULL) has of it. False where the trace is no such copy.
bool shared_coarsening(const json_t *context, struct coarsening *coarsening);

// The context's key `shared`.
json_t *shared_json(const struct coarsening *coarsening);

// "32 ns", "1.5 ms".
const char *shared_time(char text[SHARED_TIME_BYTES], uint64_t ns);

// "sizes rounded up to 3 significant bits, times down to 1 ms"; "sizes and times exact".
const char *shared_words(const struct coarsening *coarsening, char words[SHARED_WORDS_BYTES]);

#endif
