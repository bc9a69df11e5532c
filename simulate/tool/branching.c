// SPDX-License-Identifier: GPL-3.0-or-later
// The branches of what runs, through simulated predictors: one of the allocator's and one of all else, so that in a replay,
// which has no branches of the program, the allocator's are predicted as in the program itself.
#include "tool.h"

static struct ht_branch_predictor predictors[2];
static Addr going_from;  // an indirect branch whose target is not known yet; 0: none
static enum part going_part;

static struct ht_branch_predictor *predictor_of(enum part part) {
    return &predictors[part == PART_ALLOCATOR];
}

// The line of instructions that a path begins with stands for the target.
void simulate_branch(const struct path *path, enum part part) {
    if (going_from)
        ht_branch_to(predictor_of(going_part), going_from, path->first_line, &counts.branches[going_part]);
    going_from = 0;
    if (path->branch == BRANCH_INDIRECT) {
        going_from = path->branch_address;
        going_part = part;
    } else if (path->branch != BRANCH_NONE) {
        ht_branch_taken(predictor_of(part), path->branch_address, path->branch == BRANCH_TAKEN,
                        &counts.branches[part]);
    }
}

void forget_branch_to(void) { going_from = 0; }

// The outcomes before a call are the program's.
void begin_branches_of_call(void) { ht_branch_forget_history(&predictors[1]); }
