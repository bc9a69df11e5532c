// SPDX-License-Identifier: Apache-2.0
// What a program took while it was recorded, beside the same program run once more without the recorder (record --check).
#ifndef HEAPTAPE_RUN_CHECK_H
#define HEAPTAPE_RUN_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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
