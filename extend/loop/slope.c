// SPDX-License-Identifier: Apache-2.0
#include "slope.h"

#include <assert.h>
#include <math.h>

#define OF_TIME(steps)                                                                                       \
    {steps, 0.01}, {steps, 0.1}, {steps, 1}, { steps, INFINITY }
const struct wander wanders[WANDERS] = {{1, 0}, OF_TIME(2), OF_TIME(8), OF_TIME(32), OF_TIME(1000)};

// An Ornstein-Uhlenbeck process whose value changes by a variance of 1 in a step.
void wander_covariances(const struct wander *wander, double *covariances, size_t count) {
    double back = wander->back_steps, stays = exp(-1 / back), scale = wander->share / (2 * (1 - stays));
    if (isinf(wander->share)) scale = 1 / (2 * (1 - stays));
    covariances[0] = scale * 2 * back * (1 - back * (1 - stays)) + (isinf(wander->share) ? 0 : 1);
    double mean = scale * back * back * (1 / stays - 1) * (1 - stays);
    for (size_t i = 1; i < count; i++) covariances[i] = mean * pow(stays, (double)i);
}

// Durbin and Levinson: each value less what those before it predict.
double wander_whiten(const double *covariances, size_t count, double *const *columns, size_t columns_count) {
    double weights[WANDER_VALUES_MAX], old[WANDER_VALUES_MAX], innovations[3][WANDER_VALUES_MAX];
    double variance = covariances[0], volume = 0;
    assert(count <= WANDER_VALUES_MAX && columns_count <= 3);
    for (size_t i = 0; i < count; i++) {
        if (i) {
            double next = covariances[i];
            for (size_t k = 1; k < i; k++) next -= weights[k] * covariances[i - k];
            next /= variance;
            for (size_t k = 1; k < i; k++) old[k] = weights[k];
            for (size_t k = 1; k < i; k++) weights[k] = old[k] - next * old[i - k];
            weights[i] = next;
            variance *= 1 - next * next;
        }
        volume += log(variance);
        for (size_t c = 0; c < columns_count; c++) {
            double predicted = 0;
            for (size_t k = 1; k <= i; k++) predicted += weights[k] * columns[c][i - k];
            innovations[c][i] = (columns[c][i] - predicted) / sqrt(variance);
        }
    }
    for (size_t c = 0; c < columns_count; c++)
        for (size_t i = 0; i < count; i++) columns[c][i] = innovations[c][i];
    return volume;
}

// Student's t at 97.5 %, by the first terms of its expansion in 1/df around the normal quantile: 1 % off at 3 degrees of
// freedom, less above.
static double t_quantile(double df) {
    const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    double first = (z3 + z) / 4, second = (5 * z5 + 16 * z3 + 3 * z) / 96,
           third = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384;
    return z + first / df + second / (df * df) + third / (df * df * df);
}

// What is less likely than the best kind of wander by this much, as a logarithm, is not.
static const double LIKELY = 1;

struct fit {
    double step, half, likelihood;  // half the width of its interval
};

// Generalized least squares, and the restricted likelihood. The values less their mean.
static struct fit fit_with(const struct wander *wander, const double *values, size_t count) {
    double covariances[SLOPE_VALUES_MAX], y[SLOPE_VALUES_MAX], one[SLOPE_VALUES_MAX], x[SLOPE_VALUES_MAX];
    double n = (double)count, xx = 0, x1 = 0, x11 = 0, xy = 0, y1 = 0, residuals = 0;
    for (size_t i = 0; i < count; i++) {
        y[i] = values[i];
        one[i] = 1;
        x[i] = (double)i - (n - 1) / 2;
    }
    wander_covariances(wander, covariances, count);
    double volume = wander_whiten(covariances, count, (double *[]){y, one, x}, 3);
    for (size_t i = 0; i < count; i++) {
        xx += x[i] * x[i];
        x1 += x[i] * one[i];
        x11 += one[i] * one[i];
        xy += x[i] * y[i];
        y1 += y[i] * one[i];
    }
    double determinant = xx * x11 - x1 * x1;
    double step = (xy * x11 - y1 * x1) / determinant, level = (y1 * xx - xy * x1) / determinant;
    for (size_t i = 0; i < count; i++) residuals += pow(y[i] - level * one[i] - step * x[i], 2);
    double error = sqrt(residuals / (n - 2) * x11 / determinant);
    return (struct fit){.step = step,
                        .half = t_quantile(n - 2) * error,
                        .likelihood = -(volume + log(determinant) + (n - 2) * log(residuals)) / 2};
}

// Ordinary least squares. True if the line leaves nothing over.
static bool fit_plainly(const double *values, size_t count, double mean, double *step, double *error) {
    double middle = ((double)count - 1) / 2, cross = 0, squares = 0, residuals = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        cross += ((double)i - middle) * (values[i] - mean);
        squares += ((double)i - middle) * ((double)i - middle);
    }
    *step = cross / squares;
    for (size_t i = 0; i < count; i++) {
        residuals += pow(values[i] - mean - *step * ((double)i - middle), 2);
        all += values[i] * values[i];
    }
    *error = sqrt(residuals / ((double)count - 2) / squares);
    return residuals <= 1e-20 * all;
}

// Which kind of wander there is the values hardly tell: of the kinds that are likely, the one that says least of the slope.
struct slope slope_of(const double *values, size_t count) {
    assert(count >= SLOPE_VALUES_MIN && count <= SLOPE_VALUES_MAX);
    double sum = 0, around[SLOPE_VALUES_MAX], best = -INFINITY;
    for (size_t i = 0; i < count; i++) sum += values[i];
    struct fit fits[WANDERS], widest = {0};
    double mean = sum / (double)count, plain, plain_error;
    bool exact = fit_plainly(values, count, mean, &plain, &plain_error);
    widest.step = plain;
    if (!exact) {
        for (size_t i = 0; i < count; i++) around[i] = values[i] - mean;
        for (size_t i = 0; i < WANDERS; i++) {
            fits[i] = fit_with(&wanders[i], around, count);
            best = fmax(best, fits[i].likelihood);
        }
        for (size_t i = 0; i < WANDERS; i++)
            if (fits[i].likelihood >= best - LIKELY && fits[i].half > widest.half) widest = fits[i];
    }
    return (struct slope){.mean = mean,
                          .step = widest.step,
                          .plain = plain,
                          .plain_error = plain_error,
                          .low = widest.step - widest.half,
                          .high = widest.step + widest.half};
}

bool slopes_differ(const struct slope *a, const struct slope *b) {
    return fabs(a->step - b->step) > hypot((a->high - a->low) / 2, (b->high - b->low) / 2);
}
