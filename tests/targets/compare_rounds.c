// SPDX-License-Identifier: Apache-2.0
// What the replay's comparison makes of figures that a test has made up. Usage: compare_rounds ROUNDS NAME... <FIGURES
// The first allocator is the baseline. On standard input, round by round: for each allocator, then for the control, the
// time, the peak, mean and end RSS, and the peak of the process; a time or a peak of nan is a pass that failed. Prints a line for each figure and
// allocator, then one for each figure's control and leader.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "standing.h"

static double number(void) {
    char word[64];
    char *end;
    if (scanf("%63s", word) != 1) exit(3);
    double value = strtod(word, &end);
    if (*end) exit(3);
    return value;
}

static void read_cell(struct ht_cell *cell) {
    cell->time.alloc_time_ns = number();
    cell->memory.rss_peak_bytes = number();
    cell->memory.rss_mean_bytes = number();
    cell->memory.rss_end_bytes = number();
    cell->memory.process_rss_peak_bytes = number();
    cell->time_ok = !isnan(cell->time.alloc_time_ns);
    cell->memory_ok = !isnan(cell->memory.rss_peak_bytes);
}

static void print_figure(const struct ht_comparison *c, enum ht_figure figure) {
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_estimate *e = ht_estimate_of(&c->allocators[i], figure);
        printf("estimate %u %zu %.17g %.17g %zu %.17g %.17g %.17g %.17g %.17g %u %.17g %zu\n", figure, i,
               e->median, e->minimum, e->ratio.count, e->ratio.estimate, e->ratio.low, e->ratio.high,
               e->widened.low, e->widened.high, e->verdict, e->more_rounds, e->outliers_count);
    }
    const struct ht_interval *control = &c->controls[figure];
    printf("control %u %.17g %.17g %.17g %zu\n", figure, control->estimate, control->low, control->high,
           control->count);
    struct ht_standing standing = ht_standing_of(c, figure);
    printf("leader %u %d", figure, standing.leader);
    for (size_t i = 0; i < c->count; i++) {
        if (standing.tied[i]) printf(" %zu", i);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc < 3 || argc - 2 > HT_CHOICES_MAX) return 2;
    struct ht_measurements measurements = {.rounds = (uint32_t)atoi(argv[1]), .choices = (size_t)argc - 2};
    struct ht_comparison *comparison = calloc(1, sizeof *comparison);
    struct ht_plan *plan = calloc(1, sizeof *plan);
    measurements.cells = calloc(measurements.rounds * (measurements.choices + 2), sizeof *measurements.cells);
    struct ht_recorded_program *program = calloc(1, sizeof *program);
    if (!comparison || !plan || !program || !measurements.cells) return 2;
    for (int i = 2; i < argc; i++)
        strncpy(plan->choices.list[i - 2].name, argv[i], sizeof plan->choices.list->name - 1);
    comparison->plan = plan;
    comparison->program = program;
    for (uint32_t round = 0; round < measurements.rounds; round++) {
        for (size_t who = 1; who < measurements.choices + 2; who++)
            read_cell(ht_cell_of(&measurements, round, who));
    }
    if (!ht_compare(&measurements, comparison)) return 1;
    for (int figure = 0; figure < HT_FIGURES; figure++) print_figure(comparison, (enum ht_figure)figure);
    ht_comparison_free(comparison);
    free(measurements.cells);
    free(program);
    free(plan);
    free(comparison);
    return 0;
}
