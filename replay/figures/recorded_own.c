// SPDX-License-Identifier: Apache-2.0
#include "recorded_own.h"

#include <stdlib.h>

bool ht_own_memory_take(const struct ht_trace_facts *facts, struct ht_own_memory *own) {
    size_t count = facts->samples_count;
    *own = (struct ht_own_memory){0};
    if (!count) return true;
    own->time_ns = malloc(count * sizeof *own->time_ns);
    own->bytes = malloc(count * sizeof *own->bytes);
    own->heap_bytes = malloc(count * sizeof *own->heap_bytes);
    if (!own->time_ns || !own->bytes || !own->heap_bytes) {
        ht_own_memory_free(own);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        own->time_ns[i] = facts->samples[i].time_ns;
        own->bytes[i] = facts->samples[i].own_rss_bytes;
        own->heap_bytes[i] = ht_sample_heap_bytes(&facts->samples[i]);
    }
    own->count = count;
    return true;
}

void ht_own_memory_free(struct ht_own_memory *own) {
    free(own->time_ns);
    free(own->bytes);
    free(own->heap_bytes);
    *own = (struct ht_own_memory){0};
}

// at: the last sample not behind time_ns, or the first of all.
static uint64_t between(const struct ht_own_memory *own, size_t at, uint64_t time_ns) {
    if (at + 1 == own->count || time_ns <= own->time_ns[at]) return own->bytes[at];
    double span_ns = (double)(own->time_ns[at + 1] - own->time_ns[at]);
    double share = (double)(time_ns - own->time_ns[at]) / span_ns;
    return (uint64_t)((1 - share) * (double)own->bytes[at] + share * (double)own->bytes[at + 1]);
}

uint64_t *ht_own_memory_at(const struct ht_own_memory *own, const struct ht_built_form *built) {
    size_t samples = built->form->samples, at = 0;
    if (!own->count) return NULL;
    uint64_t *bytes = malloc((samples ? samples : 1) * sizeof *bytes);
    for (size_t i = 0; bytes && i < samples; i++) {
        uint64_t time_ns = built->points[i].time_ns;
        while (at + 1 < own->count && own->time_ns[at + 1] <= time_ns) at++;
        bytes[i] = between(own, at, time_ns);
    }
    return bytes;
}
