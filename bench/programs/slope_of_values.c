// SPDX-License-Identifier: Apache-2.0
// Prints the slope of the values that it reads, per step from one to the next, and its 95 % interval. 6 to 64 values.
#include <stdio.h>

#include "slope.h"

int main(void) {
    double values[SLOPE_VALUES_MAX];
    size_t count = 0;
    while (count < SLOPE_VALUES_MAX && scanf("%lf", &values[count]) == 1) count++;
    if (count < SLOPE_VALUES_MIN) {
        fprintf(stderr, "slope_of_values: expected %d values or more, found %zu\n", SLOPE_VALUES_MIN, count);
        return 2;
    }
    struct slope slope = slope_of(values, count);
    printf("%.17g %.17g %.17g\n", slope.step, slope.low, slope.high);
    return 0;
}
