// SPDX-License-Identifier: Apache-2.0
// Much is made, most of it goes, and the program is quiet: who gives memory back?
#include "public_case.h"

enum { MADE = 50000, PARSERS = 8, NODES = 12000, OBJECTS = 25000, PRODUCERS = 4, LIVE = 8000 };

static char *made[PRODUCERS][MADE];

static void make(unsigned seed, size_t low, size_t high, int keep_each) {
    for (int i = 0; i < MADE; i++) made[0][i] = filled(between(&seed, low, high));
    for (int i = 0; i < MADE; i++)
        if (!keep_each || i % keep_each) free(made[0][i]);
}

static void released(void) { make(1, 100, 2500, 200); }
static void all_freed(void) { make(2, 16, 2200, 0); }

// A vector of strings that grows by doubling, all dropped; then tiny calls now and then.
static void strings(void) {
    size_t room = 16;
    char **vector = malloc(room * sizeof *vector);
    for (size_t i = 0; i < 400000; i += 4) {
        if (i / 4 == room) vector = realloc(vector, (room *= 2) * sizeof *vector);
        if (!vector) exit(1);
        vector[i / 4] = filled(i % 7 ? 45 : 900);
    }
    for (size_t i = 0; i < 100000; i++) free(vector[i]);
    free(vector);
    for (int i = 0; i < 20; i++) {
        usleep(10000);
        free(filled(1));
    }
}

// Messages of all sizes up to 2 MB: few live at a time, all the time.
static void churn(unsigned seed, size_t low, size_t high, int count, int live) {
    for (int i = 0; i < count; i++) {
        char **slot = &made[0][drawn(&seed) % (unsigned)live];
        free(*slot);
        *slot = filled(between(&seed, low, high));
    }
}

static void buffers(void) { churn(5, 50000, 2000000, 500, 10); }
static void messages(void) { churn(6, 500, 65000, 12000, 400); }

// Tasks of a thread pool, one at a time: a file in one block, its tree, and nothing left.
static struct turns turns = TURNS(PARSERS);

static void *parse(void *number) {
    unsigned state = 19U * (unsigned)(intptr_t)number + 7;
    take_turn(&turns, (long)(intptr_t)number);
    char *file = filled(3 << 20), **nodes = malloc(NODES * sizeof *nodes);
    if (!nodes) exit(1);
    for (int i = 0; i < NODES; i++) nodes[i] = filled(between(&state, 64, 640));
    for (int i = 0; i < NODES; i++) free(nodes[i]);
    free(nodes);
    free(file);
    pass_turn(&turns);
    return NULL;
}

// The pool stays: a barrier keeps its threads until all have parsed.
static pthread_barrier_t done;

static void *parse_and_stay(void *number) {
    parse(number);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&done);
    return NULL;
}

static void quiet(void) {
    usleep(REST_US);
    _exit(0);
}

static void *watch(void *unused) {
    pthread_barrier_wait(&done);
    quiet();
    return unused;
}

static void *parser_or_watch(void *number) {
    return (intptr_t)number < PARSERS ? parse_and_stay(number) : watch(number);
}

static void parsers(void) {
    pthread_barrier_init(&done, NULL, PARSERS + 1);
    run_threads(PARSERS + 1, parser_or_watch);
}

// Objects of one size: made by one thread, freed by another when all are there.
static void *produce(void *unused) {
    for (int i = 0; i < OBJECTS; i++) made[0][i] = filled(1024);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&done);
    return unused;
}

static void *consume(void *unused) {
    pthread_barrier_wait(&done);
    for (int i = 0; i < OBJECTS; i++) free(made[0][i]);
    quiet();
    return unused;
}

static void *produce_or_consume(void *number) { return number ? consume(NULL) : produce(NULL); }

static void queue(void) {
    pthread_barrier_init(&done, NULL, 2);
    run_threads(2, produce_or_consume);
}

// Producers with a fixed number of objects each; what they replace is freed by a thread that makes nothing.
static struct turns reclaiming = TURNS(PRODUCERS + 1);
static char *replaced[PRODUCERS][500];

static void *replace(void *number) {
    long me = (long)(intptr_t)number;
    unsigned state = 29U * (unsigned)me + 3;
    for (int i = 0; i < LIVE && me < PRODUCERS; i++) made[me][i] = filled(592);
    for (int round = 0; round < 15; round++) {
        take_turn(&reclaiming, me);
        if (me == PRODUCERS)
            for (int i = 0; i < PRODUCERS * 500; i++) free(replaced[i / 500][i % 500]);
        else
            for (int i = 0; i < 500; i++) {
                size_t slot = (drawn(&state) % (LIVE / 500)) * 500 + (unsigned)i;
                replaced[me][i] = made[me][slot];
                made[me][slot] = filled(592);
            }
        pass_turn(&reclaiming);
    }
    return NULL;
}

static void reclaimer(void) { run_threads(PRODUCERS + 1, replace); }

int main(int argc, char **argv) {
    const struct public_case cases[] = {
        {"released", released}, {"all-freed", all_freed}, {"strings", strings}, {"buffers", buffers},
        {"messages", messages}, {"parsers", parsers},     {"queue", queue},     {"reclaimer", reclaimer}};
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
