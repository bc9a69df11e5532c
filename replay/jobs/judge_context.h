// SPDX-License-Identifier: Apache-2.0
// What the judge has to know of plan, trace, allocators and machine before the first round: `Context` in
// analysis/heaptape/judge/model.py.
#ifndef HEAPTAPE_JUDGE_CONTEXT_H
#define HEAPTAPE_JUDGE_CONTEXT_H

#include <jansson.h>

#include "runner.h"

json_t *ht_judge_context(const struct ht_runner *runner);

#endif
