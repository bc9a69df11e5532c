// SPDX-License-Identifier: Apache-2.0
// Figures that need a pass of their own, once for each allocator, or that gather over all rounds.
#ifndef HEAPTAPE_FIGURE_PASSES_H
#define HEAPTAPE_FIGURE_PASSES_H

#include "runner.h"

struct ht_choice_figures *ht_choice_figures_of(struct ht_runner *runner, const struct ht_choice *choice);

// What a turn that has just run shows besides time and RSS: of the flat and the memory pass into its cell, of
// the timed pass into latencies, and, except the control's, added to those of its choice. False: there is no
// memory for them.
void ht_figures_of_flat(struct ht_runner *runner, const struct ht_turn *turn);
bool ht_figures_of_timed(struct ht_runner *runner, const struct ht_turn *turn,
                         struct ht_latencies *latencies);
// True: it could be taken apart, too, for which the accounting pass of its choice must have run.
bool ht_figures_of_memory(struct ht_runner *runner, const struct ht_turn *turn);

// Runs the untimed accounting pass of this choice, the first time that it is asked to; the null replayer's
// must come first. What goes wrong is reported with the figures, and is no failed run.
void ht_figure_passes(struct ht_runner *runner, const struct ht_choice *choice);

// After a run of the warm-up that failed: if it hung, nobody waits for that again in the first round.
void ht_note_hung(struct ht_runner *runner, const struct ht_choice *choice, const char *problem);

#endif
