// SPDX-License-Identifier: Apache-2.0
// Slopes: right where there is one, and rarely seen where there is none, even if the level wanders.
#include "unit_support.h"

#include <math.h>

#include "slope.h"

static double normal(uint64_t *seed) {
    double sum = 0;
    for (unsigned i = 0; i < 12; i++) sum += (double)(unit_random(seed) % 1000003) / 1000003;
    return sum - 6;
}

enum { SERIES = 500, FINE = 8 };

// A level that wanders, and comes back to 0 in so many steps (0: there is none), upon which each value has noise of that size
// (in parts of what the level scatters); a slope is a change over the whole series in parts of the whole scatter. Values are means.
struct series {
    size_t count;
    double back_steps, noise, slope;
};

static void draw(const struct series *series, double *values, uint64_t *seed) {
    double stays = series->back_steps > 0 ? exp(-1 / (series->back_steps * FINE)) : 0, level = normal(seed);
    double scatter = series->back_steps > 0 ? hypot(1, series->noise) : series->noise;
    for (size_t i = 0; i < series->count; i++) {
        double sum = 0;
        for (unsigned k = 0; k < FINE; k++) {
            sum += level / FINE;
            level = stays * level + sqrt(1 - stays * stays) * normal(seed);
        }
        if (series->back_steps <= 0) sum = 0;
        values[i] = 100 + sum + series->noise * normal(seed) +
                    series->slope * scatter * (double)i / (double)(series->count - 1);
    }
}

// In how many of SERIES a slope is seen, upwards.
static unsigned seen(struct series series) {
    uint64_t seed = 3;
    unsigned resolved = 0;
    for (unsigned i = 0; i < SERIES; i++) {
        double values[SLOPE_VALUES_MAX];
        draw(&series, values, &seed);
        struct slope fitted = slope_of(values, series.count);
        resolved += slope_resolved(&fitted) && (series.slope == 0 || fitted.step > 0);
    }
    return resolved;
}

// Of 500 in which there is none 25 are meant to be seen. A walk that does not come back looks at times as if it did.
static void what_wanders_has_no_slope(void **state) {
    (void)state;
    const size_t counts[] = {20, 32, 64};
    for (unsigned i = 0; i < 3; i++) {
        size_t n = counts[i];
        assert_true(seen((struct series){n, 0, 1, 0}) <= 25);
        assert_true(seen((struct series){n, 2, 0, 0}) <= 30);
        assert_true(seen((struct series){n, (double)n / 4, 0, 0}) <= 40);
        assert_true(seen((struct series){n, (double)n, 0, 0}) <= 60);
        // The noise hides that the level is alike from value to value.
        assert_true(seen((struct series){n, (double)n / 2, 1, 0}) <= 50);
        assert_true(seen((struct series){n, (double)n, 1, 0}) <= 60);
    }
}

static void a_slope_is_found(void **state) {
    (void)state;
    double line[20];
    for (unsigned i = 0; i < 20; i++) line[i] = 7 + 3 * i;
    struct slope slope = slope_of(line, 20);
    assert_true(fabs(slope.step - 3) < 1e-9 && slope.low <= 3 + 1e-9 && slope.high >= 3 - 1e-9);
    assert_true(fabs(slope.plain - 3) < 1e-9 && slope.plain_error < 1e-9);
    assert_true(fabs(slope.mean - 35.5) < 1e-9);
    for (unsigned i = 0; i < 20; i++) line[i] = 7;
    slope = slope_of(line, 20);
    assert_true(slope.low <= 0 && slope.high >= 0 && slope.high < 1e-9);
    assert_true(seen((struct series){64, 0, 1, 6}) > 450);
    assert_true(seen((struct series){64, 8, 1, 12}) > 450);
    assert_true(seen((struct series){32, 0, 1, 7}) > 450);
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
        cmocka_unit_test(what_wanders_has_no_slope),
        cmocka_unit_test(a_slope_is_found),
        cmocka_unit_test(slopes_differ_where_they_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
