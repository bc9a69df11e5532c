// SPDX-License-Identifier: Apache-2.0
#include "sample_line.h"

#include <string.h>

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// A program that has used more CPU time than this before its first call, and has not run on many threads
// since, ran before its recording began. Starting up takes less.
static const uint64_t START_CPU_NS = 5000000;

void sample_line_count(struct merge_totals *totals, const struct ht_sample *sample) {
    uint64_t heap = ht_sample_heap_bytes(sample);
    bool late =
        totals->began_late || totals->inherited_objects || sample->cpu_ns > sample->time_ns + START_CPU_NS;
    if (totals->samples++ == 0 && late) totals->heap_rss_first_bytes = heap;
    totals->rss_peak_bytes = larger(totals->rss_peak_bytes, sample->rss_anon_bytes);
    totals->own_peak_bytes = larger(totals->own_peak_bytes, sample->own_rss_bytes);
    totals->heap_rss_peak_bytes = larger(totals->heap_rss_peak_bytes, heap);
    totals->cpu_ns = larger(totals->cpu_ns, sample->cpu_ns);
}

// As sample_line_count, for what the heap can have been, where that is not known.
static void count_bounds(struct merge_totals *totals, uint64_t low_bytes, uint64_t high_bytes) {
    totals->heap_rss_low_bytes = larger(totals->heap_rss_low_bytes, low_bytes);
    totals->heap_rss_high_bytes = larger(totals->heap_rss_high_bytes, high_bytes);
}

