#include "fail_if_text.h"

#include <math.h>

#include "error.h"
#include "fail_if.h"
#include "print.h"

static void say_place(FILE *out, const struct ht_comparison *c, size_t who, const struct ht_estimate *e) {
    const struct ht_choice *list = c->plan->choices.list;
    ht_print(out, "%s is at %.3f [%.3f, %.3f] of %s", list[who].name, e->ratio.estimate, e->widened.low,
             e->widened.high, list[c->baseline].name);
}

// What would decide it, as far as that is known.
static void say_undecided(FILE *out, const struct ht_comparison *c, const struct ht_condition *condition,
                          size_t who, const struct ht_estimate *e) {
    const char *name = c->plan->choices.list[who].name;
    char text[64];
    if (e->ratio.count == 0) {
        ht_print(out, "undecided: %s has no round in common with the baseline", name);
        return;
    }
    if (isnan(e->widened.low)) {
        ht_print(out, "undecided: %s is at %.3f of %s in one round, which has no interval: --rounds 12", name,
                 e->ratio.estimate, c->plan->choices.list[c->baseline].name);
        return;
    }
    fputs("undecided: ", out);
    say_place(out, c, who, e);
    double more = ht_fail_if_more_rounds(condition, &e->widened);
    ht_print(out, "; %s", ht_more_rounds_text(more, text));
    if (more <= HT_MORE_ROUNDS_MAX) ht_print(out, ": --rounds %.0f", ceil(1.2 * (more + (double)c->rounds)));
}

int ht_fail_if_say(FILE *out, const struct ht_comparison *c) {
    int status = HT_EXIT_DONE;
    for (size_t i = 0; i < c->plan->conditions.count; i++) {
        const struct ht_condition *condition = &c->plan->conditions.list[i];
        for (size_t k = 0; k < c->count; k++) {
            const struct ht_estimate *e =
                ht_estimate_of(&c->allocators[k], (enum ht_figure)condition->figure);
            enum ht_condition_state state = ht_fail_if_state(condition, &e->widened);
            if (k == c->baseline || state == HT_CONDITION_REFUTED) continue;
            ht_print(out, "heaptape replay: --fail-if %s: ", condition->text);
            if (state == HT_CONDITION_HOLDS) say_place(out, c, k, e);
            else say_undecided(out, c, condition, k, e);
            fputc('\n', out);
            if (state == HT_CONDITION_HOLDS) status = HT_EXIT_HOLDS;
            else if (status == HT_EXIT_DONE) status = HT_EXIT_UNDECIDED;
        }
    }
    return status;
}
