// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "apart.h"
#include "chunks.h"
#include "large_blocks.h"
#include "log_file.h"
#include "memory_sample.h"
#include "own_memory.h"
#include "process_memory.h"
#include "seal.h"
#include "settings.h"
#include "sys.h"

enum {
    // A sample is due when one part in this many of RssAnon, or at least so much, has been allocated: more
    // while RssAnon stays as it is.
    SAMPLE_SHARE = 200,
    SAMPLE_STEP_BYTES_MIN = 64 << 10,
    SAMPLE_STEP_BYTES_MAX = 256 << 10,
    // A smaller change of RssAnon than one part in this many is none.
    CHANGE_SHARE = 1000,
    // A sample takes 5 us, or 0.1 ms and more where there are other threads (apart.h). While there is no new peak, those
    // that are due by time may take one part in so many of the run, those among them before which there was no fault, so
    // that memory can only have shrunk, one in so many, and those that are due by allocations one in so many.
    TIME_COST_SHARE = 50,
    IDLE_COST_SHARE = 250,
    GROWTH_COST_SHARE = 20,
    // RssAnon that grew by so much more than a page a fault shows that faults bring huge pages. Less may be the
    // lag of the kernel's counters.
    HUGE_PAGES_SHOW_BYTES = 1 << 20,
    // So much more or less of RssAnon, and one part in SAMPLE_SHARE, is the same moment: the kernel's counters may lag by it.
    MOVED_BYTES_MIN = 256 << 10,
    // A thread that has had no more CPU time is young.
    YOUNG_NS = 50000000
};
// A reading takes some 2 us.
#define READING_STAMPS_MAX (STAMPS_PER_S / 20000)

// How much is to be allocated until the next sample.
static int64_t next_step(struct recording *recording, uint64_t anon) {
    uint64_t last = recording->sample_last_bytes, change = anon > last ? anon - last : last - anon;
    uint64_t step = change > anon / CHANGE_SHARE ? 0 : recording->sample_step_bytes * 2,
             share = anon / SAMPLE_SHARE;
    if (step < SAMPLE_STEP_BYTES_MIN) step = SAMPLE_STEP_BYTES_MIN;
    if (step > SAMPLE_STEP_BYTES_MAX) step = SAMPLE_STEP_BYTES_MAX;
    recording->sample_step_bytes = step;
    return (int64_t)(step > share ? step : share);
}

// What a sample, or a check for a peak, needs where it is taken, which may be another process (apart.h).
struct sampling {
    struct thread_state *t;
    uint64_t stamp, cpu_ns, faults;
    uint64_t end_stamp;  // of the block whose end comes next in the log: the sample is no later; 0: none does
    bool final;
};

// Faults of the program since the last sample: all of RssAnon that was added, and some that was freed again.
static uint64_t new_faults(const struct recording *recording, uint64_t faults) {
    if (faults == FAULTS_UNKNOWN) return UINT64_C(1) << 32;  // more than any peak
    uint64_t others = recording->sample_faults + recording->log_faults;
    return faults > others ? faults - others : 0;
}

// A page of the kernel's tables that are one level up: 2 MiB where pages have 4 KiB.
static uint64_t huge_page_bytes(void) { return settings.page_bytes / 8 * settings.page_bytes; }

// Not by the first sample: what was there before it, a forked child's parent has faulted in.
static void learn_fault_bytes(struct recording *recording, uint64_t faults, uint64_t anon) {
    if (!recording->sample_last_bytes) return;
    uint64_t most = recording->sample_last_bytes + new_faults(recording, faults) * settings.page_bytes;
    if (anon > most + HUGE_PAGES_SHOW_BYTES) recording->faults_are_huge = true;
}

// RssAnon, and when it was so.
struct reading {
    uint64_t stamp, anon;
};

// Other threads change RssAnon: one that lost the processor between the reading and its stamp reads again.
static struct reading read_anonymous(void) {
    enum { TRIES_MAX = 4 };
    struct reading reading;
    uint64_t before, tries = 0;
    do {
        before = stamp_now();
        reading.anon = rss_anonymous_bytes();
        reading.stamp = stamp_now();
    } while (reading.stamp - before > READING_STAMPS_MAX && ++tries < TRIES_MAX);
    return reading;
}

static bool is_same_moment(uint64_t a, uint64_t b) {
    uint64_t low = a < b ? a : b;
    return a + b - 2 * low <= MOVED_BYTES_MIN + low / SAMPLE_SHARE;
}

