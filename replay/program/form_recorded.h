// SPDX-License-Identifier: Apache-2.0
// Where the recorder took a sample: there alone it is known what the process held beside its heap, which may have been
// more than at any event. So RSS is read at these samples, too.
#ifndef HEAPTAPE_FORM_RECORDED_H
#define HEAPTAPE_FORM_RECORDED_H

#include "form_state.h"

// A sample differs from another by one part in so many of the highest RssAnon.
enum { HT_RECORDED_CHANGE_SHARE = 1000 };

struct ht_recorded_marks {
    const struct ht_trace_facts *facts;
    size_t at;            // of the samples: the next at which RSS is read
    uint64_t step_bytes;  // what a sample must differ by from the one before it
};

static inline void ht_recorded_init(struct ht_recorded_marks *marks, const struct ht_form_state *form) {
    const struct ht_trace_facts *facts = &form->facts;
    uint64_t most = 0;
    // What several copies of the program would hold is not known.
    *marks = (struct ht_recorded_marks){.facts = facts, .at = form->copies == 1 ? 0 : facts->samples_count};
    for (size_t i = 0; i < facts->samples_count; i++)
        if (facts->samples[i].rss_anon_bytes > most) most = facts->samples[i].rss_anon_bytes;
    marks->step_bytes = most / HT_RECORDED_CHANGE_SHARE;
}

// The event that the next one precedes; UINT64_MAX: no more come.
static inline uint64_t ht_recorded_event(const struct ht_recorded_marks *marks) {
    return marks->at < marks->facts->samples_count ? marks->facts->samples[marks->at].event : UINT64_MAX;
}

// When the next one is, between the two moments; UINT64_MAX if it does not precede the event of that number.
static inline uint64_t ht_recorded_ns(const struct ht_recorded_marks *marks, uint64_t before_event,
                                      uint64_t from_ns, uint64_t until_ns) {
    if (ht_recorded_event(marks) > before_event || marks->at == marks->facts->samples_count)
        return UINT64_MAX;
    // Stamps of another thread's calls may lie on the wrong side of a sample's: order counts.
    uint64_t at_ns = marks->facts->samples[marks->at].time_ns;
    if (at_ns > until_ns) at_ns = until_ns;
    return at_ns > from_ns ? at_ns : from_ns;
}

static inline uint64_t ht_recorded_distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// Goes on to the next one in which the program holds more or less.
static inline void ht_recorded_pass(struct ht_recorded_marks *marks) {
    const struct ht_sample *last = &marks->facts->samples[marks->at],
                           *end = marks->facts->samples + marks->facts->samples_count;
    const struct ht_sample *next = last + 1;
    while (next < end &&
           ht_recorded_distance(next->rss_anon_bytes, last->rss_anon_bytes) < marks->step_bytes &&
           ht_recorded_distance(next->own_rss_bytes, last->own_rss_bytes) < marks->step_bytes)
        next++;
    marks->at = (size_t)(next - marks->facts->samples);
}

#endif
