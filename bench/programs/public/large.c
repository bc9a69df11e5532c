// SPDX-License-Identifier: Apache-2.0
// Large blocks: glibc's threshold that rises, buffers that grow, arrays that are hardly written, huge pages.
#include "public_case.h"
#include <sys/mman.h>

enum { IMAGES = 30, TASKS = 4, RESULTS = 20, STACKS = 600, ARRAYS = 20 };

// A wallpaper is decoded and scaled again and again; small things are kept in between.
static void wallpaper(void) {
    unsigned state = 1;
    for (int i = 0; i < IMAGES; i++) {
        char *file = filled(between(&state, 300000, 3000000)),
             *pixels = filled(between(&state, 2000000, 9000000));
        free(file);
        char *scaled = filled(between(&state, 1000000, 8000000));
        filled(200);
        free(pixels);
        free(scaled);
    }
}

// Tasks with vectors of 0.2 to 2 MB, each followed by a result that stays.
static void *task(void *number) {
    unsigned state = 3U * (unsigned)(intptr_t)number + 2;
    for (int i = 0; i < RESULTS; i++) {
        char *vectors[3];
        for (int j = 0; j < 3; j++) vectors[j] = filled(between(&state, 200000, 2000000));
        filled(between(&state, 100, 3000));
        for (int j = 0; j < 3; j++) free(vectors[j]);
    }
    return NULL;
}

static void graph(void) { run_threads(TASKS, task); }

// Images of 3 to 100 kB that are subtracted, with headers that stay.
static void subtraction(void) {
    static char *stack[800];
    unsigned state = 4;
    for (int micrograph = 0; micrograph < 3; micrograph++) {
        for (int i = 0; i < 800; i++) {
            stack[i] = filled(between(&state, 3000, 100000));
            if (i % 40 == 0) filled(900);
        }
        for (int i = 0; i < 800; i++) free(stack[i]);
    }
}

// Thumbnails by four threads at once: strips and pixels from 100 kB to 3 MB.
static void *thumbnail(void *number) {
    unsigned state = 5U * (unsigned)(intptr_t)number + 6;
    for (int i = 0; i < RESULTS; i++) {
        char *pixels = filled(between(&state, 800000, 3000000));
        for (int j = 0; j < 8; j++) {
            char *strip = filled(between(&state, 60000, 500000)),
                 *tile = filled(between(&state, 1000, 60000));
            free(strip);
            if (j % 8) free(tile);
        }
        free(pixels);
    }
    return NULL;
}

static void thumbnails(void) { run_threads(TASKS, thumbnail); }

// An array by repeated reallocation to the double.
static void doubled(void) {
    size_t size = 4;
    char *array = filled(size);
    for (; size < 32 << 20; size *= 2) {
        array = realloc(array, 2 * size);
        if (!array) exit(1);
        memset(array + size, 2, size);
    }
}

// A vector of objects that are moved: half as much room again, and the old one freed.
static void moved(void) {
    size_t room = 1 << 16, used = 0;
    for (char *vector = filled(room); used < 24 << 20; used += 4096) {
        if (used + 4096 > room) {
            char *wider = malloc(room + room / 2);
            if (!wider) exit(1);
            memcpy(wider, vector, used);
            free(vector);
            vector = wider;
            room += room / 2;
        }
        memset(vector + used, 3, 4096);
    }
}

// A text to which pieces are appended, each by a call of realloc.
static void appended(void) {
    char *text = filled(1);
    for (size_t size = 16000; size < 12 << 20; size += 64000) {
        text = realloc(text, size);
        if (!text) exit(1);
        memset(text + size - 16000, 4, 16000);
        if (size > 64000) memset(text + size - 64000, 4, 64000);
    }
}

// Two hash tables that grow by turns; the new half is cleared and then filled.
static void rehashed(void) {
    char *tables[2] = {filled(1 << 16), filled(1 << 16)};
    for (size_t size = 1 << 16; size < 16 << 20; size *= 2)
        for (int i = 0; i < 2; i++) {
            tables[i] = realloc(tables[i], 2 * size);
            if (!tables[i]) exit(1);
            memset(tables[i] + size, i, size);
        }
}

// Zeroed arrays of which a few pages are written; they come and go.
static void sparse(void) {
    unsigned state = 8;
    for (int round = 0; round < 3; round++) {
        char *arrays[ARRAYS];
        for (int i = 0; i < ARRAYS; i++) {
            arrays[i] = calloc(1, 3 << 20);
            if (!arrays[i]) exit(1);
            for (int j = 0; j < 40; j++) arrays[i][drawn(&state) % (3 << 20)] = 1;
        }
        for (int i = 0; i < ARRAYS; i++)
            if (round < 2) free(arrays[i]);
    }
}

// Zeroed stacks of coroutines, of which the last page is used.
static void coroutines(void) {
    static char *stacks[STACKS];
    for (int i = 0; i < STACKS; i++) {
        stacks[i] = calloc(1, 56 << 10);
        if (!stacks[i]) exit(1);
        memset(stacks[i] + (52 << 10), 5, 4000);
    }
}

// Arrays whose whole pages are to be huge ones; the first third is written.
static void huge(void) {
    for (int i = 0; i < 8; i++) {
        size_t size = 9 << 20;
        char *array = malloc(size);
        if (!array) exit(1);
        uintptr_t from = ((uintptr_t)array + 4095) & ~(uintptr_t)4095;
        madvise((void *)from, (size - 4096) & ~(size_t)4095, MADV_HUGEPAGE);
        for (size_t at = 0; at < size; at += 64 << 10) array[at] = 6;
    }
}

int main(int argc, char **argv) {
    const struct public_case cases[] = {
        {"wallpaper", wallpaper},   {"graph", graph},       {"subtraction", subtraction},
        {"thumbnails", thumbnails}, {"doubled", doubled},   {"moved", moved},
        {"appended", appended},     {"rehashed", rehashed}, {"sparse", sparse},
        {"coroutines", coroutines}, {"huge", huge}};
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
