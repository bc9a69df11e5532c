// Figures that need a pass of their own, once for each allocator, or that gather over all rounds.
#ifndef HEAPTAPE_FIGURE_PASSES_H
#define HEAPTAPE_FIGURE_PASSES_H

#include "accounting_figures.h"
#include "latency_figures.h"
#include "syscall_count.h"

struct ht_experiment;
struct ht_choice;
struct ht_turn;

// What is known of an allocator besides its rounds.
struct ht_choice_figures {
    bool tried;                     // the accounting pass has been run
    char problem[256];              // what became of it, or empty
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
struct ht_choice_figures *ht_choice_figures_of(struct ht_experiment *experiment,
                                               const struct ht_choice *choice);

// Why its system calls were not counted; NULL if they were.
const char *ht_syscalls_missing(const struct ht_choice_figures *figures);

// What a turn that has just run shows besides time and RSS: of the flat and the memory pass into its cell, of
// the timed pass into latencies, and, but for the control's, added to those of its choice. False: there is no
// memory for them.
void ht_figures_of_flat(struct ht_experiment *experiment, const struct ht_turn *turn);
bool ht_figures_of_timed(struct ht_experiment *experiment, const struct ht_turn *turn,
                         struct ht_latencies *latencies);
// True: it could be taken apart, too, for which the accounting pass of its choice must have run.
bool ht_figures_of_memory(struct ht_experiment *experiment, const struct ht_turn *turn);

// Runs the untimed accounting pass of this choice, the first time that it is asked to; the null replayer's
// must come first. What goes wrong is told with the figures, and is no failed run.
void ht_figure_passes(struct ht_experiment *experiment, const struct ht_choice *choice);

#endif
