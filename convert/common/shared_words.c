// SPDX-License-Identifier: Apache-2.0
#include "shared_words.h"

#include <inttypes.h>
#include <stdio.h>

#include "json_values.h"
#include "talk.h"

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
