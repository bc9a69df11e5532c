// SPDX-License-Identifier: Apache-2.0
// The figures of a run in a file that can be kept, and what they hold for: --write-baseline and --baseline-file
// (docs/reference/baseline-format.md).
#ifndef HEAPTAPE_BASELINE_FILE_H
#define HEAPTAPE_BASELINE_FILE_H

#include "comparison.h"
#include "error.h"
#include "machine_facts.h"

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

// The allocators of an earlier run under the same facts, with figures for all of the plan's choices and conditions. NULL with
// an error.
json_t *ht_baseline_file_read(const char *path, const json_t *facts, const struct ht_plan *plan,
                              struct ht_error *error);

// 0, or -1 with an error.
int ht_baseline_file_write(const char *path, const struct ht_comparison *comparison, const json_t *facts,
                           struct ht_error *error);

#endif
