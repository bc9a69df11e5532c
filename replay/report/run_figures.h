// SPDX-License-Identifier: Apache-2.0
// From what a child reported, and what the null child of the same round reported, to the figures of one run.
#ifndef HEAPTAPE_RUN_FIGURES_H
#define HEAPTAPE_RUN_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "child_figures.h"
#include "form_builder.h"
#include "kernel_listener.h"
#include "latency_figures.h"
#include "replay_job.h"

// What the timed pass of one child showed, summed by function.
struct ht_timed_function {
    uint64_t count, call_ticks, touch_ticks;  // of the readings that count; each includes a clock reading
};

struct ht_timed_readings {
    struct ht_timed_function functions[HT_FUNCTIONS];
    uint64_t taken, dropped;  // dropped: the thread was switched out meanwhile
    uint64_t clock_cost_ticks;
    double ns_per_tick;  // NaN where nothing ran
};

// readings: built->form->readings of them, as the child left them.
void ht_timed_readings_sum(const struct ht_built_form *built, const struct ht_reading *readings,
                           const struct ht_outcome *outcome, struct ht_timed_readings *sum);

// Mean time in ns of one call of a function, or of the first touch of what it returned, the clock's own cost
// off. NaN where none was timed.
double ht_timed_mean_ns(const struct ht_timed_readings *sum, int function, bool touch);

// A figure that was not measured is NaN here and null in JSON, never 0.
struct ht_function_figures {
    uint64_t count;
    double time_ns, touch_ns;  // of all calls of the function together
};

struct ht_time_figures {
    double alloc_time_ns, harness_time_ns, touch_time_ns, wait_time_ns, wall_ns, ns_per_call;
    double clock_cost_ns;
    uint64_t timed_calls, timed_calls_dropped;
    struct ht_function_figures functions[HT_FUNCTIONS];
};

// What a child read, by sample point.
struct ht_rss_samples {
    const uint64_t *at_bytes;
    const uint64_t *high_bytes;  // the highest since the point before, within calls too; NULL: as at_bytes
};

struct ht_memory_figures {
    double rss_peak_bytes, rss_mean_bytes, rss_end_bytes, rss_start_bytes;
    double rss_between_calls_peak_bytes;  // at sample points alone
    bool watched;                         // RSS was read within calls
    int watch_refusal;                    // why not: errno, or 0
    // With what the program held itself at the same moments; NaN where that is not known.
    double process_rss_peak_bytes, process_rss_end_bytes;
    double fragmentation[4];  // Johnstone & Wilson's F1 to F4
    double wait_time_ns, wall_ns;
    uint64_t *rss_bytes;   // by sample point, the null replayer's taken off
    uint64_t *high_bytes;  // likewise, the highest since the point before; in the memory of rss_bytes
    size_t count;
    size_t peak_sample;  // of the points that high_bytes is most of, that where most is live
};

// flat and timed: what the two children of a time pass showed; null_*: the null replayer, or the same
// pointers where this is the null replayer's own run. cold: the caches were polluted before each timed call,
// so the total is what the timed calls extrapolate to, and not the flat run's.
void ht_time_figures(const struct ht_built_form *built, const struct ht_outcome *flat,
                     const struct ht_timed_readings *timed, const struct ht_outcome *null_flat,
                     const struct ht_timed_readings *null_timed, bool cold, struct ht_time_figures *figures);

// Of the form's samples the one where this RSS is most, and of several such where most is live.
size_t ht_peak_sample(const struct ht_built_form *built, const uint64_t *rss_bytes, size_t samples);

// The null replayer's time as a share of all that was measured. NaN in its own figures, and in those of
// nothing.
double ht_harness_share(const struct ht_time_figures *figures);

// rss, null_rss: samples of this child and of the null child; null_rss NULL for the null's own run, whose
// figures are then all of its anonymous memory. own: the recorded program's own memory by sample, or NULL. What was watched is
// not set.
// Returns false without memory.
bool ht_memory_figures(const struct ht_built_form *built, const struct ht_outcome *outcome,
                       struct ht_rss_samples rss, const struct ht_outcome *null_outcome,
                       const uint64_t *null_rss, const uint64_t *own, struct ht_memory_figures *figures);

