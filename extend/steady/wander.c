// SPDX-License-Identifier: Apache-2.0
#include "wander.h"

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
