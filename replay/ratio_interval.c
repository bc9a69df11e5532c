#include "ratio_interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };
static const double same_within = 0.01;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ht_median(double *values, size_t count) {
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct ht_interval ht_ratio_interval(const double *ratios, size_t count, struct ht_random *random) {
    struct ht_interval interval = {NAN, NAN, NAN, count};
    if (count == 0) return interval;
    double *drawn = malloc(count * sizeof *drawn), *medians = malloc(RESAMPLES * sizeof *medians);
    if (drawn && medians) {
        memcpy(drawn, ratios, count * sizeof *drawn);
        interval.estimate = ht_median(drawn, count);
    }
    if (drawn && medians && count > 1) {
        for (int i = 0; i < RESAMPLES; i++) {
            for (size_t k = 0; k < count; k++) drawn[k] = ratios[ht_random_below(random, (uint32_t)count)];
            medians[i] = ht_median(drawn, count);
        }
        qsort(medians, RESAMPLES, sizeof *medians, by_value);
        interval.low = medians[RESAMPLES * 25 / 1000];
        interval.high = medians[RESAMPLES * 975 / 1000 - 1];
    }
    free(drawn);
    free(medians);
    return interval;
}

enum ht_verdict ht_verdict(const struct ht_interval *ratio) {
    if (isnan(ratio->estimate)) return HT_VERDICT_NONE;
    if (isnan(ratio->low)) return HT_VERDICT_UNRESOLVED;
    if (ratio->low >= 1 - same_within && ratio->high <= 1 + same_within) return HT_VERDICT_SAME;
    if (ratio->high < 1) return HT_VERDICT_LESS;
    if (ratio->low > 1) return HT_VERDICT_MORE;
    return HT_VERDICT_UNRESOLVED;
}
