// SPDX-License-Identifier: Apache-2.0
// Refuses a replay that would take more memory than the machine can give: a trace may hold anything, and what
// comes of touching it is other programs' death, not only ours.
#ifndef HEAPTAPE_LIVE_GUARD_H
#define HEAPTAPE_LIVE_GUARD_H

#include "form_builder.h"
#include "replay_plan.h"

// Called once the form is built, so that its memory is among what is taken already. Returns 0, or -1 with
// error.
int ht_live_guard(const struct ht_plan *plan, const struct ht_built_form *built, struct ht_error *error);

#endif
