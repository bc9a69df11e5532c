// How far live bytes that grow may be continued. A line fits a stretch of a growth that slows down or speeds up as well, where the
// stretch is short: what its halves leave open of the change of the slope counts with the square of the time.
#ifndef HEAPTAPE_GROWTH_H
#define HEAPTAPE_GROWTH_H

#include "steady_stretch.h"

// Live bytes at a time after the stretch, and what cannot be excluded.
struct growth {
    double bytes, low_bytes, high_bytes;
    double slope_doubt;  // of the slope then, bytes per ns
};

// A level that does not change is taken to stay: only its slope is in doubt.
struct growth growth_at(const struct steady_stretch *stretch, uint64_t to_ns);

// The last time at which a growth is known well enough: UINT64_MAX for live bytes that do not grow.
uint64_t growth_known_until_ns(const struct steady_stretch *stretch);

#endif