// The program's own part of it, counted after it. If other threads have changed RssAnon meanwhile, the count is of another
// moment, mostly because this one lost the processor: it is taken once more. If it is the same then, it was so in between, when
// RssAnon was read again, though where the rest lies was not; else it is not fresh. If the program's own is not known, the
// pieces of the rest are.
static struct own_answer read_own(const struct sampling *of, struct reading *reading) {
    struct recording *recording = of->t->recording;
    struct own_answer answer = {0};
    for (unsigned tries = 0; tries < 2; tries++) {
        uint64_t bytes_before = answer.bytes;
        struct own_question question = {.stamp = of->stamp,
                                        .anonymous_bytes = reading->anon,
                                        .is_peak = reading->anon > recording->sample_peak_bytes,
                                        .final = of->final};
        answer = own_bytes(&question);
        if (!answer.fresh || apart_is_alone()) return answer;
        struct reading after = read_anonymous();
        if (is_same_moment(after.anon, reading->anon)) return answer;
        if (answer.pieces) own_pieces_done();
        answer.pieces = false;
        if (tries && is_same_moment(answer.bytes, bytes_before)) return answer;
        answer.fresh = false;
        *reading = after;
    }
    return answer;
}

static void put_sample(const struct sampling *of, struct reading reading) {
    struct thread_state *t = of->t;
    struct recording *recording = t->recording;
    clock_note_pair(recording->header, &recording->pair_taken);
    // Without /proc there is no sample; 0 would be a wrong one.
    if (reading.anon) {
        learn_fault_bytes(recording, of->faults, reading.anon);
        struct own_answer own = read_own(of, &reading);
        uint64_t ours = recorder_memory_bytes();
        uint64_t word[5] = {of->end_stamp ? of->end_stamp : reading.stamp,
                            reading.anon > ours ? reading.anon - ours : 0, own.bytes, of->cpu_ns, own.fresh};
        if (own.pieces) {
            heap_pieces_put(t, reading.stamp);
            own_pieces_done();
        } else if (!own.fresh) {
            heap_pieces_put_bound(t, reading.stamp, own_mapped_bytes());
        }
        if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_SAMPLE, word, 5);
    }
    t->sample_budget_bytes = next_step(recording, reading.anon);
    recording->sample_last_bytes = reading.anon;
    if (of->faults != FAULTS_UNKNOWN) recording->sample_faults = of->faults - recording->log_faults;
    if (reading.anon > recording->sample_peak_bytes) recording->sample_peak_bytes = reading.anon;
}

