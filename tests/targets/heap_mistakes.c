// SPDX-License-Identifier: Apache-2.0
// Makes one mistake with the heap, which the C library may well abort for: the call is in the log by then.
// Usage: heap_mistakes double|inside|foreign|failed|zero|leak
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile size_t huge = SIZE_MAX / 2, zero = 0;
static void *volatile kept;

// The compiler sees these mistakes coming, and must not.
static void *hidden(void *block) {
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv) {
    const char *mistake = argc > 1 ? argv[1] : "";
    char *block = malloc(7111), *spare = malloc(7112);
    if (!strcmp(mistake, "double")) {
        free(block);
        free(hidden(block));
    } else if (!strcmp(mistake, "inside")) {
        free(hidden(block + 64));
    } else if (!strcmp(mistake, "failed")) {
        kept = malloc(huge);
        kept = calloc(huge, 4);
    } else if (!strcmp(mistake, "zero")) {
        kept = realloc(block, zero);
        kept = malloc(zero);
    } else if (!strcmp(mistake, "leak")) {
        for (unsigned i = 0; i < 50; i++) kept = malloc(7113);
    } else {
        return 2;
    }
    free(spare);
    return 0;
}
