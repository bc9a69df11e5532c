#include "form_births.h"

static void know_next(struct ht_births *births) {
    const struct ht_trace_facts *facts = &births->form->facts;
    uint64_t event = UINT64_MAX, copies = births->form->copies;
    if (births->residency_at < facts->residency_count) event = facts->residency[births->residency_at].event;
    if (births->steps_at < facts->steps_count && facts->steps[births->steps_at].event < event)
        event = facts->steps[births->steps_at].event;
    births->next_event = event > UINT64_MAX / copies ? UINT64_MAX : event * copies;
}

void ht_births_init(struct ht_births *births, const struct ht_form_state *form) {
    *births = (struct ht_births){.form = form};
    know_next(births);
}

struct ht_birth ht_births_of(struct ht_births *births, uint64_t event) {
    const struct ht_trace_facts *facts = &births->form->facts;
    uint64_t copies = births->form->copies, number = event / copies;
    struct ht_birth birth = {.pages_after = HT_PAGES_BY_RULE};
    if (event < births->next_event) return birth;
    size_t at = births->residency_at, step = births->steps_at;
    while (at < facts->residency_count && facts->residency[at].event < number) at++;
    while (step < facts->steps_count && facts->steps[step].event < number) step++;
    birth.steps = birth.steps_end = step;
    while (birth.steps_end < facts->steps_count && facts->steps[birth.steps_end].event == number)
        birth.steps_end++;
    bool taken = (event + 1) % copies == 0;  // else it is the next copy's, too
    births->steps_at = taken ? birth.steps_end : step;
    births->residency_at = at;
    for (; at < facts->residency_count && facts->residency[at].event == number; at++) {
        birth.pages_before = facts->residency[at].pages_before;
        birth.pages_after = facts->residency[at].pages_after;
        births->residency_at += taken;
    }
    know_next(births);
    return birth;
}
