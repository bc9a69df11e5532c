// SPDX-License-Identifier: Apache-2.0
#include "form_births.h"

#include <assert.h>

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
        birth.pages_spared = facts->residency[at].pages_spared;
        births->residency_at += taken;
    }
    know_next(births);
    return birth;
}

// ---- blocks of which nothing is known ----

static uint32_t pages_of(uint64_t bytes) {
    return (uint32_t)((bytes + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES);
}

// What a realloc leaves as it is was filled before.
static bool is_one(const struct ht_operation *op) {
    return !op->frees && op->call != HT_WIDE_REALLOC && op->bytes >= HT_SIMILAR_LEAST_BYTES &&
           op->bytes < (uint64_t)HT_SIMILAR_LEAST_BYTES << HT_SIMILAR_OCTAVES;
}

// 64 an octave.
static unsigned class_of(const struct ht_operation *op) {
    unsigned octave =
        (unsigned)__builtin_clzll(HT_SIMILAR_LEAST_BYTES) - (unsigned)__builtin_clzll(op->bytes);
    unsigned class =
        octave * 64 + (unsigned)(op->bytes / ((uint64_t)HT_SIMILAR_LEAST_BYTES / 64 << octave) - 64);
    assert(class < HT_SIMILAR_CLASSES);
    return class;
}

void ht_birth_leave_spared(struct ht_birth *birth, const struct ht_operation *op) {
    if (birth->pages_after == HT_PAGES_BY_RULE || op->call == HT_WIDE_REALLOC) birth->pages_spared = 0;
    else
        birth->pages_after -=
            birth->pages_spared < birth->pages_after ? birth->pages_spared : birth->pages_after;
}

bool ht_similar_is_known(const struct ht_birth *birth, const struct ht_operation *op) {
    if (birth->pages_after == HT_PAGES_BY_RULE) return false;
    if (!is_one(op) || birth->pages_spared) return true;
    uint64_t all = pages_of(op->bytes);
    return birth->pages_before < all && (birth->pages_after > birth->pages_before ||
                                         op->bytes < HT_SIMILAR_NEAR_BYTES || 2 * birth->pages_before < all);
}

void ht_similar_learn(struct ht_similar *similar, const struct ht_operation *op, uint64_t pages) {
    if (!is_one(op)) return;
    struct ht_similar_block *known = &similar->known[op->call == HT_WIDE_CALLOC][class_of(op)];
    known->pages = pages_of(op->bytes);
    known->resident = pages < known->pages ? (uint32_t)pages : known->pages;
}

// Of HT_SIMILAR_NEAR_BYTES.
enum { FIRST_NEAR_CLASS = 2 * 64 };

// NULL: none is known.
static const struct ht_similar_block *nearest(const struct ht_similar_block *known, unsigned class) {
    unsigned near = class < FIRST_NEAR_CLASS ? 0 : HT_SIMILAR_NEAR_CLASSES;
    for (unsigned distance = 0; distance <= near; distance++) {
        if (distance <= class && known[class - distance].pages) return &known[class - distance];
        if (class + distance < HT_SIMILAR_CLASSES && known[class + distance].pages)
            return &known[class + distance];
    }
    return NULL;
}

uint64_t ht_similar_pages(const struct ht_similar *similar, const struct ht_operation *op) {
    if (!is_one(op)) return HT_PAGES_BY_RULE;
    const struct ht_similar_block *known = nearest(similar->known[op->call == HT_WIDE_CALLOC], class_of(op));
    if (!known) return HT_PAGES_BY_RULE;
    if (known->resident >= known->pages) return (uint64_t)pages_of(op->bytes) + 1;  // all of it
    return ((uint64_t)pages_of(op->bytes) * known->resident + known->pages - 1) / known->pages;
}
