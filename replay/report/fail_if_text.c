// SPDX-License-Identifier: Apache-2.0
#include "fail_if_text.h"

#include <math.h>

#include "against.h"
#include "error.h"
#include "fail_if.h"
#include "print.h"

static const char *compared_with(const struct ht_comparison *c) {
    return c->earlier ? c->earlier->path : c->plan->choices.list[c->baseline].name;
}

static void say_place(FILE *out, const struct ht_comparison *c, const struct ht_condition *condition,
                      size_t who, const struct ht_against *found) {
    const char *name = c->plan->choices.list[who].name;
    if (condition->counted) {
        ht_print(out, "%s is at %.4f of %s: %.0f, was %.0f", name, found->ratio.estimate, compared_with(c),
                 found->now, found->then);
        return;
    }
    ht_print(out, "%s is at %.3f [%.3f, %.3f] of %s", name, found->ratio.estimate, found->widened.low,
             found->widened.high, compared_with(c));
}

// What would decide it, as far as that is known.
static void say_undecided(FILE *out, const struct ht_comparison *c, const struct ht_condition *condition,
                          size_t who, const struct ht_against *found) {
    const char *name = c->plan->choices.list[who].name;
    char text[64];
    if (condition->counted) {
        ht_print(out, "undecided: %s", name);
        if (isnan(found->now) || isnan(found->then)) fputs(" was not counted", out);
        else ht_print(out, ": %s has none of these instructions, calls or misses", compared_with(c));
        return;
    }
    if (found->ratio.count == 0) {
        ht_print(out,
                 "undecided: %s has no round in which it and the baseline both have that figure, above 0",
                 name);
        return;
    }
    if (isnan(found->widened.low)) {
        ht_print(out, "undecided: %s is at %.3f of %s in one round, which has no interval: --rounds 12", name,
                 found->ratio.estimate, compared_with(c));
        return;
    }
    fputs("undecided: ", out);
    say_place(out, c, condition, who, found);
    double more = ht_fail_if_more_rounds(condition, &found->widened);
    ht_print(out, "; %s", ht_more_rounds_text(more, text));
    if (more <= HT_MORE_ROUNDS_MAX) ht_print(out, ": --rounds %.0f", ceil(1.2 * (more + (double)c->rounds)));
}

int ht_fail_if_say(FILE *out, const struct ht_comparison *c) {
    int status = HT_EXIT_DONE;
    for (size_t i = 0; i < c->plan->conditions.count; i++) {
        const struct ht_condition *condition = &c->plan->conditions.list[i];
        for (size_t k = 0; k < c->count; k++) {
            struct ht_against found = ht_against(c, condition, k);
            enum ht_condition_state state = ht_fail_if_state(condition, &found.widened);
            if (!ht_is_compared(c, k) || state == HT_CONDITION_REFUTED) continue;
            ht_print(out, "heaptape replay: --fail-if %s: ", condition->text);
            if (state == HT_CONDITION_HOLDS) say_place(out, c, condition, k, &found);
            else say_undecided(out, c, condition, k, &found);
            fputc('\n', out);
            if (state == HT_CONDITION_HOLDS) status = HT_EXIT_HOLDS;
            else if (status == HT_EXIT_DONE) status = HT_EXIT_UNDECIDED;
        }
    }
    return status;
}
