// The runs of --pass count: each allocator and the null replayer once, under simulation.
#ifndef HEAPTAPE_COUNT_RUNS_H
#define HEAPTAPE_COUNT_RUNS_H

#include "experiment_state.h"

// Prints the counts on stdout, and on stderr what went wrong. Returns how many runs failed.
size_t ht_count_all(struct ht_experiment *experiment);

#endif
