// SPDX-License-Identifier: Apache-2.0
#include "steady_stretch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "talk.h"

enum {
    GROUPS_MAX = 64,  // values that a line is put through
    GROUPS_MIN = 20,
    QUARTERS = 4,
    GRID = 64,          // places at which a stretch that is searched may begin
    START_UP_MAX = 32,  // of these: half of the trace
    END_TRIED = 4,      // and end: behind the last of these places a program may end
    PHASE_STEPS = 4,    // between places at which a phase of several may begin and end
    PHASE_GRID_MIN = 4  // its shortest length, in those
};

static const double CALLS_MIN = 2000;
static const double LIVE_CHANGE = 0.005;     // of live bytes over the stretch: less is none
static const double LIVE_BEND = 0.10;        // the same, even if it may be a wander
static const double SLOPE_EVEN = 0.10;       // of a slope: halves that differ from it by less are alike
static const double LIVE_UNRESOLVED = 0.25;  // the same, of the interval's half width
static const double BLOCKS_CHANGE = 0.01;    // the same, of the number of live blocks
static const double RATE_SPREAD = 0.15;
static const double SIZES_DISTANCE = 0.10;
static const double FOREIGN_SHARE = 0.01;
static const double THREADS_CHANGE = 4, THREADS_DEVIATIONS = 3;
static const double OTHER_PHASE = 0.25;  // of rate or live bytes outside the stretch

// The values of a stretch, window by window or of so many together.
struct series {
    size_t count;
    double step_ns;
    double live[GROUPS_MAX], blocks[GROUPS_MAX], calls[GROUPS_MAX];
};

static struct series series_of(const struct steady_windows *windows, size_t first, size_t end) {
    size_t together = (end - first + GROUPS_MAX - 1) / GROUPS_MAX;
    struct series series = {.step_ns = (double)(together * windows->window_ns)};
    for (size_t at = first; at + together <= end; at += together) {
        double live = 0, blocks = 0, calls = 0;
        for (size_t i = at; i < at + together; i++) {
            live += windows->list[i].live_bytes;
            blocks += windows->list[i].live_objects;
            calls += (double)windows->list[i].calls;
        }
        series.live[series.count] = live / (double)together;
        series.blocks[series.count] = blocks / (double)together;
        series.calls[series.count++] = calls;
    }
    assert(series.count <= GROUPS_MAX);
    return series;
}

static struct slope per_ns(struct slope slope, double step_ns) {
    slope.step /= step_ns;
    slope.low /= step_ns;
    slope.high /= step_ns;
    slope.plain /= step_ns;
    slope.plain_error /= step_ns;
    return slope;
}

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return sum / (double)count;
}

static double calls_between(const struct steady_windows *windows, size_t first, size_t end) {
    double calls = 0;
    for (size_t i = first; i < end; i++) calls += (double)windows->list[i].calls;
    return calls;
}

// Half the sum of what the shares of the classes differ by: 0 if the mixes are alike, 1 if they have no class in common. What
// two draws from one mix would differ by is taken off.
static double sizes_distance(const struct steady_windows *windows, size_t first, size_t middle, size_t end) {
    double count[2][STEADY_SIZE_CLASSES] = {{0}}, all[2] = {0}, distance = 0, chance = 0;
    for (size_t i = first; i < end; i++) {
        for (size_t class = 0; class < STEADY_SIZE_CLASSES; class ++) {
            count[i >= middle][class] += windows->list[i].sizes[class];
            all[i >= middle] += windows->list[i].sizes[class];
        }
    }
    if (all[0] == 0 || all[1] == 0) return all[0] == all[1] ? 0 : 1;
    for (size_t class = 0; class < STEADY_SIZE_CLASSES; class ++) {
        double share = (count[0][class] + count[1][class]) / (all[0] + all[1]);
        distance += fabs(count[0][class] / all[0] - count[1][class] / all[1]) / 2;
        chance += sqrt(share * (1 - share) * (1 / all[0] + 1 / all[1])) / 2;
    }
    return fmax(distance - 2 * chance, 0);
}

