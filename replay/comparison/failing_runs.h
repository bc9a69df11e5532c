// SPDX-License-Identifier: Apache-2.0
// Runs that failed, allocator by allocator: counted, and the end of an allocator
// that fails again and again.
#ifndef HEAPTAPE_FAILING_RUNS_H
#define HEAPTAPE_FAILING_RUNS_H

#include <stdbool.h>
#include <stdint.h>

struct ht_failing_runs {
    uint32_t runs, failed;     // passes
    uint32_t rounds_in_a_row;  // with a failure each, up to last_failed_round
    uint32_t last_failed_round;
    char problem[320];  // of the last one
};

// An allocator that failed in so many rounds in a row is not run any more.
enum { HT_FAILING_ROUNDS_MAX = 2 };

// A pass has ended; problem: what went wrong, or NULL. Returns true if this is what makes it be given up,
// which is reported once.
bool ht_failing_runs_note(struct ht_failing_runs *failing, uint32_t round, const char *problem);

static inline bool ht_failing_runs_given_up(const struct ht_failing_runs *failing) {
    return failing->rounds_in_a_row >= HT_FAILING_ROUNDS_MAX;
}

#endif
