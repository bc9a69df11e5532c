// SPDX-License-Identifier: Apache-2.0
#include "snapshot_choice.h"

#include <assert.h>

enum { STRETCHES = 200 };
// A jump is at least so much of the peak.
static const double JUMP_SHARE_MIN = 0.01;

struct choosing {
    struct ht_snapshot_moment *moment;
    uint32_t count;
};

// The first reason that is given for a sample stays.
static void add(struct choosing *choosing, uint32_t sample, const char *why) {
    uint32_t at = choosing->count;
    for (uint32_t i = 0; i < choosing->count; i++) {
        if (choosing->moment[i].sample == sample) return;
    }
    if (choosing->count == HT_SNAPSHOTS_MAX) return;
    for (; at > 0 && choosing->moment[at - 1].sample > sample; at--)
        choosing->moment[at] = choosing->moment[at - 1];
    choosing->moment[at] = (struct ht_snapshot_moment){sample, why};
    choosing->count++;
}

static int64_t above_live(const struct ht_built_form *built, const uint64_t *rss_bytes, uint32_t sample) {
    return (int64_t)rss_bytes[sample] - (int64_t)built->points[sample].live_bytes;
}

// Rises of RSS less live bytes over stretches of so many samples each: stretch i ends with sample (i + 1) * step.
struct rises {
    const struct ht_built_form *built;
    const uint64_t *rss_bytes;
    uint32_t step, stretches;
};

static int64_t rise_of(const struct rises *rises, uint32_t stretch) {
    return above_live(rises->built, rises->rss_bytes, (stretch + 1) * rises->step) -
           above_live(rises->built, rises->rss_bytes, stretch * rises->step);
}

// The stretch with the largest rise, of those that no jump has; none: `stretches`.
static uint32_t largest_rise(const struct rises *rises, const bool *taken, int64_t least_bytes) {
    uint32_t best = rises->stretches;
    for (uint32_t i = 0; i < rises->stretches; i++) {
        if (taken[i] || rise_of(rises, i) <= least_bytes) continue;
        least_bytes = rise_of(rises, i);
        best = i;
    }
    return best;
}

// After the largest rises. One that goes on through stretches beside it, at a quarter of its pace or more, is one jump.
static void add_jumps(struct choosing *choosing, const struct ht_built_form *built, const uint64_t *rss_bytes,
                      uint64_t peak_bytes) {
    uint32_t samples = built->form->samples, step = samples / STRETCHES + 1;
    bool taken[STRETCHES] = {false};
    const struct rises rises = {built, rss_bytes, step, (samples - 1) / step};
    const int64_t least_bytes = (int64_t)((double)peak_bytes * JUMP_SHARE_MIN);
    assert(rises.stretches <= STRETCHES);
    for (uint32_t jump = 0; jump < HT_SNAPSHOT_JUMPS; jump++) {
        uint32_t best = largest_rise(&rises, taken, least_bytes);
        if (best == rises.stretches) return;
        uint32_t last = best;
        const int64_t pace = rise_of(&rises, best) / 4;
        taken[best] = true;
        for (uint32_t i = best; i-- > 0 && rise_of(&rises, i) > pace;) taken[i] = true;
        while (last + 1 < rises.stretches && rise_of(&rises, last + 1) > pace) taken[++last] = true;
        add(choosing, (last + 1) * step, "jump");
    }
}

// In which of so many equal parts a value is.
static uint32_t part_of(uint64_t value, uint64_t last, uint32_t parts) {
    return value < last ? (uint32_t)((double)value / (double)last * parts) : parts - 1;
}

uint32_t ht_stretches_choose(const struct ht_built_form *built, uint32_t sample[HT_STRETCHES_MAX]) {
    enum { PARTS = STRETCHES / 2, PARTS_LEAST = 10, SLOTS_MAX = 200000000 };
    static_assert((int)STRETCHES <= (int)HT_STRETCHES_MAX, "room for the last ones of all parts");
    uint32_t count = 0, samples = built->form->samples, parts = SLOTS_MAX / (built->form->slots + 1);
    parts = parts > PARTS ? PARTS : parts < PARTS_LEAST ? PARTS_LEAST : parts;
    for (uint32_t i = 0; i < samples && count < HT_STRETCHES_MAX; i++) {
        const struct ht_sample_point *here = &built->points[i], *last = &built->points[samples - 1];
        if (i + 1 == samples ||
            part_of(here->time_ns, last->time_ns, parts) != part_of(here[1].time_ns, last->time_ns, parts) ||
            part_of(here->event, last->event, parts) != part_of(here[1].event, last->event, parts))
            sample[count++] = i;
    }
    return count;
}

// The last sample that is not later.
static uint32_t sample_at(const struct ht_built_form *built, uint64_t at_ns) {
    uint32_t sample = 0;
    for (uint32_t i = 0; i < built->form->samples && built->points[i].time_ns <= at_ns; i++) sample = i;
    return sample;
}

// Where the peak is, or next to it.
static uint32_t peak_of(const struct ht_built_form *built, struct ht_rss_samples rss) {
    uint32_t peak = (uint32_t)ht_peak_sample(built, rss.high_bytes, built->form->samples);
    return peak > 0 && rss.at_bytes[peak - 1] > rss.at_bytes[peak] ? peak - 1 : peak;
}

uint32_t ht_snapshot_choose(const struct ht_snapshot_times *times, const struct ht_built_form *built,
                            struct ht_rss_samples rss, struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX]) {
    struct choosing choosing = {.moment = moment};
    if (!built->form->samples) return 0;
    uint32_t peak = peak_of(built, rss);
    if (times->peak) add(&choosing, peak, "peak");
    if (times->end) add(&choosing, built->form->samples - 1, "end");
    for (uint32_t i = 0; i < times->count; i++) add(&choosing, sample_at(built, times->at_ns[i]), "time");
    if (times->jumps) add_jumps(&choosing, built, rss.at_bytes, rss.at_bytes[peak]);
    return choosing.count;
}
