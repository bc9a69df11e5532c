// SPDX-License-Identifier: Apache-2.0
#include "run_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "heap_share.h"
#include "json_values.h"
#include "talk.h"

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
