// SPDX-License-Identifier: Apache-2.0
#include "sample_line.h"

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// A program that has used more CPU time than this before its first call, and has not run on many threads
// since, ran before its recording began. Starting up takes less.
static const uint64_t START_CPU_NS = 5000000;

void sample_line_count(struct merge_totals *totals, const struct ht_sample *sample) {
    uint64_t rss = sample->rss_anon_bytes, own = sample->own_rss_bytes, heap = rss > own ? rss - own : 0;
    bool late =
        totals->began_late || totals->inherited_objects || sample->cpu_ns > sample->time_ns + START_CPU_NS;
    if (totals->samples++ == 0 && late) totals->heap_rss_first_bytes = heap;
    totals->rss_peak_bytes = larger(totals->rss_peak_bytes, rss);
    totals->own_peak_bytes = larger(totals->own_peak_bytes, own);
    totals->heap_rss_peak_bytes = larger(totals->heap_rss_peak_bytes, heap);
    totals->cpu_ns = larger(totals->cpu_ns, sample->cpu_ns);
}

static void write_sample(struct sample_line *line, struct ht_sample sample) {
    if (sample.own_rss_bytes > sample.rss_anon_bytes) sample.own_rss_bytes = sample.rss_anon_bytes;
    if (line->writer) ht_trace_put_sample(line->writer, &sample);
    sample_line_count(line->totals, &sample);
}

// How far from the last measurement to this one a sample between them is. What moved RssAnon mostly moved the
// program's own memory where the two went the same way: then RssAnon gives the moment; else only time does.
static double progress(const struct ht_sample *from, const struct ht_sample *to, const struct ht_sample *at) {
    double own = (double)to->own_rss_bytes - (double)from->own_rss_bytes;
    double anon = (double)to->rss_anon_bytes - (double)from->rss_anon_bytes;
    if (own * anon > 0 && 2 * anon * anon > own * own) {
        double share = ((double)at->rss_anon_bytes - (double)from->rss_anon_bytes) / anon;
        return share < 0 ? 0 : share > 1 ? 1 : share;
    }
    return (double)(at->time_ns - from->time_ns) / (double)(to->time_ns - from->time_ns);
}

// How far RssAnon lies beyond what it was at both measurements: of a sample that no call of the malloc family
// parts from one of them, that is the program's own. Of several threads one may be in a call of free, which is recorded
// before the memory goes: then no call may lie between all three.
static double beyond(const struct ht_sample *from, const struct ht_sample *to, const struct ht_sample *at,
                     bool many_threads) {
    uint64_t a = from->rss_anon_bytes, b = to->rss_anon_bytes, low = a < b ? a : b, high = a < b ? b : a;
    if (at->event != from->event && at->event != to->event) return 0;
    if (many_threads && from->event != to->event) return 0;
    if (at->rss_anon_bytes > high) return (double)(at->rss_anon_bytes - high);
    return at->rss_anon_bytes < low ? -(double)(low - at->rss_anon_bytes) : 0;
}

static double heap_bytes(const struct ht_sample *sample) {
    return (double)sample->rss_anon_bytes - (double)sample->own_rss_bytes;
}

// What the heap can have been.
struct bounds {
    double low, high;
};

// By the calls since a measurement. Blocks that lived then may have been filled later, such as the one whose allocation
// was the occasion for it, and new ones take what they were asked for and what allocators add to it. What of the heap was
// no block may go with any call.
static struct bounds bounds_since(const struct line_sample *from, const struct line_sample *at) {
    enum { ADDED_SHARE = 4, ADDED_TO_A_CALL_BYTES = 32 };
    double heap = heap_bytes(&from->sample), live = (double)from->live_bytes;
    double allocated = (double)(at->allocated_bytes - from->allocated_bytes);
    double freed = allocated + live - (double)at->live_bytes;
    double filled = (double)(at->allocated_bytes - from->filled_bytes);
    double calls = (double)(at->sample.event - from->sample.event);
    double added = filled / ADDED_SHARE + ADDED_TO_A_CALL_BYTES * calls;
    return (struct bounds){.low = calls > 0 ? (heap < live ? heap : live) - freed : heap,
                           .high = (heap > live ? heap : live) + filled + added};
}

// What the heap had changed by at the next measurement is more at times, as of an allocator that leaves gaps: then it may
// have been as much in between.
static struct bounds bounds_between(const struct line_sample *from, const struct line_sample *to,
                                    const struct line_sample *at) {
    struct bounds found = bounds_since(from, at), then = bounds_since(from, to);
    double heap = heap_bytes(&to->sample);
    if (heap < then.low) found.low -= then.low - heap;
    if (heap > then.high) found.high += heap - then.high;
    return found;
}

static void keep_within(struct ht_sample *sample, double own, struct bounds heap) {
    double rss = (double)sample->rss_anon_bytes;
    if (own > rss - heap.low) own = rss - heap.low;
    if (own < rss - heap.high) own = rss - heap.high;
    sample->own_rss_bytes = own > 0 ? (uint64_t)own : 0;
}

static void write_held(struct sample_line *line) {
    for (size_t i = 0; i < line->held_count; i++) write_sample(line, line->held[i].sample);
    line->held_count = 0;
}

void sample_line_end(struct sample_line *line) {
    for (size_t i = 0; i < line->held_count && line->any_fresh; i++) {
        struct line_sample *held = &line->held[i];
        keep_within(&held->sample, (double)held->sample.own_rss_bytes, bounds_since(&line->last_fresh, held));
    }
    write_held(line);
}

void sample_line_put(struct sample_line *line, const struct line_sample *put) {
    const struct ht_sample *sample = &put->sample, *last = &line->last_fresh.sample;
    uint64_t filled_bytes = line->allocated_bytes;
    line->allocated_bytes = put->allocated_bytes;
    if (!sample->own_fresh) {
        if (line->held_count == SAMPLES_HELD_MAX) sample_line_end(line);
        line->held[line->held_count++] = *put;
        return;
    }
    double rise = (double)sample->own_rss_bytes - (double)last->own_rss_bytes;
    bool between = line->any_fresh && sample->time_ns > last->time_ns;
    for (size_t i = 0; i < line->held_count && between; i++) {
        struct line_sample *held = &line->held[i];
        double own = (double)last->own_rss_bytes + progress(last, sample, &held->sample) * rise;
        own += beyond(last, sample, &held->sample, line->many_threads);
        keep_within(&held->sample, own, bounds_between(&line->last_fresh, put, held));
    }
    write_held(line);
    write_sample(line, *sample);
    line->last_fresh = *put;
    line->last_fresh.filled_bytes = filled_bytes;
    line->any_fresh = true;
}