static const char *time_words(char text[32], uint64_t ns) {
    double seconds = (double)ns / 1e9;
    if (seconds < 60) snprintf(text, 32, "%.3g s", seconds);
    else snprintf(text, 32, "%llu:%04.1f", (unsigned long long)(ns / 60000000000ull), fmod(seconds, 60));
    return text;
}

enum { SLOPE_BYTES = 120 };

// "-32.4 MB/hour [-40, -25]".
static const char *slope_words(char text[SLOPE_BYTES], const struct slope *slope) {
    static const double mb_per_hour = 3600e9 / 1e6;
    char step[32], low[32], high[32];
    snprintf(text, SLOPE_BYTES, "%s%s MB/hour [%s, %s]", slope->step > 0 ? "+" : "",
             ht_figures(step, slope->step * mb_per_hour, 3), ht_figures(low, slope->low * mb_per_hour, 3),
             ht_figures(high, slope->high * mb_per_hour, 3));
    return text;
}

#define SAY(stretch, ...) snprintf((stretch)->words, sizeof(stretch)->words, __VA_ARGS__)

// How far the quarters of the stretch are from the mean rate, and whether it is on its way in either half.
static bool rate_changes(struct steady_stretch *stretch, const struct series *series) {
    double mean = mean_of(series->calls, series->count), worst = 0;
    for (size_t i = 0; i < QUARTERS; i++) {
        size_t from = series->count * i / QUARTERS, end = series->count * (i + 1) / QUARTERS;
        double quarter = mean_of(series->calls + from, end - from), squares = 0;
        for (size_t k = from; k < end; k++) squares += pow(series->calls[k] - quarter, 2);
        double error = sqrt(squares) / (double)(end - from);
        double spread = (fabs(quarter - mean) - 2 * error) / mean;
        if (spread > worst) worst = spread;
    }
    size_t half = series->count / 2;
    double change = 0;
    for (size_t i = 0; i < 2; i++) {
        struct slope slope = slope_of(series->calls + i * (series->count - half), half);
        double least = (fabs(slope.plain) - 2 * slope.plain_error) * (double)half / mean;
        if (least > change) change = least;
    }
    if (worst <= RATE_SPREAD && change <= RATE_SPREAD / 2) return false;
    if (worst > RATE_SPREAD)
        SAY(stretch, "the rate of calls changes: quarters of the stretch are up to %.0f %% from its mean",
            100 * worst);
    else
        SAY(stretch, "the rate of calls changes: by %.0f %% of its mean within a half of the stretch",
            100 * change);
    stretch->verdict = STEADY_RATE_CHANGES;
    return true;
}

static bool within(double value, const struct slope *slope) {
    return value >= slope->low && value <= slope->high;
}

// Live bytes: flat, growing along a line, or neither.
static bool live_changes(struct steady_stretch *stretch, const struct series *series) {
    size_t half = series->count / 2;
    double length_ns = series->step_ns * (double)series->count;
    stretch->live = per_ns(slope_of(series->live, series->count), series->step_ns);
    stretch->early = per_ns(slope_of(series->live, half), series->step_ns);
    stretch->late = per_ns(slope_of(series->live + series->count - half, half), series->step_ns);
    const struct slope *live = &stretch->live, *early = &stretch->early, *late = &stretch->late;
    double one = fmax(live->mean, 1) / length_ns;  // a slope by which the bytes double
    bool resolved = slope_resolved(live);
    double unlike = fabs(early->step - late->step) / 2;
    bool even = unlike <= SLOPE_EVEN * fabs(live->step);
    bool apart = !even && slopes_differ(early, late) && unlike > LIVE_CHANGE * one;
    double bend = fabs(early->plain - late->plain) / 2 - hypot(early->plain_error, late->plain_error);
    apart |= bend > fmax(LIVE_BEND * one, SLOPE_EVEN * fabs(live->plain));
    bool material = fabs(live->step) > LIVE_CHANGE * one;
    // A step in the middle makes a slope that neither half has.
    char one_slope[SLOPE_BYTES], other_slope[SLOPE_BYTES], number[32];
    bool both = even || (within(live->step, early) && within(live->step, late));
    if (apart || (resolved && material && !both)) {
        SAY(stretch, "live bytes do not change evenly: %s in the first half, %s in the second",
            slope_words(one_slope, early), slope_words(other_slope, late));
        stretch->verdict = STEADY_UNEVEN;
        return true;
    }
    if ((live->high - live->low) / 2 > LIVE_UNRESOLVED * one) {
        SAY(stretch, "live bytes scatter too much to see whether they grow: %s, of %s MB",
            slope_words(one_slope, live), ht_figures(number, live->mean / 1e6, 3));
        stretch->verdict = STEADY_UNRESOLVED;
        return true;
    }
    if (resolved && material && live->step < 0) {
        SAY(stretch, "live bytes fall: %s, which cannot go on", slope_words(one_slope, live));
        stretch->verdict = STEADY_FALLS;
        return true;
    }
    stretch->grows = resolved && both && live->step > 0;
    return false;
}

