// SPDX-License-Identifier: Apache-2.0
// A trace's context says what made the trace something else than a plain recording: that heaptape extend continued it, that
// heaptape share made it coarser, that the program also ran without the recorder. Each is said in the same words wherever
// figures are shown.
#ifndef HEAPTAPE_CONTEXT_WORDS_H
#define HEAPTAPE_CONTEXT_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// ---- continued by heaptape extend ----

enum { EXTENDED_TIME_BYTES = 32, EXTENDED_LEFT_OUT_BYTES = 128, EXTENDED_WORDS_BYTES = 256 };

// "2.5 s", "3:10", "24:00:00": a time since the trace's start.
const char *extended_time(char text[EXTENDED_TIME_BYTES], uint64_t ns);

// "what was recorded after 3:10 is left out: live bytes reached 81.2 MB there": a peak that is not in the extension. False where there
// is none.
bool extended_left_out(const json_t *extended, char words[EXTENDED_LEFT_OUT_BYTES]);

// "time after 3:10 is extrapolated from 1:00 to 3:00". False where the trace's context (may be NULL) says of no extension.
bool extended_words(const json_t *context, char words[EXTENDED_WORDS_BYTES]);

// ---- made coarser by heaptape share ----

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

// ---- run once more without the recorder (record --check) ----

enum { RUN_CHECK_BYTES = 128, RUN_CHECK_WORDS_BYTES = 256 };

// RSS is RssAnon of the process. CPU time is also that of the children that it waited for.
struct run_check {
    uint64_t recorded_rss_peak_bytes, recorded_cpu_ns, alone_rss_peak_bytes, alone_cpu_ns;
};

// As a string of a raw log's context.
void run_check_string(char string[RUN_CHECK_BYTES], const struct run_check *check);

// That string, in the context of a trace, becomes an object.
void run_check_make_object(json_t *context);

// False where the trace has none.
bool run_check_read(const json_t *context, struct run_check *check);

// Are the peaks so far apart that figures of the one say little of the other?
bool run_check_differs(const struct run_check *check);

const char *run_check_words(char words[RUN_CHECK_WORDS_BYTES], const struct run_check *check);

#endif
