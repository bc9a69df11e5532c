// What the trace knows of the residency of large blocks, taken in the order of their births.
#ifndef HEAPTAPE_FORM_BIRTHS_H
#define HEAPTAPE_FORM_BIRTHS_H

#include "form_state.h"

// Of the block that an event made.
struct ht_birth {
    uint64_t pages_before;    // right after the allocation
    uint64_t pages_after;     // at its end; HT_PAGES_BY_RULE: not known
    size_t steps, steps_end;  // of the facts' steps
};

struct ht_births {
    const struct ht_form_state *form;
    size_t residency_at, steps_at;  // in the facts: what has not been taken
    uint64_t next_event;            // the first event that they describe; UINT64_MAX: none
};

void ht_births_init(struct ht_births *births, const struct ht_form_state *form);

// What is known of the block born by this event. Events are asked for in their order.
struct ht_birth ht_births_of(struct ht_births *births, uint64_t event);

#endif