// A cache whose bytes are limited goes on exchanging large blocks for small ones: it is not at its end yet.
static bool blocks_change(struct steady_stretch *stretch, const struct series *series) {
    struct slope blocks = slope_of(series->blocks, series->count);
    double change = blocks.step * (double)series->count / fmax(blocks.mean, 1);
    if (stretch->grows || !slope_resolved(&blocks) || fabs(change) <= BLOCKS_CHANGE) return false;
    SAY(stretch, "live bytes do not grow, but the number of live blocks changes by %+.0f %%", 100 * change);
    stretch->verdict = STEADY_BLOCKS_CHANGE;
    return true;
}

static bool sizes_change(struct steady_stretch *stretch, const struct steady_windows *windows) {
    size_t middle = (stretch->first + stretch->end) / 2;
    stretch->sizes_distance = sizes_distance(windows, stretch->first, middle, stretch->end);
    if (stretch->sizes_distance <= SIZES_DISTANCE) return false;
    SAY(stretch, "the mix of sizes changes: %.0f %% of the allocations are of other sizes in the second half",
        100 * stretch->sizes_distance);
    stretch->verdict = STEADY_SIZES_CHANGE;
    return true;
}

// A pool that is being filled is small; threads that never end take memory without end, whatever the live bytes do.
static bool threads_change(struct steady_stretch *stretch, const struct steady_windows *windows) {
    double begun = 0, ended = 0;
    for (size_t i = stretch->first; i < stretch->end; i++) {
        begun += windows->list[i].threads_begun;
        ended += windows->list[i].threads_ended;
    }
    if (fabs(begun - ended) <= fmax(THREADS_CHANGE, THREADS_DEVIATIONS * sqrt(begun + ended))) return false;
    SAY(stretch, "the number of threads changes: %.0f begin in it, and %.0f end", begun, ended);
    stretch->verdict = STEADY_THREADS_CHANGE;
    return true;
}

static bool frees_foreign(struct steady_stretch *stretch, const struct steady_windows *windows) {
    double foreign = 0, frees = 0;
    for (size_t i = stretch->first; i < stretch->end; i++) {
        foreign += (double)windows->list[i].foreign_frees;
        frees += (double)windows->list[i].frees;
    }
    stretch->foreign_share = frees > 0 ? foreign / frees : 0;
    if (stretch->foreign_share <= FOREIGN_SHARE) return false;
    SAY(stretch,
        "%.1f %% of its frees are of blocks from before the recording: what takes their place is unknown",
        100 * stretch->foreign_share);
    stretch->verdict = STEADY_FOREIGN;
    return true;
}

