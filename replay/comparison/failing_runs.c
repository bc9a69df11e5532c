// SPDX-License-Identifier: Apache-2.0
#include "failing_runs.h"

#include <stdio.h>

bool ht_failing_runs_note(struct ht_failing_runs *failing, uint32_t round, const char *problem) {
    failing->runs++;
    if (!problem) return false;
    bool before = ht_failing_runs_given_up(failing);
    bool follows = failing->rounds_in_a_row && failing->last_failed_round + 1 == round;
    bool same = failing->rounds_in_a_row && failing->last_failed_round == round;
    failing->failed++;
    failing->rounds_in_a_row = same ? failing->rounds_in_a_row : follows ? failing->rounds_in_a_row + 1 : 1;
    failing->last_failed_round = round;
    snprintf(failing->problem, sizeof failing->problem, "%s", problem);
    return !before && ht_failing_runs_given_up(failing);
}
