// SPDX-License-Identifier: Apache-2.0
#include "against.h"

#include <math.h>
#include <string.h>

#include "counted_figure.h"

enum { ROUNDS_MAX = 4096 };  // of either run: the first ones

bool ht_is_compared(const struct ht_comparison *c, size_t choice) {
    return c->earlier || choice != c->baseline;
}

static const char *name_of(const struct ht_comparison *c, size_t choice) {
    return c->plan->choices.list[choice].name;
}

static struct ht_against of_counts(double now, double then) {
    double ratio = then > 0 ? now / then : NAN;
    struct ht_interval exact = {ratio, ratio, ratio, isnan(ratio) ? 0u : 1u};
    return (struct ht_against){now, then, exact, exact};
}

static struct ht_against counted(const struct ht_comparison *c, const struct ht_condition *condition,
                                 size_t choice) {
    const char *name = name_of(c, choice);
    const json_t *then = c->earlier ? json_object_get(ht_earlier_of(c->earlier, name), "counts")
                                    : json_object_get(c->counts, name_of(c, c->baseline));
    return of_counts(ht_counted_figure(json_object_get(c->counts, name), condition),
                     ht_counted_figure(then, condition));
}

static double median_of(const double *values, size_t count) {
    static double sorted[ROUNDS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    return ht_median(sorted, count);
}

static struct ht_interval over(const double *values, size_t count, double by) {
    static double ratios[ROUNDS_MAX];
    for (size_t i = 0; i < count; i++) ratios[i] = values[i] / by;
    return ht_ratio_interval(ratios, count, ht_confidence);
}

// Rounds of two runs are not pairs: each run's own rounds say how far its median may be off.
static struct ht_against of_runs(const struct ht_comparison *c, enum ht_figure figure, size_t choice) {
    static double now[ROUNDS_MAX], then[ROUNDS_MAX];
    const json_t *entry = ht_earlier_of(c->earlier, name_of(c, choice));
    size_t count = 0, then_count = ht_earlier_values(entry, ht_figure_words[figure].key, then, ROUNDS_MAX);
    if (c->measurements && c->measurements->rounds <= ROUNDS_MAX)
        count = ht_compared_values(c->measurements, figure, choice, now);
    struct ht_against made = {.now = median_of(now, count), .then = median_of(then, then_count)};
    if (!(made.then > 0)) return of_counts(made.now, NAN);
    made.ratio = over(now, count, made.then);
    struct ht_interval error = over(then, then_count, made.then);
    made.widened = ht_widened(&made.ratio, &error);
    return made;
}

struct ht_against ht_against(const struct ht_comparison *c, const struct ht_condition *condition,
                             size_t choice) {
    if (condition->counted) return counted(c, condition, choice);
    enum ht_figure figure = (enum ht_figure)condition->figure;
    if (c->earlier) return of_runs(c, figure, choice);
    const struct ht_estimate *mine = ht_estimate_of(&c->allocators[choice], figure);
    const struct ht_estimate *base = ht_estimate_of(&c->allocators[c->baseline], figure);
    return (struct ht_against){mine->median, base->median, mine->ratio, mine->widened};
}
