// SPDX-License-Identifier: Apache-2.0
// --pollute: how much of what, by the processor's caches or by the trace.
#ifndef HEAPTAPE_POLLUTION_OPTION_H
#define HEAPTAPE_POLLUTION_OPTION_H

#include "pollution.h"

// "64M", "trace", "all", "data=64k,code=32k,tlb=128". by_trace: the amounts follow from the trace. NULL, or what was
// expected.
const char *ht_pollution_parse(const char *text, struct ht_pollution *pollution, bool *by_trace);

// As much as a program leaves that runs for so long between two calls, and no more than "all".
struct ht_pollution ht_pollution_of_gap(double gap_ns);

#endif
