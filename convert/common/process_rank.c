// SPDX-License-Identifier: Apache-2.0
#include "process_rank.h"

// A child has to use half as much again as the program that was started.
static const double STARTED_TIMES = 1.5;
// Less than any difference in what was used.
static const double CALLS_SHARE = 1e-3;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void process_use_most(struct process_use *most, const struct process_use *use) {
    most->calls = larger(most->calls, use->calls);
    most->cpu_ns = larger(most->cpu_ns, use->cpu_ns);
    most->anon_bytes = larger(most->anon_bytes, use->anon_bytes);
}

static double share_of(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

double process_rank(const struct process_use *use, const struct process_use *most) {
    double rank = share_of(use->cpu_ns, most->cpu_ns) + share_of(use->anon_bytes, most->anon_bytes) +
                  CALLS_SHARE * share_of(use->calls, most->calls);
    if (!use->calls) return 0;  // there is nothing to replay
    if (use->started) rank *= STARTED_TIMES;
    return use->shell ? rank / SHELL_TIMES_MORE : rank;
}
