// SPDX-License-Identifier: Apache-2.0
// Lint's passes: over a trace, and over a raw log in the order that the converter finds.
#ifndef HEAPTAPE_LINT_PASSES_H
#define HEAPTAPE_LINT_PASSES_H

#include "lint_checks.h"
#include "merge.h"
#include "trace_reader.h"

// Return 0 or -1 with error.
int lint_trace(struct lint *lint, struct ht_trace_reader *reader, const char *path, struct ht_error *error);
// warning: as inheritance_find has it.
int lint_raw(struct lint *lint, const struct ht_raw_log *log, char *warning, struct ht_raw_damage *damage,
             const struct merge_progress *progress, struct ht_error *error);

#endif
