// SPDX-License-Identifier: Apache-2.0
// Programs that ask malloc to return memory, or set its thresholds themselves.
#include "public_case.h"
#include <malloc.h>

enum { LOADERS = 4, NODES = 20000, LINES = 16000, DOCUMENTS = 400, BUFFERS = 60 };

// A world is loaded by several threads: parser nodes, and the data that stay between them.
static char *world[LOADERS][NODES / 40];

static void *load(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 37U * (unsigned)me + 1;
    char **nodes = malloc(NODES * sizeof *nodes);
    if (!nodes) exit(1);
    for (int file = 0; file < 2; file++) {
        for (int i = 0; i < NODES; i++) {
            nodes[i] = filled(between(&state, 64, 700));
            if (file == 0 && i % 40 == 0) world[me][i / 40] = filled(between(&state, 32, 400));
        }
        for (int i = 0; i < NODES; i++) free(nodes[i]);
    }
    free(nodes);
    return NULL;
}

static void world_loaded(void) { run_threads(LOADERS, load); }

static void world_trimmed(void) {
    run_threads(LOADERS, load);
    malloc_trim(0);
}

// A server of queries: answers of many lines are joined and sent, something is remembered of each. Then the heap is trimmed.
static void answers(void) {
    static char *lines[LINES];
    unsigned state = 3;
    for (int query = 0; query < 5; query++) {
        for (int i = 0; i < LINES; i++) lines[i] = filled(between(&state, 80, 2400));
        filled(300);
        for (int i = 0; i < LINES; i++) free(lines[i]);
        malloc_trim(0);
    }
}

// A file system: each operation parses a small answer and then trims the heap, in every thread.
static void *operate(void *number) {
    unsigned state = 41U * (unsigned)(intptr_t)number + 1;
    char *parsed[600];
    for (int operation = 0; operation < 25; operation++) {
        for (int i = 0; i < 600; i++) parsed[i] = filled(between(&state, 50, 9000));
        for (int i = 0; i < 600; i++)
            if (i % 150) free(parsed[i]);
        malloc_trim(0);
    }
    return NULL;
}

// The first call is the initial thread's: under another allocator glibc's own is set up by it, which several threads must not do at once.
static void file_system(void) {
    malloc_trim(0);
    run_threads(LOADERS, operate);
}

// Many small documents, parsed and kept, then all dropped; what was made last stays.
static void documents(void) {
    static char *parts[DOCUMENTS][120];
    unsigned state = 5;
    for (int i = 0; i < DOCUMENTS; i++)
        for (int j = 0; j < 120; j++) parts[i][j] = filled(between(&state, 24, 900));
    filled(64);
    for (int i = 0; i < DOCUMENTS; i++)
        for (int j = 0; j < 120; j++) free(parts[i][j]);
}

// Buffers of a megabyte or so, each for one piece of work; a small result of each stays.
static void encode(unsigned seed) {
    char *window[6] = {0};
    for (int i = 0; i < BUFFERS; i++) {
        free(window[i % 6]);
        window[i % 6] = filled(between(&seed, 200000, 4000000));
        filled(500);
    }
    for (int i = 0; i < 6; i++) free(window[i]);
}

static void threshold_set(void) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    encode(7);
}

static void *encode_frames(void *number) {
    encode(43U * (unsigned)(intptr_t)number + 1);
    return NULL;
}

static void threshold_and_trim(void) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    run_threads(2, encode_frames);
    malloc_trim(0);
}

int main(int argc, char **argv) {
    const struct public_case cases[] = {{"world", world_loaded},
                                        {"world-trimmed", world_trimmed},
                                        {"answers", answers},
                                        {"file-system", file_system},
                                        {"documents", documents},
                                        {"threshold-set", threshold_set},
                                        {"threshold-and-trim", threshold_and_trim}};
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
