// Samples of the program's memory between its calls: RssAnon along the run, the part of it that the
// program mapped for itself, and how much of a large block was ever touched. Every figure comes from the
// kernel.
#include <errno.h>

#include "apart.h"
#include "append_cost.h"
#include "memory_sample.h"
#include "own_memory.h"
#include "process_memory.h"
#include "residency.h"
#include "settings.h"
#include "sys.h"

enum {
    // A sample is due when one part in this many of RssAnon, or at least so much, has been allocated: more
    // while RssAnon stays as it is.
    SAMPLE_SHARE = 200,
    SAMPLE_STEP_BYTES_MIN = 64 << 10,
    SAMPLE_STEP_BYTES_MAX = 256 << 10
};

// How much is to be allocated until the next sample.
static int64_t next_step(struct recording *recording, uint64_t anon) {
    uint64_t last = recording->sample_last_bytes, change = anon > last ? anon - last : last - anon;
    uint64_t step = change > anon / 1000 ? 0 : recording->sample_step_bytes * 2, share = anon / SAMPLE_SHARE;
    if (step < SAMPLE_STEP_BYTES_MIN) step = SAMPLE_STEP_BYTES_MIN;
    if (step > SAMPLE_STEP_BYTES_MAX) step = SAMPLE_STEP_BYTES_MAX;
    recording->sample_step_bytes = step;
    return (int64_t)(step > share ? step : share);
}

// What a sample, or a check for a peak, needs where it is taken, which may be another process (apart.h).
struct sampling {
    struct thread_state *t;
    uint64_t stamp, cpu_ns;
    bool final;
};

static void put_sample(const struct sampling *of, uint64_t anon) {
    struct thread_state *t = of->t;
    struct recording *recording = t->recording;
    bool fresh;
    clock_note_pair(recording->header, &recording->pair_taken);
    // Without /proc there is no sample; 0 would be a wrong one.
    if (anon) {
        uint64_t own_rss = own_bytes(of->stamp, anon, of->final, &fresh);
        uint64_t word[5] = {of->stamp, anon, own_rss, of->cpu_ns, fresh};
        if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_SAMPLE, word, 5);
    }
    t->sample_budget_bytes = next_step(recording, anon);
    recording->sample_last_bytes = anon;
    if (anon > recording->sample_peak_bytes) recording->sample_peak_bytes = anon;
}

static void sample_apart(void *argument) {
    const struct sampling *of = argument;
    put_sample(of, rss_anonymous_bytes());
    if (of->final) append_cost_measure(of->t->recording->header);
    else residency_probe(of->t, of->stamp);
}

// The kernel grants no thread (its limits are reached): the next try is later, and there is no sample.
static void put_off(struct thread_state *t, uint64_t stamp) {
    struct recording *recording = t->recording;
    t->sample_budget_bytes = next_step(recording, recording->sample_last_bytes);
    atomic_store(&recording->sample_last_stamp, stamp + SAMPLE_INTERVAL_STAMPS_MAX);
    clock_note_pair(recording->header, &recording->pair_taken);
}

// One part in a hundred of the run so far, within limits.
static uint64_t sample_interval(const struct recording *recording, uint64_t stamp) {
    uint64_t interval = (stamp - recording->header->first_pair.stamp) / 100;
    if (interval < SAMPLE_INTERVAL_STAMPS_MIN) return SAMPLE_INTERVAL_STAMPS_MIN;
    return interval < SAMPLE_INTERVAL_STAMPS_MAX ? interval : SAMPLE_INTERVAL_STAMPS_MAX;
}

void memory_sample(struct thread_state *t, uint64_t stamp, bool final) {
    struct recording *recording = t->recording;
    uint64_t last = atomic_load_explicit(&recording->sample_last_stamp, memory_order_relaxed);
    uint64_t interval = sample_interval(recording, stamp), gap = SAMPLE_GAP_STAMPS;
    bool grown = t->sample_budget_bytes < 0;
    t->sample_due_stamp = stamp + interval;
    recorder_heed_control(recording);
    // One thread at a time, and never so often that sampling itself would show. Where others have just
    // sampled, time alone is no reason.
    if (!grown) gap = interval;
    if (!final && (stamp < last + gap ||
                   !atomic_compare_exchange_strong(&recording->sample_last_stamp, &last, stamp))) {
        if (grown) t->sample_budget_bytes = SAMPLE_STEP_BYTES_MIN;
        else if (last < stamp) t->sample_due_stamp = last + interval;
        return;
    }
    if (!recorder_may_call()) {
        t->sample_budget_bytes = INT64_MAX;
        return;
    }
    if (recorder_is_borrowed()) {  // the child's CPU time is not its parent's
        t->sample_budget_bytes = SAMPLE_STEP_BYTES_MIN;
        recorder_has_called();
        return;
    }
    int saved = errno;
    struct sampling of = {t, stamp, clock_process_cpu_ns(), final};
    uint64_t before = clock_counter();
    if (!run_apart(sample_apart, &of, sizeof of)) put_off(t, stamp);
    recorder_has_called();
    __atomic_fetch_add(&recording->header->upkeep_counts, clock_counter() - before, __ATOMIC_RELAXED);
    errno = saved;
}

static void peak_apart(void *argument) {
    const struct sampling *of = argument;
    const struct recording *recording = of->t->recording;
    uint64_t anon = rss_anonymous_bytes();
    if (anon > recording->sample_peak_bytes + recording->sample_peak_bytes / SAMPLE_SHARE)
        put_sample(of, anon);
}

// The most that was ever resident, of files too; it never falls.
static uint64_t most_resident_bytes(void) {
    struct rusage usage;
    if (raw_syscall(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0)) return UINT64_MAX;
    return (uint64_t)usage.ru_maxrss << 10;
}

// An allocation is sampled before it is touched. Many small ones are in the next sample; a large one may be
// gone by then. A check pays where more is resident than ever before; else what is resident of
// files may have gone, which is checked less often.
void memory_sample_before_free(struct thread_state *t, uint64_t touched_bytes) {
    struct recording *recording = t->recording;
    uint64_t stamp = stamp_now(), last = recording->peak_last_stamp;
    if (t != &self || touched_bytes < recording->sample_last_bytes / SAMPLE_SHARE ||
        stamp < last + PEAK_GAP_STAMPS || !recorder_may_call())
        return;
    uint64_t before = clock_counter(), most = most_resident_bytes();
    bool higher = most > recording->most_resident_bytes;
    if (!recorder_is_borrowed() && (higher || stamp >= last + SAMPLE_INTERVAL_STAMPS_MIN) &&
        atomic_compare_exchange_strong(&recording->peak_last_stamp, &last, stamp)) {
        struct sampling of = {t, stamp, clock_process_cpu_ns(), false};
        recording->most_resident_bytes = most;
        run_apart(peak_apart, &of, sizeof of);
    }
    recorder_has_called();
    __atomic_fetch_add(&recording->header->upkeep_counts, clock_counter() - before, __ATOMIC_RELAXED);
}
