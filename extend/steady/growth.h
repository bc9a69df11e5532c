// SPDX-License-Identifier: Apache-2.0
// How far live bytes that grow may be continued. A line fits a stretch of a growth that slows down or speeds up as well, where the
// stretch is short: what its halves leave open of the change of the slope counts with the square of the time.
#ifndef HEAPTAPE_GROWTH_H
#define HEAPTAPE_GROWTH_H

#include "steady_stretch.h"

// Live bytes at a time after the stretch, and what cannot be excluded.
struct growth {
    double bytes, low_bytes, high_bytes;
    double slope_doubt;  // of the slope from the stretch's end up to then, in the mean; bytes per ns
};

// A level is taken to stay, also where it falls a little: its slope only widens the range.
struct growth growth_at(const struct steady_stretch *stretch, uint64_t to_ns);

// Does it fall or rise clearly, though too little over the stretch to be no level?
bool growth_is_level_that_moves(const struct steady_stretch *stretch);

// The last time at which live bytes are known well enough: UINT64_MAX for a level that does not move.
uint64_t growth_known_until_ns(const struct steady_stretch *stretch);

#endif
