// SPDX-License-Identifier: Apache-2.0
// Prints each allocator's own figures if nobody judges, without ratios and verdicts.
#ifndef HEAPTAPE_PLAIN_ROUNDS_H
#define HEAPTAPE_PLAIN_ROUNDS_H

#include <stddef.h>

#include "runner.h"

// Runs the plan's rounds, or three, and prints of each allocator the range of its times and of its RSS, and where the
// time of the first round went. Returns how many runs failed, which has been said.
size_t ht_plain_rounds(struct ht_runner *runner);

#endif
