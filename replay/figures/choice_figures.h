// SPDX-License-Identifier: Apache-2.0
// What is known of an allocator besides its rounds.
#ifndef HEAPTAPE_CHOICE_FIGURES_H
#define HEAPTAPE_CHOICE_FIGURES_H

#include "accounting_figures.h"
#include "latency_figures.h"
#include "syscall_count.h"

struct ht_choice_figures {
    bool tried;                     // the accounting pass has been run
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
