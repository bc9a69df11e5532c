// SPDX-License-Identifier: Apache-2.0
#include "outliers.h"

#include <math.h>

#include "ratio_interval.h"

static const double score_max = 3.5, mad_of_normal = 0.6745, mean_deviation_of_normal = 1.253314;

size_t ht_outliers(const double *values, size_t count, double *scratch, bool *flags) {
    size_t known = 0, found = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        flags[i] = false;
        if (!isnan(values[i])) scratch[known++] = values[i];
    }
    if (known == 0) return 0;
    double middle = ht_median(scratch, known);
    for (size_t i = 0; i < known; i++) sum += scratch[i] = fabs(scratch[i] - middle);
    double deviation = ht_median(scratch, known) / mad_of_normal;
    if (deviation == 0) deviation = sum / (double)known * mean_deviation_of_normal;
    for (size_t i = 0; i < count && deviation > 0; i++) {
        flags[i] = fabs(values[i] - middle) / deviation > score_max;
        found += flags[i];
    }
    return found;
}
