// SPDX-License-Identifier: Apache-2.0
#include "extended_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "talk.h"

const char *extended_time(char text[EXTENDED_TIME_BYTES], uint64_t ns) {
    uint64_t tenths = ns / 100000000, seconds = tenths / 10, minutes = seconds / 60;
    if (seconds < 60) snprintf(text, EXTENDED_TIME_BYTES, "%.3g s", (double)ns / 1e9);
    else if (minutes < 60 && tenths % 10)
        snprintf(text, EXTENDED_TIME_BYTES, "%" PRIu64 ":%02" PRIu64 ".%" PRIu64, minutes, seconds % 60,
                 tenths % 10);
    else if (minutes < 60)
        snprintf(text, EXTENDED_TIME_BYTES, "%" PRIu64 ":%02" PRIu64, minutes, seconds % 60);
    else
        snprintf(text, EXTENDED_TIME_BYTES, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, minutes / 60,
                 minutes % 60, seconds % 60);
    return text;
}

static bool time_of(const json_t *extended, const char *key, char text[EXTENDED_TIME_BYTES]) {
    const json_t *value = json_object_get(extended, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    extended_time(text, (uint64_t)json_integer_value(value));
    return true;
}

// A growth may go on in several ways.
static void add_doubt(const json_t *extended, char words[EXTENDED_WORDS_BYTES]) {
    double low = json_number_value(json_object_get(extended, "live_to_low_bytes")),
           high = json_number_value(json_object_get(extended, "live_to_high_bytes"));
    char least[32], most[32];
    size_t used = strlen(words);
    if (json_is_true(json_object_get(extended, "grows")) && high > low)
        snprintf(words + used, EXTENDED_WORDS_BYTES - used, "; live bytes at its end: %s to %s MB",
                 ht_figures(least, low / 1e6, 3), ht_figures(most, high / 1e6, 3));
}

bool extended_left_out(const json_t *extended, char words[EXTENDED_LEFT_OUT_BYTES]) {
    double left_out = json_number_value(json_object_get(extended, "left_out_live_peak_bytes"));
    char until[EXTENDED_TIME_BYTES], peak[32];
    if (!(left_out > 0) || !time_of(extended, "until_ns", until)) return false;
    snprintf(words, EXTENDED_LEFT_OUT_BYTES,
             "what was recorded after %s is left out: live bytes reached %s MB there", until,
             ht_figures(peak, left_out / 1e6, 3));
    return true;
}

static void add_left_out(const json_t *extended, char words[EXTENDED_WORDS_BYTES]) {
    char left_out[EXTENDED_LEFT_OUT_BYTES];
    size_t used = strlen(words);
    if (extended_left_out(extended, left_out))
        snprintf(words + used, EXTENDED_WORDS_BYTES - used, "; %s", left_out);
}

bool extended_words(const json_t *context, char words[EXTENDED_WORDS_BYTES]) {
    const json_t *extended = json_object_get(context, "extended");
    char from[EXTENDED_TIME_BYTES], until[EXTENDED_TIME_BYTES];
    if (!json_is_object(extended)) return false;
    // A slice's times begin anew.
    bool sliced = json_is_true(json_object_get(json_object_get(context, "sliced_from"), "of_extension"));
    const char *cut = sliced ? "cut from an extension: there " : "";
    if (time_of(extended, "from_ns", from) && time_of(extended, "until_ns", until))
        snprintf(words, EXTENDED_WORDS_BYTES, "%stime after %s is extrapolated from %s to %s", cut, until,
                 from, until);
    else snprintf(words, EXTENDED_WORDS_BYTES, "a part of its time is extrapolated");
    add_doubt(extended, words);
    add_left_out(extended, words);
    return true;
}
