// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ONE(n)                                                                                               \
    static int f##n(const int *a, int c) {                                                                   \
        int s = n;                                                                                           \
        for (int i = 0; i < c; i++) {                                                                        \
            s += a[i] * n ^ (s >> 3);                                                                        \
            if (s % 7 == n % 7) s -= a[c - 1 - i];                                                           \
        }                                                                                                    \
        return s;                                                                                            \
    }
#define TEN(n)                                                                                               \
    ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) int main(void) {
    int n = 1000, total = 0;
    int **rows = malloc(sizeof *rows * n);
    for (int i = 0; i < n; i++) {
        rows[i] = calloc(n, sizeof **rows);
        for (int k = 0; k < n; k++) rows[i][k] = i ^ k;
    }
    for (int i = 0; i < n; i++) total += f10(rows[i], n) + f55(rows[i], n) + f99(rows[i], n);
    for (int i = 0; i < n; i++) free(rows[i]);
    free(rows);
    printf("%d\n", total);
}
