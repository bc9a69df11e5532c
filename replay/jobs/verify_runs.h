// SPDX-License-Identifier: Apache-2.0
// The runs of --verify: each allocator once, before anything is measured.
#ifndef HEAPTAPE_VERIFY_RUNS_H
#define HEAPTAPE_VERIFY_RUNS_H

#include "runner.h"

// Prints on stderr what is wrong, and keeps a result of each. Returns how many allocators did not pass.
size_t ht_verify_all(struct ht_runner *runner);

#endif
