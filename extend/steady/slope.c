#include "slope.h"

#include <assert.h>
#include <math.h>

// Student's t at 97.5 %, by the first terms of its expansion in 1/df around the normal quantile: 1 % off at 3 degrees of
// freedom, less above.
static double t_quantile(double df) {
    const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    double first = (z3 + z) / 4, second = (5 * z5 + 16 * z3 + 3 * z) / 96,
           third = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384;
    return z + first / df + second / (df * df) + third / (df * df * df);
}

struct slope slope_of(const double *values, size_t count) {
    assert(count >= SLOPE_VALUES_MIN);
    double n = (double)count, middle = (n - 1) / 2, sum = 0, cross = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    double mean = sum / n;
    for (size_t i = 0; i < count; i++) {
        double x = (double)i - middle;
        cross += x * (values[i] - mean);
        squares += x * x;
    }
    double step = cross / squares, residuals = 0, neighbours = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        double residual = values[i] - mean - step * ((double)i - middle);
        residuals += residual * residual;
        if (i) neighbours += residual * last;
        last = residual;
    }
    // Where neighbours are alike, there are fewer independent values than it seems. Fitting the line makes them look less alike
    // than they are, hence the second term.
    double alike = residuals > 0 ? neighbours / residuals + 4 / n : 0;
    if (alike < 0) alike = 0;
    if (alike > 0.95) alike = 0.95;
    double independent = n * (1 - alike) / (1 + alike);
    double df = fmax(independent - 2, 3);
    double error = sqrt(residuals / (n - 2) / squares * (1 + alike) / (1 - alike));
    double half = t_quantile(df) * error;
    return (struct slope){.mean = mean, .step = step, .low = step - half, .high = step + half};
}

bool slopes_differ(const struct slope *a, const struct slope *b) {
    return fabs(a->step - b->step) > hypot((a->high - a->low) / 2, (b->high - b->low) / 2);
}
