// SPDX-License-Identifier: Apache-2.0
// The comparison as tables for people.
#ifndef HEAPTAPE_COMPARISON_TEXT_H
#define HEAPTAPE_COMPARISON_TEXT_H

#include <stdio.h>

#include "comparison.h"

void ht_comparison_print(FILE *out, const struct ht_comparison *comparison);

#endif
