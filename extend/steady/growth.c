#include "growth.h"

#include <math.h>

// Of live bytes then: what their growth may be off by.
static const double DOUBT_MAX = 0.25;

static double half_width(const struct slope *slope) { return (slope->high - slope->low) / 2; }

// The largest change of the slope, per ns, that the halves do not exclude: their middles are half a stretch apart.
static double bend_max(const struct steady_stretch *stretch) {
    if (!stretch->grows) return 0;
    double apart_ns = (double)(stretch->until_ns - stretch->from_ns) / 2;
    double differ = fabs(stretch->late.step - stretch->early.step);
    return (differ + hypot(half_width(&stretch->early), half_width(&stretch->late))) / apart_ns;
}

struct growth growth_at(const struct steady_stretch *stretch, uint64_t to_ns) {
    double passed_ns = to_ns > stretch->until_ns ? (double)(to_ns - stretch->until_ns) : 0;
    double bend = bend_max(stretch), bytes = stretch->live.mean;
    if (stretch->grows) bytes += stretch->live.step * passed_ns;
    double doubt = hypot(half_width(&stretch->live) * passed_ns, bend * passed_ns * passed_ns / 2);
    // A level's interval lies around its slope, which is not continued.
    double middle = stretch->live.mean + stretch->live.step * passed_ns;
    return (struct growth){.bytes = bytes,
                           .low_bytes = fmax(middle - doubt, 0),
                           .high_bytes = middle + doubt,
                           .slope_doubt = hypot(half_width(&stretch->live), bend * passed_ns)};
}

// Where bend t^2 / 2 is that share of mean + step t.
uint64_t growth_known_until_ns(const struct steady_stretch *stretch) {
    double bend = bend_max(stretch);
    if (!(bend > 0)) return UINT64_MAX;
    double grown = DOUBT_MAX * stretch->live.step;
    double passed_ns = (grown + sqrt(grown * grown + 2 * bend * DOUBT_MAX * stretch->live.mean)) / bend;
    double until_ns = (double)stretch->until_ns + passed_ns;
    return until_ns < 9e18 ? (uint64_t)until_ns : UINT64_MAX;
}