static void sample_apart(void *argument) {
    const struct sampling *of = argument;
    put_sample(of, read_anonymous());
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

// The last samples' cost. One that waited for a processor does not count in full.
static void note_cost(struct recording *recording, uint64_t counts) {
    uint64_t stamps = counts >> CLOCK_SHIFT, before = recording->sample_cost_stamps;
    if (stamps > SAMPLE_INTERVAL_STAMPS_MIN) stamps = SAMPLE_INTERVAL_STAMPS_MIN;
    recording->sample_cost_stamps = before ? (7 * before + stamps) / 8 : stamps;
}

// Is a sample worth its cost? Each step towards a new peak is. Where enough was allocated, but in the place of
// freed blocks, there were no faults, and a sample would show nothing.
static bool is_worth_it(struct thread_state *t, uint64_t stamp, uint64_t faults, bool by_time) {
    struct recording *recording = t->recording;
    uint64_t last = recording->sample_last_bytes, peak = recording->sample_peak_bytes;
    uint64_t fault_bytes = recording->faults_are_huge ? huge_page_bytes() : settings.page_bytes;
    uint64_t grown = new_faults(recording, faults) * fault_bytes;
    if (last + grown > peak + peak / SAMPLE_SHARE) return true;
    if (!by_time && grown <= last / CHANGE_SHARE) {
        t->sample_budget_bytes = next_step(recording, last);
        return false;
    }
    uint64_t share = !by_time ? GROWTH_COST_SHARE : grown ? TIME_COST_SHARE : IDLE_COST_SHARE;
    return stamp >= recording->sample_last_stamp + share * recording->sample_cost_stamps;
}

uint32_t memory_sample_skips;

// Never so often that asking the kernel would show: of all threads one at a time. A thread that has allocated enough asks
// again when it may.
static bool may_ask(struct thread_state *t, uint64_t stamp, uint64_t last_sample, bool grown) {
    struct recording *recording = t->recording;
    uint64_t asked = atomic_load_explicit(&recording->asked_last_stamp, memory_order_relaxed),
             after = (last_sample > asked ? last_sample : asked) + SAMPLE_GAP_STAMPS;
    if (stamp >= after) return atomic_compare_exchange_strong(&recording->asked_last_stamp, &asked, stamp);
    if (grown) {
        t->sample_budget_bytes = SAMPLE_WAITS;
        if (after < t->sample_due_stamp) t->sample_due_stamp = after;
    }
    return false;
}

// Where there are several threads, one that samples waits for ours, and holds up those that map memory: threads begin and
// end at other times than they would, and get other arenas. So young threads are left alone while others sample.
// Such a one asks again when nobody has sampled for long, or when it may have run for long enough.
static bool is_left_alone(struct thread_state *t, uint64_t stamp, bool grown) {
    const struct recording *recording = t->recording;
    if (apart_is_alone() || t->chunk->tid == recording->pid) return false;
    uint64_t last = recording->sample_last_stamp, begun = recording->header->first_pair.stamp,
             until = (last ? last : begun) + SAMPLE_INTERVAL_STAMPS_MAX;
    uint64_t cpu_ns = stamp < until ? clock_thread_cpu_ns() : YOUNG_NS;
    if (cpu_ns >= YOUNG_NS) return false;
    uint64_t old = stamp + (YOUNG_NS - cpu_ns) * (STAMPS_PER_S / 1000000) / 1000;
    t->sample_due_stamp = old < until ? old : until;
    if (grown) t->sample_budget_bytes = SAMPLE_WAITS;
    return true;
}

void memory_sample(struct thread_state *t, uint64_t stamp, bool final) {
    struct recording *recording = t->recording;
    uint64_t last = atomic_load_explicit(&recording->sample_last_stamp, memory_order_relaxed);
    uint64_t interval = sample_interval(recording, stamp);
    // Where another thread has just sampled, time is no reason.
    bool by_time = final || stamp >= last + interval, grown = t->sample_budget_bytes < 0;
    t->sample_due_stamp = (by_time ? stamp : last) + interval;
    if (grown) t->sample_budget_bytes = SAMPLE_STEP_BYTES_MIN;
    log_heed_control(recording);
    if (!final && !((by_time || grown) && may_ask(t, stamp, last, grown))) return;
    if (!recorder_may_call() && !(seal_rules_filter_out() && recorder_may_call())) {
        t->sample_budget_bytes = INT64_MAX;
        return;
    }
    if ((!final && is_left_alone(t, stamp, grown)) || apart_must_not_wait()) {
        recorder_has_called();
        return;
    }
    uint64_t before = clock_counter();
    struct sampling of = {.t = t, .stamp = stamp, .final = final, .faults = sys_faults_of_process()};
    if (!recorder_is_borrowed() &&  // the child's CPU time is not its parent's
        (final || is_worth_it(t, stamp, of.faults, by_time)) &&
        // One thread at a time.
        (atomic_compare_exchange_strong(&recording->sample_last_stamp, &last, stamp) || final)) {
        int saved = errno;
        of.cpu_ns = clock_process_cpu_ns();
        if (!run_apart(sample_apart, &of, sizeof of)) put_off(t, stamp);
        note_cost(recording, clock_counter() - before);
        errno = saved;
    }
    recorder_has_called();
    upkeep_took(recording->header, before);
}

static void peak_apart(void *argument) {
    const struct sampling *of = argument;
    const struct recording *recording = of->t->recording;
    struct reading reading = read_anonymous();
    if (reading.anon > recording->sample_peak_bytes + recording->sample_peak_bytes / SAMPLE_SHARE)
        put_sample(of, reading);
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
void memory_sample_before_free(struct thread_state *t, uint64_t touched_bytes, uint64_t end_stamp) {
    struct recording *recording = t->recording;
    uint64_t stamp = stamp_now(), last = recording->peak_last_stamp;
    if (t != &self || touched_bytes < recording->sample_last_bytes / SAMPLE_SHARE ||
        stamp < last + PEAK_GAP_STAMPS || !recorder_may_call())
        return;
    uint64_t before = clock_counter(), most = most_resident_bytes();
    bool higher = most > recording->most_resident_bytes;
    if ((higher || stamp >= last + SAMPLE_INTERVAL_STAMPS_MIN) && !recorder_is_borrowed() &&
        !apart_must_not_wait() && atomic_compare_exchange_strong(&recording->peak_last_stamp, &last, stamp)) {
        struct sampling of = {.t = t,
                              .stamp = stamp,
                              .cpu_ns = clock_process_cpu_ns(),
                              .faults = sys_faults_of_process(),
                              .end_stamp = end_stamp};
        recording->most_resident_bytes = most;
        run_apart(peak_apart, &of, sizeof of);
    }
    recorder_has_called();
    upkeep_took(recording->header, before);
}
