// SPDX-License-Identifier: Apache-2.0
// What a measured child is made of, and how it is prepared for its pass.
#ifndef HEAPTAPE_MEASURED_H
#define HEAPTAPE_MEASURED_H

#include "allocator_control.h"
#include "memory_probes.h"
#include "perf_counters.h"
#include "replay_accounting.h"
#include "replay_lane.h"
#include "replay_window.h"
#include "server.h"
#include "surroundings.h"

struct ht_group_run;

struct measured {
    struct ht_server server;
    struct ht_operators operators;
    void (*replaying)(bool yes);  // reports to the null allocator whose calls come; NULL with all others
    struct ht_form *form;
    struct ht_form *before;  // replayed first, unmeasured (prelude_form.h); NULL: nothing
    struct ht_exchange *exchange;
    struct ht_job job;  // as it was asked: what the allocator does to the exchange changes nothing of it
    struct ht_window window;
    struct ht_lane *lanes;  // the streams', for each copy; and one more for what is inherited
    uint32_t streams;       // of either form at most
    uint32_t lanes_count, scale, repeats;
    uint32_t copy_slots;  // from one copy's slots to the next one's
    void **table;
    _Atomic uint32_t *dependencies;
    struct ht_verify *verify;      // NULL but in a pass that checks the allocator
    struct ht_polluter *polluter;  // or NULL
    int statm_fd;
    uint64_t start_ticks, start_ticks_ns;
    uint64_t background_cpu_before_ns;
    struct ht_perf_counters perf;
    struct ht_residency_probe residency;
    struct ht_accounting accounting;
    struct ht_snapshots snapshots;
    struct ht_purging purging;
    struct ht_obeyed obeyed;
    struct ht_ballast ballast;
    struct ht_group_run *group;  // of the group pass, or NULL; and what a lane does at its stops
    void (*stop_at)(struct ht_group_run *group, struct ht_lane *lane, uint32_t stop);
    void *watch_stack;  // of passes that read RSS: all have the same mappings, because addresses count
};

// Ends the process, with the reason in the outcome and errno's words behind it.
_Noreturn void ht_measured_refuse(struct ht_outcome *outcome, const char *what);
// Zeroed memory that is nobody's heap: shared mappings count as RssShmem. Real from the start, so that the
// replay takes no fault for it.
void *ht_shared_table(size_t bytes, struct ht_outcome *outcome);
// A descriptor by its number, which ends with a comma or the text; it is closed. NULL if it cannot be mapped.
void *ht_map_fd(const char *text, int protection, size_t *bytes);

ht_lane_run *ht_measured_run_of(uint32_t pass, bool inherited);
// i: of the streams; the form's last is what is inherited.
void ht_measured_enter_form(struct ht_lane *lane, struct ht_form *form, uint32_t i);
// Does the same for a thread.
void ht_measured_enter_thread(struct measured *run, struct ht_lane *lane, struct ht_form *form, uint32_t i);

// Tables, lanes and the window of run->form; with a table that is there already, as a forked process has it, that one.
void ht_measured_prepare(struct measured *run);
void ht_measured_prepare_figures(struct measured *run);
const uint64_t *ht_measured_live_slots(const struct measured *run);
bool ht_measured_reads_memory(const struct measured *run);

#endif
