// SPDX-License-Identifier: Apache-2.0
#include "growth.h"

#include <math.h>

// Of live bytes then: what their growth may be off by.
static const double DOUBT_MAX = 0.25;
// And what a slope that is clear, but not continued, may make of a level.
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
    // Of a parabola, the mean slope over a time is that in its middle.
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
