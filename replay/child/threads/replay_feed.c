// SPDX-License-Identifier: Apache-2.0
// Why a streamed form cannot deadlock. It has n streams (one for each thread, one for what is inherited)
// and a pool of P segments, at least 4n + 16.
// - The launcher writes events in trace order, each into its stream's open segment, and links a full one.
//   After a link more than n segments are free; or it links all open ones (at most n), sets complete_ns
//   (every event before is linked), ends `filling`, and waits until P - n are free (beside the replay: a
//   quarter of them, but at least n + 1). It waits for nothing else, and comes to that after a bounded
//   number of events.
// - A lane leaves a segment as soon as it knows the name of the next one, or that there is none. It waits
//   for its slot, the window, its next segment, and at one that was not there yet for the end of
//   `filling`. While it starves its place is complete_ns; it polls every millisecond, so that it holds up
//   nobody.
// Suppose that the launcher waits. Let e, at time T in lane t, be the first linked op that was not
// executed.
// - t does not wait for a slot, since all before e was executed, nor for a segment, since e's is linked.
// - t does not wait for the window for ever: every other lane has ended, or has a pending op behind e and
//   so a place beyond T less a step (replay_window.c), or starves at complete_ns, from which T is less
//   than a step. A lane that is not started has its first op's time as its place, and starts once that is
//   a step away.
// - When all linked ops were executed, no lane holds more than the last segment that was linked for it: P
//   - n are free. One that waits for its recorded end, later than complete_ns, holds that segment and no
//   other.
#include "replay_feed.h"

#include <time.h>

#include "raw_calls.h"
#include "replay_window.h"

static const struct timespec poll_again = {.tv_nsec = 1000000};

// Waits for the name of a segment. The order matters: what is complete is read before the name is checked,
// so that an op that is linked in between is not before that time.
static uint32_t await_segment(struct ht_lane *lane, _Atomic uint32_t *unit) {
    uint64_t cpu_before_ns = ht_thread_cpu_ns(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    uint32_t found;
    for (;;) {
        uint64_t complete_ns = atomic_load(&lane->form->complete_ns);
        found = atomic_load(unit);
        bool filling = atomic_load(&lane->form->filling);
        if (found && !filling) break;
        if (atomic_load(&lane->form->broken)) _exit(1);  // the launcher knows why
        if (!found) ht_window_report_place(lane, complete_ns);
        if (filling) ht_futex_wait_shared(&lane->form->filling, 1, &poll_again);
        else ht_futex_wait_shared(unit, 0, &poll_again);
    }
    lane->starved_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
    return found;
}

static const uint64_t *enter(struct ht_lane *lane, _Atomic uint32_t *unit) {
    uint32_t found = atomic_load_explicit(unit, memory_order_acquire);
    if (!found) found = await_segment(lane, unit);
    if (found == HT_SEGMENT_NONE) return NULL;
    lane->segment = ht_form_segment(lane->form, found);
    return ht_segment_words(lane->segment);
}

static void leave(const struct ht_lane *lane, struct ht_segment *segment) {
    struct ht_form *form = lane->form;
    if (!form->streamed || atomic_fetch_sub(&segment->readers, lane->copies) != lane->copies) return;
    atomic_fetch_add(&form->segments_left, 1);
    ht_futex_wake_shared(&form->segments_left);
}

// The next copy's turn, or the first one's. Once a segment has been executed for the last, all hold the same,
// and that is when samples are taken.
static void turn_to(struct ht_lane *lane, uint32_t copy) {
    if (lane->copies == 1) return;
    lane->table -= (size_t)lane->copy * lane->copy_slots;
    lane->table += (size_t)copy * lane->copy_slots;
    lane->copy = copy;
    lane->silent = copy + 1 < lane->copies;
}

const uint64_t *ht_feed_first(struct ht_lane *lane) {
    turn_to(lane, 0);
    return enter(lane, &lane->stream->first_unit);
}

// A segment is left only once the next one's name has been read, because its memory holds that name.
const uint64_t *ht_feed_next(struct ht_lane *lane) {
    struct ht_segment *segment = lane->segment;
    if (lane->copy + 1 < lane->copies) {
        turn_to(lane, lane->copy + 1);
        return ht_segment_words(segment);
    }
    turn_to(lane, 0);
    const uint64_t *words = enter(lane, &segment->next_unit);
    leave(lane, segment);
    return words;
}

void ht_feed_fault_in(const struct ht_form *form, const struct ht_stream *stream) {
    uint32_t unit = atomic_load(&stream->first_unit);
    while (unit != HT_SEGMENT_NONE) {
        const struct ht_segment *segment = ht_form_segment(form, unit);
        const volatile uint64_t *words = ht_segment_words(segment);
        for (uint32_t i = 0; i < segment->words; i += HT_TOUCH_PAGE_BYTES / sizeof *words) (void)words[i];
        (void)words[segment->words - 1];
        unit = atomic_load(&segment->next_unit);
    }
}
