#include "snapshot_choice.h"

#include "run_figures.h"

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

// Where the largest rise ended that begins after no rise taken before: rises of whole stretches of the samples.
static void add_jumps(struct choosing *choosing, const struct ht_built_form *built, const uint64_t *rss_bytes,
                      uint64_t peak_bytes) {
    uint32_t samples = built->form->samples, step = samples / STRETCHES + 1;
    uint32_t taken[HT_SNAPSHOT_JUMPS];
    for (uint32_t jump = 0; jump < HT_SNAPSHOT_JUMPS; jump++) {
        int64_t highest = (int64_t)((double)peak_bytes * JUMP_SHARE_MIN);
        uint32_t best = 0;
        for (uint32_t i = step; i < samples; i += step) {
            bool before = false;
            for (uint32_t k = 0; k < jump; k++) before = before || taken[k] == i;
            int64_t rise = above_live(built, rss_bytes, i) - above_live(built, rss_bytes, i - step);
            if (before || rise <= highest) continue;
            highest = rise;
            best = i;
        }
        if (!best) return;
        taken[jump] = best;
        add(choosing, best, "jump");
    }
}

// The last sample that is not later.
static uint32_t sample_at(const struct ht_built_form *built, uint64_t at_ns) {
    uint32_t sample = 0;
    for (uint32_t i = 0; i < built->form->samples && built->points[i].time_ns <= at_ns; i++) sample = i;
    return sample;
}

uint32_t ht_snapshot_choose(const struct ht_snapshot_times *times, const struct ht_built_form *built,
                            const uint64_t *rss_bytes, struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX]) {
    struct choosing choosing = {.moment = moment};
    if (!built->form->samples) return 0;
    uint32_t peak = (uint32_t)ht_peak_sample(built, rss_bytes, built->form->samples);
    if (times->peak) add(&choosing, peak, "peak");
    if (times->end) add(&choosing, built->form->samples - 1, "end");
    for (uint32_t i = 0; i < times->count; i++) add(&choosing, sample_at(built, times->at_ns[i]), "time");
    if (times->jumps) add_jumps(&choosing, built, rss_bytes, rss_bytes[peak]);
    return choosing.count;
}
