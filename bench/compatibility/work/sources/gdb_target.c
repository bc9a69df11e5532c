// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

int table[100];

__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += table[i % 100];
    return sum;
}

int main(void) {
    for (int i = 0; i < 100; i++) table[i] = i * i;
    char *block = malloc(100);
    printf("%d\n", work(1000));
    free(block);
    return 4;
}
