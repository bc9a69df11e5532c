// SPDX-License-Identifier: Apache-2.0
// The JSON texts of a copy for others: of those of a trace the facts that name nothing and nobody. What is not known here
// is left out.
#ifndef HEAPTAPE_SHARED_TEXTS_H
#define HEAPTAPE_SHARED_TEXTS_H

#include "coarsening.h"

// pid: the initial thread's new number; 0: unknown. context may be NULL.
json_t *shared_context(const json_t *context, const struct coarsening *coarsening, uint32_t pid);
json_t *shared_totals(const json_t *totals, const struct coarsening *coarsening);

#endif
