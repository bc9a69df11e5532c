// SPDX-License-Identifier: Apache-2.0
// What came of the conditions of --fail-if, said on stderr.
#ifndef HEAPTAPE_FAIL_IF_TEXT_H
#define HEAPTAPE_FAIL_IF_TEXT_H

#include "comparison.h"

// A line for each allocator that meets a condition, or that leaves one undecided. Returns HT_EXIT_HOLDS if any
// condition holds, else HT_EXIT_UNDECIDED if any is undecided, else HT_EXIT_DONE.
int ht_fail_if_say(FILE *out, const struct ht_comparison *comparison);

#endif
