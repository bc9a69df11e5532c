// SPDX-License-Identifier: Apache-2.0
#include "choice_figures.h"

#include <stdlib.h>

struct ht_choice_figures *ht_choice_figures_new(size_t choices) {
    return calloc(choices + 1, sizeof(struct ht_choice_figures));
}

void ht_choice_figures_free(struct ht_choice_figures *figures, size_t choices) {
    for (size_t i = 0; figures && i <= choices; i++) {
        ht_latencies_free(&figures[i].latencies);
        ht_accounting_figures_free(&figures[i].accounting);
    }
    free(figures);
}

const char *ht_syscalls_missing(const struct ht_choice_figures *figures) {
    if (figures->syscalls_counted) return NULL;
    if (figures->syscalls_problem[0]) return figures->syscalls_problem;
    return figures->problem[0] ? figures->problem : "the warm-up failed";
}