// Judges a stretch by what is in it.
static void judge_inside(const struct steady_windows *windows, struct steady_stretch *stretch) {
    stretch->from_ns = stretch->first * windows->window_ns;
    stretch->until_ns = stretch->end * windows->window_ns;
    stretch->verdict = STEADY_YES;
    double calls = calls_between(windows, stretch->first, stretch->end);
    char text[32], made[HT_NUMBER_OF_BYTES];
    if (stretch->end < stretch->first + GROUPS_MIN || calls < CALLS_MIN) {
        stretch->verdict = STEADY_TOO_SHORT;
        SAY(stretch, "too short: %s with %s; expected %d windows of %.3g ms and %.0f calls",
            time_words(text, stretch->until_ns - stretch->from_ns),
            ht_number_of(made, (uint64_t)calls, "call"), (int)GROUPS_MIN, (double)windows->window_ns / 1e6,
            CALLS_MIN);
        return;
    }
    stretch->calls_per_s = calls / ((double)(stretch->until_ns - stretch->from_ns) / 1e9);
    struct series series = series_of(windows, stretch->first, stretch->end);
    if (frees_foreign(stretch, windows) || threads_change(stretch, windows) ||
        live_changes(stretch, &series) || blocks_change(stretch, &series) || rate_changes(stretch, &series) ||
        sizes_change(stretch, windows))
        return;
    char slope[SLOPE_BYTES], live[32], rate[32], ending[96] = "", from[32];
    if (windows->all - windows->count > windows->all * END_TRIED / GRID)
        snprintf(ending, sizeof ending, "; the program's end, from %s on, is left out",
                 time_words(from, windows->count * windows->window_ns));
    SAY(stretch, "live bytes %s: %s around %s MB; %s calls/s%s",
        stretch->grows ? "grow evenly" : "do not change", slope_words(slope, &stretch->live),
        ht_figures(live, stretch->live.mean / 1e6, 4), ht_figures(rate, stretch->calls_per_s, 4), ending);
}

static double live_mean(const struct steady_windows *windows, size_t first, size_t end) {
    double sum = 0;
    for (size_t i = first; i < end; i++) sum += windows->list[i].live_bytes;
    return sum / (double)(end - first);
}

// Is a part of the trace outside the stretch another phase?
static bool is_other_phase(const struct steady_windows *windows, struct steady_stretch *stretch, size_t first,
                           size_t end) {
    char from[32], until[32], one[32], other[32];
    double seconds = (double)((end - first) * windows->window_ns) / 1e9;
    double rate = calls_between(windows, first, end) / seconds;
    double live = live_mean(windows, first, end);
    uint64_t middle_ns = (first + end) * windows->window_ns / 2;
    double passed_ns = (double)middle_ns - steady_middle_ns(stretch);
    double expected = steady_live_at(stretch, middle_ns);
    double doubt = fabs(passed_ns) * (stretch->live.high - stretch->live.low) / 2;
    bool other_rate = fabs(rate / stretch->calls_per_s - 1) > OTHER_PHASE;
    bool other_live = fabs(live - expected) > OTHER_PHASE * expected + fmin(doubt, OTHER_PHASE * expected);
    if (!other_rate && !other_live) return false;
    stretch->verdict = STEADY_ONE_PHASE;
    time_words(from, first * windows->window_ns);
    time_words(until, end * windows->window_ns);
    if (other_rate)
        SAY(stretch, "one phase of several: %s calls/s in it, %s from %s to %s",
            ht_figures(one, stretch->calls_per_s, 4), ht_figures(other, rate, 4), from, until);
    else
        SAY(stretch, "one phase of several: live bytes from %s to %s are %s MB, not %s", from, until,
            ht_figures(one, live / 1e6, 4), ht_figures(other, expected / 1e6, 4));
    return true;
}

// What follows must be alike, but for the last part, in which a program may end. Parts as long as the stretch are compared.
static void judge_rest(const struct steady_windows *windows, struct steady_stretch *stretch) {
    size_t length = stretch->end - stretch->first;
    size_t ends = windows->count - windows->count * END_TRIED / GRID;
    for (size_t first = stretch->end; first < ends; first += length) {
        size_t end = first + length < ends ? first + length : ends;
        if ((end - first) * 4 >= length && is_other_phase(windows, stretch, first, end)) return;
    }
}