// other_bytes: what the heap was by another way to tell.
static void write_sample(struct sample_line *line, struct ht_sample sample, uint64_t other_bytes) {
    if (sample.own_rss_bytes > sample.rss_anon_bytes) sample.own_rss_bytes = sample.rss_anon_bytes;
    uint64_t heap = ht_sample_heap_bytes(&sample);
    if (line->writer) ht_trace_put_sample(line->writer, &sample);
    sample_line_count(line->totals, &sample);
    uint64_t low = heap < other_bytes ? heap : other_bytes, unplaced = line->unplaced_bytes;
    count_bounds(line->totals, low > unplaced ? low - unplaced : 0, larger(heap, other_bytes));
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

// Beyond its blocks the heap holds what was freed and not given back, and what allocators add; less, where blocks are not
// filled.
static double slack_of(const struct line_sample *at) {
    return heap_bytes(&at->sample) - (double)at->live_bytes;
}

// The heap, if that went in a straight line over time.
static double heap_by_blocks(const struct line_sample *from, const struct line_sample *to,
                             const struct line_sample *at) {
    uint64_t span_ns = to->sample.time_ns - from->sample.time_ns;
    double share = span_ns ? (double)(at->sample.time_ns - from->sample.time_ns) / (double)span_ns : 0;
    return (double)at->live_bytes + slack_of(from) + share * (slack_of(to) - slack_of(from));
}

// No more was added to what it was at both ends than blocks were live beyond what was live then.
static double heap_at_most(const struct line_sample *from, const struct line_sample *to,
                           uint64_t live_bytes) {
    enum { ADDED_SHARE = 100, ADDED_BYTES = 64 << 10 };
    double a = heap_bytes(&from->sample), b = heap_bytes(&to->sample);
    uint64_t live_then = larger(from->live_bytes, to->live_bytes);
    double heap = (a > b ? a : b) + (double)(live_bytes > live_then ? live_bytes - live_then : 0);
    return heap + heap / ADDED_SHARE + ADDED_BYTES;
}

static double larger_of(double a, double b) { return a > b ? a : b; }

// Own memory grew by no more than what the program had mapped for itself.
static double own_at_most(const struct line_sample *from, const struct line_sample *to,
                          const struct line_sample *at) {
    double own = larger_of((double)from->sample.own_rss_bytes, (double)to->sample.own_rss_bytes);
    return at->mapped_bytes ? own + (double)(at->mapped_bytes - 1) : (double)at->sample.rss_anon_bytes;
}

static uint64_t within(double bytes, double most) {
    return bytes > 0 ? (uint64_t)(bytes < most ? bytes : most) : 0;
}

static void settle_one(struct sample_line *line, const struct line_sample *from, const struct line_sample *to,
                       struct line_sample *held, uint64_t live_bytes) {
    const struct ht_sample *a = &from->sample, *b = &to->sample;
    double own = (double)a->own_rss_bytes, rss = (double)held->sample.rss_anon_bytes;
    if (b->time_ns > a->time_ns) {
        own += progress(a, b, &held->sample) * ((double)b->own_rss_bytes - (double)a->own_rss_bytes);
        own += beyond(a, b, &held->sample, line->many_threads);
    }
    struct bounds heap = bounds_between(from, to, held);
    double most = larger_of(heap_at_most(from, to, live_bytes), rss - own_at_most(from, to, held));
    if (heap.high > most) heap.high = most;
    if (heap.low > heap.high) heap.low = heap.high;
    keep_within(&held->sample, own, heap);
    write_sample(line, held->sample, within(heap_by_blocks(from, to, held), most < rss ? most : rss));
}

// Those before `until`, which are between two that are known.
static void settle_between(struct sample_line *line, const struct line_sample *from,
                           const struct line_sample *to, size_t first, size_t until) {
    uint64_t live_bytes = larger(from->live_bytes, to->live_bytes);
    for (size_t i = first; i < until; i++) {
        live_bytes = larger(live_bytes, line->held[i].live_bytes);
        settle_one(line, from, to, &line->held[i], live_bytes);
    }
}

static bool is_same(int64_t a, int64_t b, uint64_t heap_bytes) {
    enum { SAME_SHARE = 100, SAME_BYTES = 256 << 10 };
    uint64_t apart = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return apart <= SAME_BYTES + heap_bytes / SAME_SHARE;
}

// What was counted, with what that misses.
static void add_missed(struct ht_sample *sample, int64_t missed_bytes) {
    uint64_t own = sample->own_rss_bytes;
    uint64_t less_bytes = -(uint64_t)missed_bytes;
    if (missed_bytes < 0) sample->own_rss_bytes = own > less_bytes ? own - less_bytes : 0;
    else sample->own_rss_bytes = own + (uint64_t)missed_bytes;
}

// Up to a sample that is known. `counted`: those in between that were counted are so, too.
static void settle(struct sample_line *line, const struct line_sample *to, bool counted) {
    struct line_sample from = line->last_fresh;
    size_t first = 0;
    for (size_t i = 0; i < line->held_count; i++) {
        struct line_sample *held = &line->held[i];
        held->sample.own_fresh &= counted;
        if (!held->sample.own_fresh) continue;
        add_missed(&held->sample, line->missed_bytes);
        settle_between(line, &from, held, first, i);
        write_sample(line, held->sample, ht_sample_heap_bytes(&held->sample));
        from = *held;
        first = i + 1;
    }
    settle_between(line, &from, to, first, line->held_count);
    line->held_count = 0;
}

// No measurement follows.
void sample_line_end(struct sample_line *line) {
    for (size_t i = 0; i < line->held_count; i++) {
        struct line_sample *held = &line->held[i];
        add_missed(&held->sample, line->missed_bytes);
        if (line->any_fresh && !held->sample.own_fresh)
            keep_within(&held->sample, (double)held->sample.own_rss_bytes,
                        bounds_since(&line->last_fresh, held));
        bool known = held->sample.own_fresh || !line->any_fresh;
        double blocks = heap_by_blocks(&line->last_fresh, &line->last_fresh, held);
        write_sample(line, held->sample,
                     known ? ht_sample_heap_bytes(&held->sample)
                           : within(blocks, (double)held->sample.rss_anon_bytes));
    }
    line->held_count = 0;
}

// Blocks of a process that began before its recording may lie where none is known to.
static bool is_late(const struct merge_totals *totals) {
    return totals->began_late || totals->inherited_objects;
}

bool sample_line_has_tables(const struct ht_raw_log *log) {
    static const char glibc[] = "allocator_name=glibc", linked[] = "linked_allocator=";
    const char *at = log->context, *end = at + log->header.context_bytes;
    bool is_glibc = false;
    for (; at < end && *at; at += strlen(at) + 1) {
        is_glibc |= !strcmp(at, glibc);
        if (!strncmp(at, linked, sizeof linked - 1)) return true;
    }
    return !is_glibc;
}

// What the hooks have missed: no more than such tables take?
static bool may_be_tables(int64_t missed_bytes, uint64_t heap_bytes) {
    enum { TABLES_SHARE = 16, TABLES_BYTES = 4 << 20 };
    return missed_bytes > 0 && (uint64_t)missed_bytes <= heap_bytes / TABLES_SHARE + TABLES_BYTES;
}

void line_sample_take(struct line_sample *sample, const struct heap_pieces *pieces, uint64_t stamp) {
    if (pieces->stamp != stamp) return;
    sample->mapped_bytes = pieces->mapped_bytes;
    sample->looked = pieces->whole;
    sample->heap_bytes = pieces->heap_bytes;
    sample->late = pieces->late;
}

// A look. What was missed until now is in *missed_bytes.
static void take_look(bool has_tables, struct line_sample *put, int64_t *missed_bytes) {
    struct ht_sample *sample = &put->sample;
    uint64_t rss = sample->rss_anon_bytes, own = rss > put->heap_bytes ? rss - put->heap_bytes : 0;
    *missed_bytes = (int64_t)(own - sample->own_rss_bytes);  // of a damaged log it may be any
    if (has_tables && sample->own_fresh && may_be_tables(*missed_bytes, put->heap_bytes)) {
        own = sample->own_rss_bytes;
        *missed_bytes = 0;
    }
    sample->own_rss_bytes = own;
    sample->own_fresh = true;
}

void sample_line_put(struct sample_line *line, const struct line_sample *given) {
    struct line_sample put = *given;
    struct ht_sample *sample = &put.sample;
    uint64_t filled_bytes = line->allocated_bytes;
    int64_t missed_bytes = line->missed_bytes;
    line->allocated_bytes = put.allocated_bytes;
    bool look = put.looked && !put.late && !is_late(line->totals);
    if (look) take_look(line->has_tables, &put, &missed_bytes);
    if (!(line->any_look || look ? look : sample->own_fresh)) {
        if (line->held_count == SAMPLES_HELD_MAX) sample_line_end(line);
        line->held[line->held_count++] = put;
        return;
    }
    bool same = is_same(missed_bytes, line->missed_bytes, put.heap_bytes);
    if (line->any_fresh) settle(line, &put, line->any_look && same);
    else sample_line_end(line);
    if (put.looked && !look) {
        uint64_t heap = ht_sample_heap_bytes(sample);
        line->unplaced_bytes = heap > put.heap_bytes ? heap - put.heap_bytes : 0;
    }
    write_sample(line, *sample, ht_sample_heap_bytes(sample));
    line->missed_bytes = missed_bytes;
    line->any_look |= look;
    line->last_fresh = put;
    line->last_fresh.filled_bytes = filled_bytes;
    line->any_fresh = true;
}
