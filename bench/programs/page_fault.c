// SPDX-License-Identifier: Apache-2.0
// What does the first touch of a page take, after nothing else and after other work? Are its lines in the caches then?
//
//     build/bench/page_fault
//
// Medians of 6,400 touches in ns, with the 63 other lines read right after: of fresh pages, and of pages that were there.
// And pages that are filled by one copy, each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, LINE = 64, PAGES = 64, LAPS = 100, LINES = 2000, WAIT_NS = 100000 };

static char *ring[LINES * LINE / sizeof(char *)];  // of pointers, a line each, in random order

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void make_ring(void) {
    static int order[LINES];
    for (int i = 1, other; i < LINES; i++)
        other = rand() % (i + 1), order[i] = order[other], order[other] = i;
    for (int i = 0; i < LINES; i++)
        *(void **)((char *)ring + order[i] * LINE) = (char *)ring + order[(i + 1) % LINES] * LINE;
}

static void no_work(void) {}
static void use_data(void) {
    void *at = ring;
    for (int i = 0; i < LINES; i++) at = *(void *volatile *)at;
}
static void wait(void) {
    for (double begun = now_ns(); now_ns() < begun + WAIT_NS;) continue;
}

static int by_value(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static void measure(const char *name, void (*work)(void), int fresh) {
    static double touch[PAGES * LAPS], rest[PAGES * LAPS];
    int count = 0;
    for (int lap = 0; lap < LAPS; lap++) {
        volatile char *memory =
            mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise((void *)memory, (PAGES + 1) * PAGE, MADV_NOHUGEPAGE);
        for (int i = 0; i <= PAGES; i++) memory[(fresh ? 0 : i) * PAGE] = 1;
        for (int i = 1; i <= PAGES; i++, count++) {
            work();
            double begun = now_ns();
            memory[i * PAGE] = 1;
            double touched = now_ns();
            for (int line = 1; line < PAGE / LINE; line++) (void)memory[i * PAGE + line * LINE];
            rest[count] = now_ns() - touched;
            touch[count] = touched - begun;
        }
        munmap((void *)memory, (PAGES + 1) * PAGE);
    }
    qsort(touch, PAGES * LAPS, sizeof *touch, by_value);
    qsort(rest, PAGES * LAPS, sizeof *rest, by_value);
    printf("| %s | %s | %.0f | %.0f |\n", name, fresh ? "fresh" : "there", touch[PAGES * LAPS / 2],
           rest[PAGES * LAPS / 2]);
}

// Pages that are filled by one copy. The difference of the rows is a fault in the middle of it.
static void measure_copy(int fresh) {
    static double copied[LAPS];
    for (int lap = 0; lap < LAPS; lap++) {
        char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
        if (!fresh) memset(memory, 1, PAGES * PAGE);
        double begun = now_ns();
        memset(memory, 1, PAGES * PAGE);
        copied[lap] = (now_ns() - begun) / PAGES;
        munmap(memory, PAGES * PAGE);
    }
    qsort(copied, LAPS, sizeof *copied, by_value);
    printf("| a copy over 64 pages | %s | %.0f | |\n", fresh ? "fresh" : "there", copied[LAPS / 2]);
}

int main(void) {
    make_ring();
    for (int fresh = 1; fresh >= 0; fresh--) {
        measure("nothing", no_work, fresh);
        measure("2,000 lines of data", use_data, fresh);
        measure("100 µs without memory", wait, fresh);
        measure_copy(fresh);
    }
}