// What changes slowly shows in twice the time, in the number of blocks, which scatters less than bytes; unless the stretch
// excludes that it goes on.
static void judge_flat(const struct steady_windows *windows, struct steady_stretch *stretch, size_t before) {
    struct series in = series_of(windows, stretch->first, stretch->end);
    struct series with = series_of(windows, before, stretch->end);
    struct slope inside = per_ns(slope_of(in.blocks, in.count), in.step_ns);
    struct slope both = per_ns(slope_of(with.blocks, with.count), with.step_ns);
    double change = both.step * (double)(stretch->until_ns - stretch->from_ns) / fmax(both.mean, 1);
    if (!slope_resolved(&both) || fabs(change) <= BLOCKS_CHANGE || !within(both.step, &inside)) return;
    SAY(stretch,
        "the number of live blocks changes slowly, which shows together with the time before it: by %+.1f %% "
        "in its length",
        100 * change);
    stretch->verdict = STEADY_HIDDEN;
}

// A line that was flatter before the stretch is the last piece of a curve.
static void judge_before(const struct steady_windows *windows, struct steady_stretch *stretch) {
    size_t length = stretch->end - stretch->first;
    size_t first = stretch->first > length ? stretch->first - length : 0;
    if (first < windows->count / GRID) first = windows->count / GRID;  // not how it starts
    if (stretch->first < first + GROUPS_MIN) return;
    if (!stretch->grows) {
        judge_flat(windows, stretch, first);
        return;
    }
    struct series series = series_of(windows, first, stretch->first);
    struct slope before = per_ns(slope_of(series.live, series.count), series.step_ns);
    double change = (stretch->live.step - before.step) * series.step_ns * (double)series.count;
    if (stretch->live.step <= before.step || !slopes_differ(&stretch->live, &before) ||
        change < LIVE_CHANGE * stretch->live.mean)
        return;
    stretch->verdict = STEADY_ACCELERATES;
    char now[SLOPE_BYTES], earlier[SLOPE_BYTES];
    SAY(stretch, "live bytes grow faster and faster: %s in it, %s before", slope_words(now, &stretch->live),
        slope_words(earlier, &before));
}

// A peak behind the stretch that is too short for another phase is not repeated, and in no result.
static void find_left_out(const struct steady_windows *windows, struct steady_stretch *stretch) {
    double highest = 0, expected = steady_live_at(stretch, windows->count * windows->window_ns);
    for (size_t i = 0; i < stretch->end; i++) expected = fmax(expected, windows->list[i].live_bytes);
    for (size_t i = stretch->end; i < windows->all; i++) highest = fmax(highest, windows->list[i].live_bytes);
    if (highest > (1 + OTHER_PHASE) * expected) stretch->left_out_bytes = highest;
}

static void judge(const struct steady_windows *windows, struct steady_stretch *stretch) {
    judge_inside(windows, stretch);
    if (stretch->verdict == STEADY_YES) judge_before(windows, stretch);
    if (stretch->verdict == STEADY_YES) judge_rest(windows, stretch);
    if (stretch->verdict == STEADY_YES) find_left_out(windows, stretch);
}

void steady_stretch_judge(const struct steady_windows *windows, uint64_t from_ns, uint64_t until_ns,
                          struct steady_stretch *stretch) {
    *stretch = (struct steady_stretch){.given = true};
    stretch->first = from_ns == UINT64_MAX ? windows->count / GRID
                                           : (from_ns + windows->window_ns - 1) / windows->window_ns;
    stretch->end = until_ns == UINT64_MAX ? windows->count : until_ns / windows->window_ns;
    if (stretch->end > windows->all) stretch->end = windows->all;
    if (stretch->first > stretch->end) stretch->first = stretch->end;
    judge(windows, stretch);
}

// The longest phase of several that is steady by itself, of half the time or half of the calls: shorter ones are also what a curve has
// at its top.
static bool find_phase(const struct steady_windows *windows, struct steady_stretch *stretch) {
    size_t step = windows->count / (GRID / PHASE_STEPS), length = step * PHASE_GRID_MIN;
    double half = calls_between(windows, 0, windows->count) / 2;
    const size_t start = windows->count / GRID;
    for (size_t first = start; step && first < windows->count; first += step) {
        for (size_t end = first + length + 1; end <= windows->count; end += step) {
            struct steady_stretch tried = {.first = first, .end = end};
            if (2 * (end - first) < windows->count && calls_between(windows, first, end) < half) continue;
            judge(windows, &tried);
            if (tried.verdict == STEADY_YES && (first - start) * 4 >= end - first)
                is_other_phase(windows, &tried, start, first);
            if (tried.verdict != STEADY_ONE_PHASE || tried.grows) continue;
            length = end - first;
            *stretch = tried;
        }
    }
    return stretch->verdict == STEADY_ONE_PHASE;
}