// What the kernel and the processor counted over a flat run.
struct ht_counter_figures {
    double perf[HT_PERF_EVENTS];  // NaN where not counted
    bool user_only;               // the processor's counters leave out what the kernel did
    uint32_t refusal;             // errno that says why the processor's are missing, 0 if none is
    double voluntary_switches, involuntary_switches;
};

extern const char *const ht_perf_names[HT_PERF_EVENTS];

// Why a counter cannot be had, for people.
const char *ht_perf_refusal_text(uint32_t refusal);

// null: the null replayer's of the same round, or NULL for its own. Its counts are taken off those of the
// processor, because they are the harness's work; those of the scheduler are reported as they are.
void ht_counter_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                        struct ht_counter_figures *figures);

// What of the memory was left at the end of a memory run, after freeing everything, and after a purge.

// Bytes, NaN where not measured.
struct ht_leftover_figures {
    double rss_after_free_bytes, rss_after_purge_bytes;
    double lazyfree_bytes, anon_huge_bytes, swap_bytes;                 // at the end
    double lazyfree_peak_bytes, anon_huge_peak_bytes, swap_peak_bytes;  // where RSS was most, as far as read
};

// null: the null replayer's of the same round, whose bytes are taken off, or NULL for its own.
void ht_leftover_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                         struct ht_leftover_figures *figures);

// What the accounting pass of one allocator showed.
struct ht_accounting_figures {
    struct ht_child_figures *child;  // NULL: nothing was measured
    int64_t *slop_bytes;             // by sample of RSS
    uint64_t *untouched_bytes;       // likewise: of what is usable, what the replay did not write to
    // Usable less requested, of what is live: where most is live, on average over trace time, at the end.
    // NaN where the allocator doesn't report what is usable.
    double slop_peak_bytes, slop_mean_bytes, slop_end_bytes;
};

// samples, untouched: as the child left them, built->form->samples of each. Returns false without memory.
bool ht_accounting_figures(const struct ht_built_form *built, const struct ht_child_figures *child,
                           const uint64_t *samples, const uint64_t *untouched,
                           struct ht_accounting_figures *figures);
// The report nearest to where most was live, or NULL.
const struct ht_report_row *ht_report_at_peak(const struct ht_accounting_figures *figures);
void ht_accounting_figures_free(struct ht_accounting_figures *figures);

// What the resident memory of a run is made of (docs/method/method.md), the same for every allocator.

// Bytes, NaN where not known. rss = requested + internal - untouched + other, without internal where that is
// not known. Any difference can be less than 0, and is reported so.
struct ht_decomposition_part {
    double rss_bytes;
    double requested_bytes;  // of what is live
    double internal_bytes;   // usable beyond that
    double untouched_bytes;  // of both: pages that the replay did not write to, so that none need be resident
    double other_bytes;      // caches, external fragmentation, metadata
    double lazyfree_bytes;   // of rss_bytes
    double in_call_bytes;    // of other_bytes: what RSS within a call was above RSS after it
};

struct ht_decomposition {
    struct ht_decomposition_part peak, end;      // where RSS is most; when all has been replayed
    double after_free_bytes, after_purge_bytes;  // RSS
};

// memory: with its samples. accounting: of the same allocator.
void ht_decompose(const struct ht_built_form *built, const struct ht_memory_figures *memory,
                  const struct ht_leftover_figures *leftovers, const struct ht_accounting_figures *accounting,
                  struct ht_decomposition *decomposition);

// What is known of an allocator besides its rounds.
struct ht_choice_figures {
    bool tried;                     // the accounting pass has been run, or the warm-up failed
    char problem[256];              // why it failed, or empty
    char hung[256];                 // if it hangs, what was said of it in the warm-up
    struct ht_latencies latencies;  // of all rounds
    struct ht_accounting_figures accounting;
    bool syscalls_counted;
    char syscalls_problem[256];
    struct ht_syscall_counts syscalls;     // those of the null replayer off
    struct ht_child_figures flat, memory;  // the null replayer's: of the latest flat and memory turns
};

// One for the null replayer and one for each choice. Returns NULL without memory.
struct ht_choice_figures *ht_choice_figures_new(size_t choices);
void ht_choice_figures_free(struct ht_choice_figures *figures, size_t choices);
// Why its system calls were not counted; NULL if they were.
const char *ht_syscalls_missing(const struct ht_choice_figures *figures);

#endif
