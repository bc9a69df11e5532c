// SPDX-License-Identifier: Apache-2.0
// Programs with threads, each a shape that decides which arena a thread gets: bench/figures/undisturbed.py runs them alone and
// recorded. Prints, in bytes, the highest RssAnon of its marks and the last one, and the number of arenas.
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORKERS = 4,
    BLOCKS = 60000,
    TASKS = 400,
    TASK_BLOCKS = 2000,
    HANDED = 300000,
    QUEUE = 1024,
    SORTED = 1 << 18
};

static void *block[WORKERS][BLOCKS];
static long peak_bytes;

static _Noreturn void fail(void) {
    fprintf(stderr, "no memory, threads or /proc for it\n");
    exit(1);
}

static long rss_anon_bytes(void) {
    long resident = 0, shared = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*d %ld %ld", &resident, &shared) != 2) fail();
    fclose(statm);
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

static void mark(void) {
    long bytes = rss_anon_bytes(), before = peak_bytes;
    while (bytes > before && !__atomic_compare_exchange_n(&peak_bytes, &before, bytes, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static size_t next_size(uint64_t *state, size_t most) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return 16 + (size_t)(*state >> 33) % most;
}

static void *filled(size_t bytes) {
    void *made = malloc(bytes);
    if (!made) fail();
    return memset(made, 1, bytes);
}

static void run_workers(void *(*work)(void *), unsigned count) {
    pthread_t thread[16];
    for (uintptr_t i = 0; i < count; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i)) fail();
    for (unsigned i = 0; i < count; i++) pthread_join(thread[i], NULL);
}

// Threads of some milliseconds, whose blocks the first thread frees, all but one in 600.
static void *fill_row(void *row) {
    uint64_t state = (uintptr_t)row;
    for (unsigned i = 0; i < BLOCKS; i++) block[(uintptr_t)row][i] = filled(next_size(&state, 300));
    return NULL;
}

static void short_threads(void) {
    for (unsigned cycle = 0; cycle < 6; cycle++) {
        run_workers(fill_row, WORKERS);
        mark();
        for (unsigned i = 0; i < WORKERS * BLOCKS; i++)
            if (i % 600 != 599) free(block[i / BLOCKS][i % BLOCKS]);
    }
}

// A pool: threads that live, and take small tasks as they come. What a task has made, a later one of any thread frees.
static unsigned next_task;
static void *made_by[TASKS][TASK_BLOCKS];

static void *take_tasks(void *unused) {
    enum { KEPT_TASKS = 40 };
    for (unsigned task; (task = __atomic_fetch_add(&next_task, 1, __ATOMIC_RELAXED)) < TASKS;) {
        uint64_t state = task;
        for (unsigned i = 0; i < TASK_BLOCKS; i++) {
            __atomic_store_n(&made_by[task][i], filled(next_size(&state, 500)), __ATOMIC_RELEASE);
            if (task >= KEPT_TASKS)
                free(__atomic_exchange_n(&made_by[task - KEPT_TASKS][i], NULL, __ATOMIC_ACQUIRE));
        }
    }
    return unused;
}

static void pool(void) {
    run_workers(take_tasks, 8);
    mark();
}

// Producers hand blocks to consumers, who keep some of them for a while.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *entry[QUEUE];
    unsigned count, made, taken;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *produce(void *number) {
    uint64_t state = (uintptr_t)number;
    for (bool more = true; more;) {
        void *made = filled(next_size(&state, 1000));
        pthread_mutex_lock(&queue.lock);
        while (queue.count == QUEUE) pthread_cond_wait(&queue.changed, &queue.lock);
        more = queue.made++ < HANDED;
        queue.entry[queue.count++] = made;
        if (queue.count == 1 || !more) pthread_cond_broadcast(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
    }
    return NULL;
}

static void *consume(void *unused) {
    enum { KEPT = 20000 };
    void **kept = calloc(KEPT, sizeof *kept);
    if (!kept) fail();
    for (unsigned at = 0;; at = (at + 1) % KEPT) {
        pthread_mutex_lock(&queue.lock);
        while (!queue.count && queue.taken < HANDED) pthread_cond_wait(&queue.changed, &queue.lock);
        void *taken = queue.count ? queue.entry[--queue.count] : NULL;
        queue.taken++;
        if (queue.count == QUEUE - 1 || queue.taken >= HANDED) pthread_cond_broadcast(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
        if (!taken) break;
        free(kept[at]);
        kept[at] = taken;
    }
    mark();
    for (unsigned i = 0; i < KEPT; i++) free(kept[i]);
    free(kept);
    return unused;
}

static void *either(void *number) { return (uintptr_t)number % 2 ? consume(NULL) : produce(number); }

static void handed_on(void) {
    run_workers(either, WORKERS);
    mark();
}

// A parallel loop whose bodies allocate rows, and a second one that frees them.
static void openmp(void) {
    for (unsigned pass = 0; pass < 8; pass++) {
#pragma omp parallel for num_threads(WORKERS) schedule(dynamic, 64)
        for (unsigned i = 0; i < BLOCKS; i++) {
            uint64_t state = i;
            block[0][i] = filled(next_size(&state, 500));
        }
        mark();
#pragma omp parallel for num_threads(WORKERS) schedule(dynamic, 64)
        for (unsigned i = 0; i < BLOCKS; i++) free(block[0][i]);
    }
}

// Lists that are split into a thread and itself, sorted, and merged into a fresh one.
struct part {
    unsigned *value;
    unsigned count, depth;
};

static void *sort_part(void *argument);

static void sort_halves(struct part *part) {
    unsigned middle = part->count / 2;
    struct part half[2] = {{part->value, middle, part->depth + 1},
                           {part->value + middle, part->count - middle, part->depth + 1}};
    pthread_t thread;
    bool apart = part->depth < 4 && !pthread_create(&thread, NULL, sort_part, &half[0]);
    if (!apart) sort_part(&half[0]);
    sort_part(&half[1]);
    if (apart) pthread_join(thread, NULL);
    unsigned *merged = malloc(part->count * sizeof *merged), left = 0, right = middle;
    if (!merged) fail();
    for (unsigned i = 0; i < part->count; i++) {
        bool take_left = right == part->count || (left < middle && part->value[left] <= part->value[right]);
        merged[i] = part->value[take_left ? left++ : right++];
    }
    memcpy(part->value, merged, part->count * sizeof *merged);
    free(merged);
}

static void *sort_part(void *argument) {
    struct part *part = argument;
    if (part->count > 1) sort_halves(part);
    return NULL;
}

static void sorts(void) {
    for (unsigned list = 0; list < 12; list++) {
        uint64_t state = list;
        struct part all = {malloc(SORTED * sizeof(unsigned)), SORTED, 0};
        if (!all.value) fail();
        for (unsigned i = 0; i < SORTED; i++) all.value[i] = (unsigned)next_size(&state, 1 << 30);
        sort_part(&all);
        mark();
        free(all.value);
    }
}

// Requests, each a thread of its own, that build an answer of many pieces: two at a time, of uneven length.
static void *answer(void *number) {
    uint64_t state = (uintptr_t)number + 99;
    unsigned pieces = 2000 + (unsigned)next_size(&state, 60000);
    void **piece = malloc(pieces * sizeof *piece);
    if (!piece) fail();
    for (unsigned i = 0; i < pieces; i++) piece[i] = filled(next_size(&state, 400));
    for (unsigned i = 0; i < pieces; i++) free(piece[i]);
    free(piece);
    return NULL;
}

static void requests(void) {
    for (unsigned i = 0; i < 20; i++) {
        run_workers(answer, 1 + i % 3);
        mark();
    }
}

static unsigned arenas(void) {
    char *text = NULL;
    size_t bytes;
    unsigned count = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out || malloc_info(0, out)) fail();
    fclose(out);
    for (const char *at = text; (at = strstr(at, "<heap nr")); at++) count++;
    free(text);
    return count;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } shape[] = {{"short", short_threads}, {"pool", pool},   {"handed", handed_on},
                 {"openmp", openmp},       {"sorts", sorts}, {"requests", requests}};
    for (unsigned i = 0; count == 2 && i < sizeof shape / sizeof *shape; i++) {
        if (strcmp(words[1], shape[i].name)) continue;
        shape[i].run();
        mark();
        long end_bytes = rss_anon_bytes();
        printf("%ld %ld %u\n", peak_bytes, end_bytes, arenas());
        return 0;
    }
    fprintf(stderr, "expected one of short, pool, handed, openmp, sorts, requests\n");
    return 2;
}
