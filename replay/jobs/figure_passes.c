// SPDX-License-Identifier: Apache-2.0
#include "figure_passes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child_run.h"
#include "older_libc.h"

// A replay whose system calls are counted is given so long: nobody waits for hours for a count.
enum { COUNTING_NS_PER_OPERATION = 1000 };
static const uint64_t counting_ns = 10000000000u;

struct ht_choice_figures *ht_choice_figures_of(struct ht_runner *r, const struct ht_choice *choice) {
    struct ht_choice_figures *all = r->of_choices;
    return choice == r->null_choice ? &all[0] : &all[1 + (choice - r->plan->choices.list)];
}

void ht_figures_of_flat(struct ht_runner *r, const struct ht_turn *turn) {
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_child_figures *null = &r->of_choices[0].flat;
    bool own = turn->who == HT_WHO_NULL;
    if (own) *null = r->channel.exchange->figures;
    ht_counter_figures(&r->channel.exchange->figures, own ? NULL : null, &cell->counters);
}

bool ht_figures_of_timed(struct ht_runner *r, const struct ht_turn *turn, struct ht_latencies *latencies) {
    const struct ht_outcome *outcome = &r->channel.exchange->outcome;
    bool control = turn->who > r->plan->choices.count;
    if (ht_latencies_add(latencies, r->built, r->channel.readings, outcome)) return false;
    return control || !ht_latencies_merge(&r->of_choices[turn->who].latencies, latencies);
}

bool ht_figures_of_memory(struct ht_runner *r, const struct ht_turn *turn) {
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_child_figures *null = &r->of_choices[0].memory;
    bool own = turn->who == HT_WHO_NULL;
    if (own) *null = r->channel.exchange->figures;
    ht_leftover_figures(&r->channel.exchange->figures, own ? NULL : null, &cell->leftovers);
    if (own) return false;
    size_t choice = turn->who > r->plan->choices.count ? r->baseline : turn->who - 1;
    const struct ht_accounting_figures *accounting = &r->of_choices[1 + choice].accounting;
    ht_decompose(r->built, &cell->memory, &cell->leftovers, accounting, &cell->decomposition);
    return accounting->child != NULL;
}

static void take_off(struct ht_syscall_counts *counts, const struct ht_syscall_counts *null) {
    for (int i = 0; i < HT_SYSCALLS; i++) {
        counts->calls[i] -= null->calls[i] < counts->calls[i] ? null->calls[i] : counts->calls[i];
        counts->bytes[i] -= null->bytes[i] < counts->bytes[i] ? null->bytes[i] : counts->bytes[i];
    }
}

void ht_note_hung(struct ht_runner *r, const struct ht_choice *choice, const char *problem) {
    struct ht_choice_figures *figures = ht_choice_figures_of(r, choice);
    if (r->channel.hung) snprintf(figures->hung, sizeof figures->hung, "in the warm-up it %.200s", problem);
}

// Runs the pass, with its system calls counted if that can be had. False if the count took too long.
static bool run_counted(struct ht_runner *r, const struct ht_choice *choice, struct ht_random *random,
                        bool *replayed, struct ht_choice_figures *figures) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_ACCOUNT);
    uint64_t limit_ns = counting_ns + r->built->form->operations * COUNTING_NS_PER_OPERATION;
    bool over_limit = false;
    // Where the child is shown other processors, that filter has the only listener that a process can have.
    struct ht_syscall_counter *counter =
        ht_syscall_count_start(limit_ns, !job.processors, &job.syscall_socket, figures->syscalls_problem,
                               sizeof figures->syscalls_problem);
    job.counted = counter && job.processors;
    r->channel.counter = counter;
    *replayed =
        ht_child_run(&r->channel, choice, &job, -1, random, figures->problem, sizeof figures->problem);
    r->channel.counter = NULL;
    if (!counter) return true;
    figures->syscalls_counted = ht_syscall_count_stop(counter, &figures->syscalls, &over_limit);
    int refusal = r->channel.exchange->figures.filter_refusal;
    if (over_limit) {
        snprintf(figures->syscalls_problem, sizeof figures->syscalls_problem,
                 "the counted replay took more than %llu s", (unsigned long long)(limit_ns / 1000000000u));
    } else if (!figures->syscalls_counted) {
        snprintf(figures->syscalls_problem, sizeof figures->syscalls_problem, "%s",
                 refusal ? strerrordesc_np(refusal) : "the counted replay did not start");
    }
    return !over_limit;
}

static void account(struct ht_runner *r, const struct ht_choice *choice, struct ht_random *random,
                    struct ht_choice_figures *figures) {
    const struct ht_choice_figures *null = &r->of_choices[0];
    bool replayed;
    if (!run_counted(r, choice, random, &replayed, figures) && !ht_child_interrupted()) {
        struct ht_job job = ht_runner_job_at_once(r, HT_PASS_ACCOUNT);
        job.syscall_socket = -1;
        replayed =
            ht_child_run(&r->channel, choice, &job, -1, random, figures->problem, sizeof figures->problem);
    }
    if (!replayed) {
        ht_note_hung(r, choice, figures->problem);
        figures->syscalls_counted = false;
        return;
    }
    figures->problem[0] = 0;
    if (figures != null && figures->syscalls_counted) take_off(&figures->syscalls, &null->syscalls);
    if (!ht_accounting_figures(r->built, &r->channel.exchange->figures, r->channel.rss_bytes,
                               r->channel.untouched_bytes, &figures->accounting)) {
        snprintf(figures->problem, sizeof figures->problem, "no memory for its figures");
    }
}

// Without any of these nobody gets to see what the pass shows, which takes as long as a replay.
static bool figures_are_shown(const struct ht_plan *plan) {
    return plan->results_path || plan->json || plan->verbose;
}

void ht_figure_passes(struct ht_runner *r, const struct ht_choice *choice) {
    struct ht_choice_figures *figures = ht_choice_figures_of(r, choice);
    if (figures->tried || ht_child_interrupted()) return;
    figures->tried = true;
    struct ht_random random = r->random;
    ht_random_next(&r->random);  // what is drawn later is the same whether the pass runs or not
    if (figures_are_shown(r->plan)) account(r, choice, &random, figures);
}
