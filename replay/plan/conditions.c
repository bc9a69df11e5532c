#include "conditions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (conditions->count == HT_CONDITIONS_MAX) return "expected at most 32 conditions";
    if (strlen(text) >= sizeof condition.text) return "expected a shorter condition, such as time>1.05";
    strcpy(condition.text, text);
    condition.figure = figure_named(name, (size_t)(at - name));
    if (condition.figure < 0)
        return "expected one of time, rss_peak, rss_mean, rss_end, process_rss_peak, such as time>1.05";
    at += strspn(at, " ");
    if (*at != '<' && *at != '>') return "expected one of > >= < <= after the figure, such as time>1.05";
    condition.above = *at++ == '>';
    condition.inclusive = *at == '=';
    at += condition.inclusive;
    char *end = NULL;
    condition.limit = strtod(at, &end);
    // strtod would also take hexadecimal, which compare does not.
    bool decimal = end > at && strspn(at, "+-.0123456789eE ") >= (size_t)(end - at);
    if (!decimal || end[strspn(end, " ")] || !isfinite(condition.limit) || condition.limit <= 0) {
        return "expected a ratio above 0 after the operator, such as time>1.05";
    }
    conditions->list[conditions->count++] = condition;
    return NULL;
}