void steady_stretch_find(const struct steady_windows *windows, size_t from_window,
                         struct steady_stretch *stretch) {
    size_t step = windows->count / GRID, length = 0;
    struct steady_stretch half = {.first = windows->count / 2, .end = windows->count};
    *stretch = half;
    if (step == 0) {
        judge(windows, stretch);
        return;
    }
    // Not at the very beginning: what a program allocates as it starts would come again with each repetition.
    for (size_t i = 1; i <= START_UP_MAX; i++) {
        for (size_t k = 0; k <= END_TRIED; k++) {
            struct steady_stretch tried = {.first = i * step, .end = windows->count - k * step};
            if (tried.first < from_window || tried.end - tried.first <= length) continue;
            judge(windows, &tried);
            if (tried.verdict != STEADY_YES) continue;
            length = tried.end - tried.first;
            *stretch = tried;
        }
    }
    if (length == 0 && !find_phase(windows, stretch)) judge(windows, stretch);
}

// ---- how far a growth may be continued ----

// So much of live bytes then may their growth be off by.
static const double DOUBT_MAX = 0.25;
// And so much of a level may a slope make that is clear, but not continued.
static const double MOVED_MAX = 0.05;

static double half_width(const struct slope *slope) { return (slope->high - slope->low) / 2; }

// The largest change of the slope, per ns, that the halves do not exclude: their middles are half a stretch apart.
static double bend_max(const struct steady_stretch *stretch) {
    if (!stretch->grows) return 0;
    double apart_ns = (double)(stretch->until_ns - stretch->from_ns) / 2;
    double differ = fabs(stretch->late.step - stretch->early.step);
    return (differ + hypot(half_width(&stretch->early), half_width(&stretch->late))) / apart_ns;
}

struct growth growth_at(const struct steady_stretch *stretch, uint64_t to_ns) {
    double passed_ns = fmax((double)to_ns - steady_middle_ns(stretch), 0), bend = bend_max(stretch);
    // A parabola's mean slope over a time is that in its middle.
    double bent_ns = (passed_ns + ((double)stretch->until_ns - steady_middle_ns(stretch))) / 2;
    double line = stretch->live.mean + stretch->live.step * passed_ns;
    double doubt = hypot(half_width(&stretch->live) * passed_ns, bend * passed_ns * passed_ns / 2);
    // A level stays, and its slope is not continued: the interval has room for both.
    double bytes = steady_live_at(stretch, to_ns);
    return (struct growth){.bytes = bytes,
                           .low_bytes = fmax(fmin(line - doubt, bytes), 0),
                           .high_bytes = fmax(line + doubt, bytes),
                           .slope_doubt = hypot(half_width(&stretch->live), bend * bent_ns)};
}

bool growth_is_level_that_moves(const struct steady_stretch *stretch) {
    return !stretch->grows && slope_resolved(&stretch->live);
}

// Where bend t^2 / 2 is that share of mean + step t; or the slope of a level so much of it.
uint64_t growth_known_until_ns(const struct steady_stretch *stretch) {
    double bend = bend_max(stretch), passed_ns = INFINITY;
    double grown = DOUBT_MAX * stretch->live.step;
    if (bend > 0)
        passed_ns = (grown + sqrt(grown * grown + 2 * bend * DOUBT_MAX * stretch->live.mean)) / bend;
    else if (growth_is_level_that_moves(stretch))
        passed_ns = MOVED_MAX * stretch->live.mean / fabs(stretch->live.step);
    double until_ns = steady_middle_ns(stretch) + passed_ns;
    return until_ns < 9e18 ? (uint64_t)until_ns : UINT64_MAX;
}
