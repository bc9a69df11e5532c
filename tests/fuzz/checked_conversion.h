// SPDX-License-Identifier: Apache-2.0
// A raw log converted within a fuzz target, and everything held against it that must be so of any conversion.
#ifndef HEAPTAPE_CHECKED_CONVERSION_H
#define HEAPTAPE_CHECKED_CONVERSION_H

#include <stdint.h>

#include "merge.h"

// Converts the log as the verb does. Where it succeeds, the trace must open whole, hold exactly the events
// that were put into it, follow the rules of slots, and make a replay form. parent: path or NULL.
void checked_conversion(const char *raw, const char *parent, uint32_t time_unit_ns);

// The same for another way of writing a trace: to the path that begin returns. totals: NULL where they are
// not known.
const char *checked_output_begin(uint32_t time_unit_ns);
void checked_output_end(const struct merge_totals *totals);
// The same where threads and slots have the numbers of another trace, which need not be a converter's.
void checked_copy_end(const struct merge_totals *totals);

#endif
