// SPDX-License-Identifier: Apache-2.0
// Many threads, each with an arena of its own under glibc.
#include "public_case.h"

enum {
    WORKERS = 12,
    REQUESTS = 10,
    PER_REQUEST = 1200,
    STREAMS = 16,
    BLOCKS_PER_STREAM = 60,
    ENTITIES = 9000
};

static struct turns turns = TURNS(WORKERS);
static pthread_barrier_t all_read;
static char *sessions[WORKERS][REQUESTS * 12];
char *snapshots[WORKERS];

// A threaded web server under an interpreter's lock: a request makes strings, and one in a hundred outlives it.
static void *serve(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 7U * (unsigned)me + 1;
    char *strings[PER_REQUEST];
    for (int request = 0, kept = 0; request < REQUESTS; request++) {
        take_turn(&turns, me);
        for (int i = 0; i < PER_REQUEST; i++) strings[i] = filled(between(&state, 40, 4000));
        for (int i = 0; i < PER_REQUEST; i++) {
            if (i % 100 == 50) sessions[me][kept++] = strings[i];
            else free(strings[i]);
        }
        pass_turn(&turns);
    }
    return NULL;
}

static void puma(void) { run_threads(WORKERS, serve); }

// Handlers of a pool: each request has a large tree of small blocks, gone when it is answered. Every thread has its turn once.
static void *answer(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 31U * (unsigned)me + 5;
    take_turn(&turns, me);
    char **tree = malloc(ENTITIES * sizeof *tree);
    if (!tree) exit(1);
    for (int i = 0; i < ENTITIES; i++) tree[i] = filled(between(&state, 200, 1000));
    snapshots[me] = filled(20000);
    for (int i = 0; i < ENTITIES; i++) free(tree[i]);
    free(tree);
    pass_turn(&turns);
    pthread_barrier_wait(&all_read);
    return NULL;
}

static void pool(void) {
    pthread_barrier_init(&all_read, NULL, WORKERS);
    run_threads(WORKERS, answer);
}

// Long threads that each read compressed streams at the same time: windows and tables below the mapping threshold.
static char *notes[STREAMS][BLOCKS_PER_STREAM];

static void *read_streams(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 13U * (unsigned)me + 3;
    for (int round = 0; round < 4; round++) {
        char *blocks[BLOCKS_PER_STREAM];
        for (int i = 0; i < BLOCKS_PER_STREAM; i++) blocks[i] = filled(between(&state, 16000, 64000));
        notes[me][round] = filled(700);
        pthread_barrier_wait(&all_read);
        for (int i = 0; i < BLOCKS_PER_STREAM; i++) free(blocks[i]);
    }
    pthread_barrier_wait(&all_read);
    return NULL;
}

static void streams(void) {
    pthread_barrier_init(&all_read, NULL, STREAMS);
    run_threads(STREAMS, read_streams);
}

// An agent whose workers wake up in turn, do a little and sleep: most of them are dormant.
static void *wake(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 17U * (unsigned)me + 9;
    take_turn(&turns, me);
    char *made[300];
    for (int i = 0; i < 300; i++) made[i] = filled(between(&state, 16, 14000));
    for (int i = 0; i < 300; i++)
        if (i % 10) free(made[i]);
    pass_turn(&turns);
    pthread_barrier_wait(&all_read);
    return NULL;
}

static void dormant(void) {
    pthread_barrier_init(&all_read, NULL, WORKERS);
    run_threads(WORKERS, wake);
}

int main(int argc, char **argv) {
    const struct public_case cases[] = {
        {"puma", puma}, {"pool", pool}, {"streams", streams}, {"dormant", dormant}};
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
