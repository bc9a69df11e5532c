#include "standing.h"

#include <math.h>

// One allocator's verdict against another: as the table has it where one of them is the baseline.
static enum ht_verdict verdict_against(const struct ht_comparison *c, enum ht_figure figure, size_t choice,
                                       size_t other) {
    if (other == c->baseline) return ht_estimate_of(&c->allocators[choice], figure)->verdict;
    return ht_compare_pair(c, figure, choice, other).verdict;
}

static bool measured(const struct ht_comparison *c, enum ht_figure figure, size_t choice) {
    return !isnan(ht_estimate_of(&c->allocators[choice], figure)->median);
}

static int leader_of(const struct ht_comparison *c, enum ht_figure figure) {
    int leader = (int)c->baseline;
    double least = INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_estimate *estimate = ht_estimate_of(&c->allocators[i], figure);
        if (estimate->verdict != HT_VERDICT_LESS || !(estimate->ratio.estimate < least)) continue;
        least = estimate->ratio.estimate;
        leader = (int)i;
    }
    return leader;
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
