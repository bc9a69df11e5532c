// Slopes: right where there is one, and rarely seen where there is none, even if neighbouring values are alike.
#include "unit_support.h"

#include <math.h>

#include "slope.h"

static double normal(uint64_t *seed) {
    double sum = 0;
    for (unsigned i = 0; i < 12; i++) sum += (double)(unit_random(seed) % 1000003) / 1000003;
    return sum - 6;
}

// Of how many series of noise a slope is seen; alike: how much of a value comes from the one before.
static unsigned seen(double alike, double slope, size_t count) {
    enum { SERIES = 1000 };
    uint64_t seed = 3;
    unsigned resolved = 0;
    for (unsigned i = 0; i < SERIES; i++) {
        double values[64], last = normal(&seed) / sqrt(1 - alike * alike);
        for (size_t k = 0; k < count; k++) {
            values[k] = 100 + slope * (double)k + last;
            last = alike * last + normal(&seed);
        }
        struct slope fitted = slope_of(values, count);
        resolved += slope_resolved(&fitted) && (slope == 0 || fitted.step > 0);
    }
    return resolved;
}

static void noise_has_no_slope(void **state) {
    (void)state;
    assert_in_range(seen(0, 0, 64), 5, 60);  // of 1000: 5 % at most are meant
    assert_in_range(seen(0, 0, 20), 5, 60);
    assert_true(seen(0.5, 0, 64) < 80);
    assert_true(seen(0.8, 0, 64) < 120);
}

static void a_slope_is_found(void **state) {
    (void)state;
    double line[20];
    for (unsigned i = 0; i < 20; i++) line[i] = 7 + 3 * i;
    struct slope slope = slope_of(line, 20);
    assert_true(fabs(slope.step - 3) < 1e-9 && slope.low <= 3 + 1e-9 && slope.high >= 3 - 1e-9);
    assert_true(fabs(slope.mean - 35.5) < 1e-9);
    assert_true(seen(0, 0.05, 64) > 980);
}

static void slopes_differ_where_they_do(void **state) {
    (void)state;
    struct slope flat = {.step = 0, .low = -1, .high = 1}, steep = {.step = 3, .low = 2, .high = 4},
                 near = {.step = 1, .low = 0, .high = 2};
    assert_true(slopes_differ(&flat, &steep) && slopes_differ(&steep, &flat));
    assert_false(slopes_differ(&flat, &near));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_has_no_slope),
        cmocka_unit_test(a_slope_is_found),
        cmocka_unit_test(slopes_differ_where_they_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
