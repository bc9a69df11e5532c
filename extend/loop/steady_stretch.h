// SPDX-License-Identifier: Apache-2.0
// The stretch of a trace in which its load is steady, so that it can be repeated: live bytes, calls per second and the mix
// of sizes do not change, or live bytes grow evenly.
//
// docs/reference/extend.md lists the tests.
#ifndef HEAPTAPE_STEADY_STRETCH_H
#define HEAPTAPE_STEADY_STRETCH_H

#include "slope.h"
#include "steady_windows.h"

enum steady_verdict {
    STEADY_YES,
    STEADY_TOO_SHORT,
    STEADY_UNEVEN,        // live bytes change, and not along a line
    STEADY_ACCELERATES,   // they grow faster than before the stretch
    STEADY_FALLS,         // they fall, which cannot go on
    STEADY_UNRESOLVED,    // they scatter so much that a growth would not be seen
    STEADY_RATE_CHANGES,  // calls per second
    STEADY_SIZES_CHANGE,
    STEADY_BLOCKS_CHANGE,   // live bytes do not, but their number does
    STEADY_HIDDEN,          // one of them did before the stretch, so slowly that the stretch does not show it
    STEADY_THREADS_CHANGE,  // more threads begin than end, or the reverse
    STEADY_FOREIGN,         // blocks from before the recording are freed
    STEADY_ONE_PHASE        // of several: the rest of the recording is different
};

struct steady_stretch {
    size_t first, end;  // windows
    uint64_t from_ns, until_ns;
    bool given;  // by the user
    enum steady_verdict verdict;
    struct slope live;         // bytes per ns, its mean in bytes
    struct slope early, late;  // of its halves
    bool grows;                // live bytes do, evenly: along `live`
    double calls_per_s, sizes_distance, foreign_share;
    double
        left_out_bytes;  // what live bytes reach behind the stretch, if that is far more than before or expected there; else 0
    char words[512];  // why it is not steady, or what it rests upon
};

// Finds the longest steady stretch that begins at that window or later. If there is none, the verdict is of the second half of the
// trace.
void steady_stretch_find(const struct steady_windows *windows, size_t from_window,
                         struct steady_stretch *stretch);

// Judges the stretch between two times; from_ns UINT64_MAX: after the program's start.
void steady_stretch_judge(const struct steady_windows *windows, uint64_t from_ns, uint64_t until_ns,
                          struct steady_stretch *stretch);

// A line's value is known best in the middle of what it was put through: there it is the mean.
static inline double steady_middle_ns(const struct steady_stretch *stretch) {
    return ((double)stretch->from_ns + (double)stretch->until_ns) / 2;
}

// Live bytes at a time after the stretch, if they go on: along its line where they grow, else as its mean.
static inline double steady_live_at(const struct steady_stretch *stretch, uint64_t time_ns) {
    double passed_ns = (double)time_ns - steady_middle_ns(stretch);
    return stretch->live.mean + (stretch->grows && passed_ns > 0 ? stretch->live.step * passed_ns : 0);
}

// ---- how far live bytes that grow may be continued ----
//
// A line fits a stretch of a growth that slows down or speeds up as well, where the
// stretch is short: what its halves leave open of the change of the slope counts with the square of the time.

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
