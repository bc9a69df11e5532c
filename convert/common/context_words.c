// SPDX-License-Identifier: Apache-2.0
#include "context_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "heap_share.h"
#include "json_values.h"
#include "talk.h"

// ---- continued by heaptape extend ----

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

// ---- made coarser by heaptape share ----

static uint64_t number(const json_t *shared, const char *key, uint64_t most) {
    json_int_t value = json_integer_value(json_object_get(shared, key));
    return value > 0 && (uint64_t)value <= most ? (uint64_t)value : 0;
}

bool shared_coarsening(const json_t *context, struct coarsening *coarsening) {
    const json_t *shared = json_object_get(context, "shared");
    *coarsening = (struct coarsening){number(shared, "size_bits", 63), number(shared, "time_ns", INT64_MAX)};
    return json_is_object(shared);
}

json_t *shared_json(const struct coarsening *coarsening) {
    json_t *shared = json_object();
    if (coarsening->size_bits) json_set_number(shared, "size_bits", coarsening->size_bits);
    if (coarsening->time_ns) json_set_number(shared, "time_ns", coarsening->time_ns);
    return shared;
}

const char *shared_time(char text[SHARED_TIME_BYTES], uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;
    double value = (double)ns;
    for (; unit < 3 && value >= 1000; unit++) value /= 1000;
    snprintf(text, SHARED_TIME_BYTES, "%.9g %s", value, units[unit]);
    return text;
}

const char *shared_words(const struct coarsening *coarsening, char words[SHARED_WORDS_BYTES]) {
    char count[HT_NUMBER_OF_BYTES], sizes[128] = "sizes exact", times[64] = "times exact",
                                    step[SHARED_TIME_BYTES];
    uint64_t bits = coarsening->size_bits, ns = coarsening->time_ns;
    if (bits)
        snprintf(sizes, sizeof sizes, "sizes rounded up to %s", ht_number_of(count, bits, "significant bit"));
    if (ns) snprintf(times, sizeof times, "times rounded down to %s", shared_time(step, ns));
    snprintf(words, SHARED_WORDS_BYTES, "%s, %s", sizes, times);
    return words;
}

// ---- run once more without the recorder ----

static const struct {
    const char *key;
    size_t at;
} figures[] = {{"recorded_rss_peak_bytes", offsetof(struct run_check, recorded_rss_peak_bytes)},
               {"recorded_cpu_ns", offsetof(struct run_check, recorded_cpu_ns)},
               {"alone_rss_peak_bytes", offsetof(struct run_check, alone_rss_peak_bytes)},
               {"alone_cpu_ns", offsetof(struct run_check, alone_cpu_ns)}};
enum { FIGURES = sizeof figures / sizeof *figures };

void run_check_string(char string[RUN_CHECK_BYTES], const struct run_check *check) {
    snprintf(string, RUN_CHECK_BYTES, "check=%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
             check->recorded_rss_peak_bytes, check->recorded_cpu_ns, check->alone_rss_peak_bytes,
             check->alone_cpu_ns);
}

void run_check_make_object(json_t *context) {
    const char *string = json_string_value(json_object_get(context, "check"));
    uint64_t value[FIGURES];
    if (!string) return;
    int read = sscanf(string, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &value[0], &value[1], &value[2],
                      &value[3]);
    json_object_del(context, "check");
    if (read != FIGURES) return;
    json_t *object = json_object();
    for (size_t i = 0; i < FIGURES; i++) json_set_number(object, figures[i].key, value[i]);
    json_object_set_new(context, "check", object);
}

bool run_check_read(const json_t *context, struct run_check *check) {
    const json_t *object = json_object_get(context, "check");
    for (size_t i = 0; i < FIGURES; i++) {
        const json_t *number = json_object_get(object, figures[i].key);
        if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
        uint64_t value = (uint64_t)json_integer_value(number);
        memcpy((char *)check + figures[i].at, &value, sizeof value);
    }
    return true;
}

bool run_check_differs(const struct run_check *check) {
    double recorded = (double)check->recorded_rss_peak_bytes, alone = (double)check->alone_rss_peak_bytes;
    return ht_memory_differs((recorded - alone) / alone, recorded - alone);
}

const char *run_check_words(char words[RUN_CHECK_WORDS_BYTES], const struct run_check *check) {
    char recorded[32], alone[32], recorded_cpu[32], alone_cpu[32];
    snprintf(words, RUN_CHECK_WORDS_BYTES, "recorded %s and %s s, alone %s and %s s (peak RSS, CPU)",
             ht_bytes(recorded, (double)check->recorded_rss_peak_bytes),
             ht_figures(recorded_cpu, (double)check->recorded_cpu_ns / 1e9, 2),
             ht_bytes(alone, (double)check->alone_rss_peak_bytes),
             ht_figures(alone_cpu, (double)check->alone_cpu_ns / 1e9, 2));
    return words;
}
