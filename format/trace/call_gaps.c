// SPDX-License-Identifier: Apache-2.0
#include "call_gaps.h"

#include <stdlib.h>

enum { BINS = 1 << 21, BIN_NS_MIN = 32 };  // 67 ms and more in all; the last holds what is longer

struct gaps {
    uint64_t *last_ns;  // by thread: of its last call, + 1; 0: none yet
    size_t threads;
    uint64_t unit_ns, bin_ns, count, of[BINS];
};

static bool room_for(struct gaps *gaps, uint32_t thread) {
    if (thread < gaps->threads) return true;
    size_t threads = 2 * ((size_t)thread + 1);
    uint64_t *grown = realloc(gaps->last_ns, threads * sizeof *grown);
    if (!grown) return false;
    for (size_t i = gaps->threads; i < threads; i++) grown[i] = 0;
    gaps->last_ns = grown;
    gaps->threads = threads;
    return true;
}

// Returns 0, or -1 with an error: of no memory, or of a thread so high that no memory would do.
static int add(struct gaps *gaps, struct ht_trace_reader *reader, const struct ht_section_place *place,
               const struct ht_events *events, struct ht_error *error) {
    uint64_t last_event = events->first_event + events->rows - 1;
    for (uint32_t i = 0; i < events->rows; i++) {
        uint32_t thread = events->thread[i];
        if (!ht_thread_is_due(thread, last_event))
            return ht_error_input(error, ht_trace_path(reader), place->offset, "%s",
                                  ht_found("expected thread numbers without a gap", thread));
        if (!room_for(gaps, thread))
            return ht_error_memory(error, ht_trace_path(reader), "cannot follow its threads");
        uint64_t *last_ns = &gaps->last_ns[thread], time_ns = events->time_ns[i];
        if (*last_ns) {
            uint64_t bin = (time_ns - (*last_ns - 1)) / gaps->bin_ns;
            gaps->of[bin < BINS ? bin : BINS - 1]++;
            gaps->count++;
        }
        *last_ns = time_ns + 1;
    }
    return 0;
}

// A bin is as long as many a gap: those in it count as evenly spread. Where it is the trace's unit, to which times are cut,
// gaps of n units were about n - 1/2 to n + 1/2 long.
static double median(const struct gaps *gaps) {
    uint64_t before = 0, bin = 0;
    if (!gaps->count) return 0;
    while (2 * (before + gaps->of[bin]) < gaps->count) before += gaps->of[bin++];
    double within = ((double)gaps->count / 2 - (double)before) / (double)gaps->of[bin];
    double middle = (double)bin + within - (gaps->bin_ns == gaps->unit_ns ? 0.5 : 0);
    return (middle > 0 ? middle : 0) * (double)gaps->bin_ns;
}

int ht_median_gap_ns(struct ht_trace_reader *reader, double *gap_ns, struct ht_error *error) {
    struct gaps *gaps = calloc(1, sizeof *gaps);
    int failed = gaps ? 0 : ht_error_memory(error, ht_trace_path(reader), "cannot follow its times");
    if (gaps) {
        gaps->unit_ns = ht_trace_time_unit_ns(reader);
        gaps->bin_ns = gaps->unit_ns > BIN_NS_MIN ? gaps->unit_ns : BIN_NS_MIN;
    }
    for (size_t i = 0; !failed && i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        const struct ht_section_place *place = ht_trace_section(reader, i);
        if (place->kind != HT_SECTION_EVENTS) continue;
        failed = ht_trace_events(reader, i, &events, error);
        if (!failed) failed = add(gaps, reader, place, &events, error);
    }
    if (!failed) *gap_ns = median(gaps);
    if (gaps) free(gaps->last_ns);
    free(gaps);
    return failed;
}
