// SPDX-License-Identifier: Apache-2.0
#include "ratio_interval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"

enum { RESAMPLES = 9999, BOOTSTRAP_SEED = 20817 };
static const double same_within = 0.01;
const double ht_confidence = 0.95, ht_interim_confidence = 0.995;

// Two-sided 95 % quantiles of Student's t for 1 to 4 degrees of freedom.
static const double t_quantiles[] = {12.706, 4.303, 3.182, 2.776};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ht_median(double *values, size_t count) {
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// The value at a rank, counted in how often each of the sorted values was drawn.
static double at_rank(const double *sorted, const uint32_t *drawn, size_t rank) {
    size_t i = 0;
    for (size_t passed = drawn[0]; passed <= rank; passed += drawn[i]) i++;
    return sorted[i];
}

static double resampled_median(const double *sorted, uint32_t *drawn, size_t count,
                               struct ht_random *random) {
    memset(drawn, 0, count * sizeof *drawn);
    for (size_t i = 0; i < count; i++) drawn[ht_random_below(random, (uint32_t)count)]++;
    double upper = at_rank(sorted, drawn, count / 2);
    return count % 2 ? upper : (at_rank(sorted, drawn, count / 2 - 1) + upper) / 2;
}

// Between the two values that it falls between.
static double quantile(const double *sorted, size_t count, double share) {
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (sorted[below + 1] - sorted[below]) * (at - (double)below);
}

// How many of the least and of the greatest values lie outside of the interval of order statistics that holds
// the median at least as often as confidence says, whatever the distribution (binomial).
static size_t outside(size_t count, double confidence) {
    double n = (double)count, below = 0;
    size_t k = 0;
    for (; k < (count - 1) / 2; k++) {
        double i = (double)k;
        below += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * M_LN2);
        if (2 * below > 1 - confidence) break;
    }
    return k ? k - 1 : 0;
}

// Medians of few values, resampled, fall on few points, so that their quantiles jump: the order statistics
// are the least width.
static void bootstrap(const double *sorted, double confidence, struct ht_interval *interval) {
    struct ht_random random = {BOOTSTRAP_SEED};
    size_t count = interval->count;
    double *medians = malloc(RESAMPLES * sizeof *medians);
    uint32_t *drawn = malloc(count * sizeof *drawn);
    if (medians && drawn) {
        for (int i = 0; i < RESAMPLES; i++) medians[i] = resampled_median(sorted, drawn, count, &random);
        qsort(medians, RESAMPLES, sizeof *medians, by_value);
        size_t k = outside(count, confidence);
        interval->low = fmin(quantile(medians, RESAMPLES, (1 - confidence) / 2), sorted[k]);
        interval->high = fmax(quantile(medians, RESAMPLES, (1 + confidence) / 2), sorted[count - 1 - k]);
    }
    free(medians);
    free(drawn);
}

// Even the range from the least to the greatest of so few holds the median less often than 95 % of the time,
// so that no resampling could be honest. The median lies inside except for rounding.
static void student(const double *ratios, struct ht_interval *interval) {
    double mean = 0, squares = 0, count = (double)interval->count;
    for (size_t i = 0; i < interval->count; i++) mean += log(ratios[i]) / count;
    for (size_t i = 0; i < interval->count; i++) squares += (log(ratios[i]) - mean) * (log(ratios[i]) - mean);
    double half = t_quantiles[interval->count - 2] * sqrt(squares / (count - 1)) / sqrt(count);
    interval->low = fmin(exp(mean - half), interval->estimate);
    interval->high = fmax(exp(mean + half), interval->estimate);
}

struct ht_interval ht_ratio_interval(const double *ratios, size_t count, double confidence) {
    struct ht_interval interval = {NAN, NAN, NAN, 0};
    double *sorted = malloc((count ? count : 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++) {
        if (isfinite(ratios[i]) && ratios[i] > 0) sorted[interval.count++] = ratios[i];
    }
    if (sorted) interval.estimate = ht_median(sorted, interval.count);
    if (interval.count >= HT_BOOTSTRAP_ROUNDS_MIN) bootstrap(sorted, confidence, &interval);
    else if (interval.count > 1) student(sorted, &interval);
    free(sorted);
    return interval;
}

struct ht_interval ht_widened(const struct ht_interval *ratio, const struct ht_interval *control) {
    struct ht_interval widened = *ratio;
    if (isnan(ratio->low) || isnan(control->low)) return widened;
    double error = fmax(fabs(log(control->low)), fabs(log(control->high))), middle = log(ratio->estimate);
    widened.low = exp(middle - hypot(middle - log(ratio->low), error));
    widened.high = exp(middle + hypot(log(ratio->high) - middle, error));
    return widened;
}

enum ht_verdict ht_verdict(const struct ht_interval *widened) {
    if (isnan(widened->estimate)) return HT_VERDICT_NONE;
    if (isnan(widened->low)) return HT_VERDICT_UNRESOLVED;
    if (widened->low >= 1 - same_within && widened->high <= 1 + same_within) return HT_VERDICT_SAME;
    if (widened->high < 1) return HT_VERDICT_LESS;
    if (widened->low > 1) return HT_VERDICT_MORE;
    return HT_VERDICT_UNRESOLVED;
}

double ht_more_rounds(const struct ht_interval *widened) {
    if (isnan(widened->low) || widened->count < 2) return NAN;
    double half = (log(widened->high) - log(widened->low)) / 2, centre = fabs(log(widened->estimate));
    double target = fmax(centre, log1p(same_within) - centre), count = (double)widened->count;
    return fmax(1, ceil(count * half * half / (target * target) - count));
}

const char *ht_more_rounds_text(double more_rounds, char text[64]) {
    if (more_rounds > HT_MORE_ROUNDS_MAX) return "needs over 1,000 more rounds";
    snprintf(text, 64, "needs about %.0f more round%s", more_rounds, more_rounds == 1 ? "" : "s");
    return text;
}
