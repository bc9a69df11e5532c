// SPDX-License-Identifier: Apache-2.0
// Plans how a stretch of a trace is repeated.
#ifndef HEAPTAPE_PLAN_LOOPS_H
#define HEAPTAPE_PLAN_LOOPS_H

#include "loop_plan.h"
#include "steady_stretch.h"
#include "trace_facts.h"

enum { LOOP_LEVELS_MAX = 64 };

// Plans repetitions of the stretch until to_ns. Returns 0, or -1 with error.
int loop_plan_make(struct ht_trace_reader *reader, const char *path, const struct steady_stretch *stretch,
                   const struct ht_trace_facts *facts, uint64_t to_ns, struct loop_plan *plan,
                   struct ht_error *error);
void loop_plan_free(struct loop_plan *plan);

#endif
