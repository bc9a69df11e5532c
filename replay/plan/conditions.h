// Conditions for scripts: --fail-if 'time>1.05' is met where an allocator's ratio to the baseline is shown to
// be above 1.05.
#ifndef HEAPTAPE_CONDITIONS_H
#define HEAPTAPE_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "compared_figure.h"

enum { HT_CONDITIONS_MAX = 32 };

struct ht_condition {
    char text[64];  // as given
    int figure;     // enum ht_figure
    bool above;     // > or >=; else < or <=
    bool inclusive;
    double limit;
};

struct ht_conditions {
    struct ht_condition list[HT_CONDITIONS_MAX];
    size_t count;
};

// Adds FIGURE OPERATOR NUMBER. Returns what is wrong with it, or NULL.
const char *ht_fail_if_add(struct ht_conditions *conditions, const char *text);

#endif
