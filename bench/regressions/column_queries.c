// SPDX-License-Identifier: Apache-2.0
// Queries of a database that stores columns: each makes intermediate columns above 8 MiB, reads them once and frees them.
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 2000000, QUERIES = 40 };

static void *column(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) exit(1);
    return block;
}

static double query(const double *base, int number) {
    double *scaled = column(ROWS * sizeof *scaled);
    for (int i = 0; i < ROWS; i++) scaled[i] = base[i] * number;
    // Rows that qualify: a little more room for each query, as a growing table needs.
    unsigned *rows = column((ROWS + (size_t)number * 1024) * sizeof *rows + ROWS);
    unsigned count = 0;
    for (unsigned i = 0; i < ROWS; i++)
        if (scaled[i] > 500.0 * number) rows[count++] = i;
    double *found = column(ROWS * sizeof *found), sum = 0;
    for (unsigned i = 0; i < count; i++) found[i] = scaled[rows[i]];
    free(scaled);
    for (unsigned i = 0; i < count; i++) sum += found[i];
    free(rows);
    free(found);
    return sum;
}

int main(void) {
    double *base = column(ROWS * sizeof *base), sum = 0;
    for (int i = 0; i < ROWS; i++) base[i] = (double)i * 7 / 1000;
    for (int number = 1; number <= QUERIES; number++) sum += query(base, number);
    printf("%g\n", sum);
    free(base);
    return 0;
}
