// SPDX-License-Identifier: Apache-2.0
// Copies of a trace that one thread replays interleaved: after each event of the first copy the same one of
// the others, on slots of their own.
#ifndef HEAPTAPE_FORM_COPIES_H
#define HEAPTAPE_FORM_COPIES_H

#include "form_state.h"

// Calls the visitor with the section's events, each as often as there are copies, in portions. Their numbers
// and the slots' are those of the trace times the copies, so that the rest of the builder need not know.
int ht_form_visit_copies(struct ht_form_state *form, const struct ht_section_place *place,
                         const struct ht_events *events, ht_section_visitor *visit, void *context);

#endif
