// SPDX-License-Identifier: Apache-2.0
#include "call_times.h"

#include <stdio.h>
#include <stdlib.h>

// ---- idle ends ----

static const uint64_t second_ns = 1000000000, millisecond_ns = 1000000;
enum { SHARE_OF_CALLS = 100, SHARE_OF_TIME = 10 };

// When the event of that number was.
static bool time_of(struct ht_trace_reader *reader, uint64_t event, uint64_t *time_ns) {
    struct ht_error error;
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        const struct ht_section_place *place = ht_trace_section(reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS || event < place->first_event ||
            event - place->first_event >= place->rows)
            continue;
        if (ht_trace_events(reader, i, &events, &error)) return false;
        *time_ns = events.time_ns[event - place->first_event];
        return true;
    }
    return false;
}

static bool is_long(uint64_t idle_ns, uint64_t end_ns) {
    return idle_ns > second_ns && idle_ns > end_ns / SHARE_OF_TIME;
}

bool ht_idle_ends(struct ht_trace_reader *reader, const char *path, uint64_t end_ns,
                  char words[HT_IDLE_ENDS_BYTES]) {
    uint64_t count = ht_trace_records(reader), begin_ns = 0, last_ns = end_ns;
    if (!count || !time_of(reader, count / SHARE_OF_CALLS, &begin_ns) ||
        !time_of(reader, count - 1 - count / SHARE_OF_CALLS, &last_ns) || last_ns > end_ns)
        return false;
    bool first = is_long(begin_ns, end_ns), last = is_long(end_ns - last_ns, end_ns);
    char idle[80], from[48] = "", to[48] = "";
    double begin_s = (double)begin_ns / 1e9, rest_s = (double)(end_ns - last_ns) / 1e9;
    if (first && last) snprintf(idle, sizeof idle, "first %.1f s and the last %.1f s", begin_s, rest_s);
    else snprintf(idle, sizeof idle, "%s %.1f s", first ? "first" : "last", first ? begin_s : rest_s);
    uint64_t from_ms = begin_ns / millisecond_ns, to_ms = last_ns / millisecond_ns + 1;
    // To the millisecond, so that no call of the busy time is lost.
    if (first) snprintf(from, sizeof from, " --from-time %.3fs", (double)from_ms / 1e3);
    if (last) snprintf(to, sizeof to, " --to-time %.3fs", (double)to_ms / 1e3);
    snprintf(words, HT_IDLE_ENDS_BYTES,
             "the %s of %.1f s have hardly any calls; without them: heaptape slice %s -o busy.bin%s%s", idle,
             (double)end_ns / 1e9, path, from, to);
    return first || last;
}

// ---- between two calls ----

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
