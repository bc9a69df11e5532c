// SPDX-License-Identifier: Apache-2.0
#include "standing.h"

#include <math.h>
#include <string.h>

// One allocator's verdict against another: as the table has it where one of them is the baseline.
static enum ht_verdict verdict_against(const struct ht_comparison *c, enum ht_figure figure, size_t choice,
                                       size_t other) {
    if (other == c->baseline) return ht_estimate_of(&c->allocators[choice], figure)->verdict;
    return ht_compare_pair(c, figure, choice, other).verdict;
}

static bool measured(const struct ht_comparison *c, enum ht_figure figure, size_t choice) {
    return !isnan(ht_estimate_of(&c->allocators[choice], figure)->median);
}

// By name where ratios are equal: results, of which the Python package takes the leader, have no other order.
static bool before(const struct ht_comparison *c, enum ht_figure figure, size_t one, size_t other) {
    double mine = ht_estimate_of(&c->allocators[one], figure)->ratio.estimate;
    double theirs = ht_estimate_of(&c->allocators[other], figure)->ratio.estimate;
    const struct ht_choice *list = c->plan->choices.list;
    return mine < theirs || (mine == theirs && strcmp(list[one].name, list[other].name) < 0);
}

static int leader_of(const struct ht_comparison *c, enum ht_figure figure) {
    int leader = -1;
    for (size_t i = 0; i < c->count; i++) {
        if (ht_estimate_of(&c->allocators[i], figure)->verdict != HT_VERDICT_LESS) continue;
        if (leader < 0 || before(c, figure, i, (size_t)leader)) leader = (int)i;
    }
    return leader < 0 ? (int)c->baseline : leader;
}

struct ht_standing ht_standing_of(const struct ht_comparison *c, enum ht_figure figure) {
    struct ht_standing standing = {.leader = -1};
    if (c->baseline >= c->count || !measured(c, figure, c->baseline)) return standing;
    standing.leader = leader_of(c, figure);
    size_t leader = (size_t)standing.leader;
    for (size_t i = 0; i < c->count; i++) {
        if (i == leader || i == c->baseline || !measured(c, figure, i)) continue;
        if (ht_estimate_of(&c->allocators[i], figure)->verdict == HT_VERDICT_MORE) continue;
        standing.tied[i] = verdict_against(c, figure, i, leader) != HT_VERDICT_MORE;
        standing.tied_count += standing.tied[i];
    }
    return standing;
}

struct ht_estimate ht_standing_lead(const struct ht_comparison *c, enum ht_figure figure,
                                    const struct ht_standing *standing, size_t over) {
    if (standing->leader < 0 || (size_t)standing->leader == over || standing->tied[over])
        return (struct ht_estimate){.ratio = {1, NAN, NAN, 0}, .verdict = HT_VERDICT_NONE};
    if (over == c->baseline) return *ht_estimate_of(&c->allocators[standing->leader], figure);
    return ht_compare_pair(c, figure, (size_t)standing->leader, over);
}
