#include "fail_if.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"

static int figure_named(const char *name, size_t length) {
    for (int i = 0; i < HT_FIGURES; i++) {
        const char *known = ht_figure_words[i].name;
        if (strlen(known) == length && !strncmp(known, name, length)) return i;
    }
    return -1;
}

const char *ht_fail_if_add(struct ht_conditions *conditions, const char *text) {
    struct ht_condition condition = {0};
    const char *name = text + strspn(text, " "), *at = name + strcspn(name, " <>=");
    if (conditions->count == HT_CONDITIONS_MAX) return "at most 32 conditions expected";
    if (strlen(text) >= sizeof condition.text) return "a shorter condition expected, such as time>1.05";
    strcpy(condition.text, text);
    condition.figure = figure_named(name, (size_t)(at - name));
    if (condition.figure < 0) return "one of time, rss_peak, rss_mean, rss_end expected, such as time>1.05";
    at += strspn(at, " ");
    if (*at != '<' && *at != '>') return "one of > >= < <= expected after the figure, such as time>1.05";
    condition.above = *at++ == '>';
    condition.inclusive = *at == '=';
    at += condition.inclusive;
    char *end = NULL;
    condition.limit = strtod(at, &end);
    // strtod would also take hexadecimal, which compare does not.
    bool decimal = end > at && strspn(at, "+-.0123456789eE ") >= (size_t)(end - at);
    if (!decimal || end[strspn(end, " ")] || !isfinite(condition.limit) || condition.limit <= 0) {
        return "a ratio above 0 expected after the operator, such as time>1.05";
    }
    conditions->list[conditions->count++] = condition;
    return NULL;
}

// The comparison at one end of the interval.
static bool holds(const struct ht_condition *condition, double ratio) {
    if (condition->inclusive && ratio == condition->limit) return true;
    return condition->above ? ratio > condition->limit : ratio < condition->limit;
}

enum ht_condition_state ht_fail_if_state(const struct ht_condition *condition,
                                         const struct ht_interval *widened) {
    if (isnan(widened->low) || isnan(widened->high)) return HT_CONDITION_UNDECIDED;
    bool low = holds(condition, widened->low), high = holds(condition, widened->high);
    if (low != high) return HT_CONDITION_UNDECIDED;
    return low ? HT_CONDITION_HOLDS : HT_CONDITION_REFUTED;
}

double ht_fail_if_more_rounds(const struct ht_condition *condition, const struct ht_interval *widened) {
    if (isnan(widened->low) || isnan(widened->high) || widened->count < 2) return NAN;
    double half = (log(widened->high) - log(widened->low)) / 2, count = (double)widened->count;
    double distance = fabs(log(widened->estimate) - log(condition->limit));
    if (!(distance > 0)) return INFINITY;
    return fmax(1, ceil(count * half * half / (distance * distance) - count));
}

bool ht_fail_if_open(const struct ht_conditions *conditions, int figure, const struct ht_interval *widened) {
    for (size_t i = 0; i < conditions->count; i++) {
        const struct ht_condition *condition = &conditions->list[i];
        if (condition->figure != figure) continue;
        if (ht_fail_if_state(condition, widened) == HT_CONDITION_UNDECIDED) return true;
    }
    return false;
}
