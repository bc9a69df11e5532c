// SPDX-License-Identifier: Apache-2.0
// What the figures of a run hold for, as the files of --write-baseline and --baseline-file have it
// (docs/reference/results.md).
#ifndef HEAPTAPE_BASELINE_FACTS_H
#define HEAPTAPE_BASELINE_FACTS_H

#include <jansson.h>

#include "machine_facts.h"
#include "replay_plan.h"

struct ht_baseline_subject {
    const struct ht_plan *plan;
    const struct ht_machine *machine;
    const char *trace_sha256;
    const char *thp;  // of the runs
    uint64_t calls;
    const char *extended;  // in words, or empty
};

// What figures depend on beside the allocator: trace, settings, machine. An object.
json_t *ht_baseline_facts(const struct ht_baseline_subject *subject);

#endif
