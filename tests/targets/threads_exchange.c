// SPDX-License-Identifier: Apache-2.0
// Threads that exchange, reallocate and free each other's blocks through lock-free mailboxes and a
// locked queue, and count their own calls. Usage: threads_exchange JSON [CALLS [THREADS [SEED]]]
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "target_support.h"

enum { THREADS_MAX = 256, MAILBOXES = 1024, QUEUE = 512, OWN = 64 };

enum { MALLOC, CALLOC, REALLOC, REALLOCARRAY, FREE, POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, FUNCTIONS };

static const char *const function_names[FUNCTIONS] = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign", "aligned_alloc", "memalign",
};

struct worker {
    pthread_t thread;
    uint64_t random_state;
    long tid;
    unsigned long calls, limit;
    unsigned long counts[FUNCTIONS];
    void *own[OWN];
};

static struct worker workers[THREADS_MAX + 1];  // the last one is the main thread, which tidies up
static _Atomic(void *) mailboxes[MAILBOXES];
static void *queue[QUEUE];
static unsigned queue_used;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_there;

static void count(struct worker *worker, int function) {
    worker->counts[function]++;
    worker->calls++;
}

// Size 0 would let an allocator return NULL for a block that lives; every block is written once.
static void *written(void *block) {
    if (!block) target_fail("an allocation failed");
    *(volatile char *)block = 1;
    return block;
}

static size_t random_size(struct worker *worker) {
    uint64_t value = random_next(&worker->random_state) >> 20;
    return value % 64 ? 1 + value / 64 % 400 : 1 + value / 64 % 20000;
}

static void *allocate(struct worker *worker) {
    size_t size = random_size(worker);
    void *block = NULL;
    switch (random_next(&worker->random_state) >> 59) {  // 0 to 31
    case 0: count(worker, POSIX_MEMALIGN); return posix_memalign(&block, 64, size) ? NULL : written(block);
    case 1: count(worker, ALIGNED_ALLOC); return written(aligned_alloc(64, (size / 64 + 1) * 64));
    case 2: count(worker, MEMALIGN); return written(memalign(128, size));
    case 3:
    case 4:
    case 5: count(worker, CALLOC); return written(calloc(3, size));
    case 6: count(worker, REALLOC); return written(realloc(NULL, size));
    default: count(worker, MALLOC); return written(malloc(size));
    }
}

static void *resize(struct worker *worker, void *block) {
    if (random_next(&worker->random_state) >> 62 == 0) {
        count(worker, REALLOCARRAY);
        return written(reallocarray(block, 2, random_size(worker)));
    }
    count(worker, REALLOC);
    return written(realloc(block, random_size(worker)));
}

static void release(struct worker *worker, void *block) {
    if (!block) return;
    count(worker, FREE);
    free(block);
}

static void *push(void *block) {
    pthread_mutex_lock(&queue_lock);
    if (queue_used < QUEUE) {
        queue[queue_used++] = block;
        block = NULL;
    }
    pthread_mutex_unlock(&queue_lock);
    return block;
}

static void *pop(void) {
    pthread_mutex_lock(&queue_lock);
    void *block = queue_used ? queue[--queue_used] : NULL;
    pthread_mutex_unlock(&queue_lock);
    return block;
}

static void step(struct worker *worker) {
    uint64_t choice = random_next(&worker->random_state) >> 40;
    _Atomic(void *) *mailbox = &mailboxes[choice / 16 % MAILBOXES];
    void **own = &worker->own[choice / 16 % OWN];
    void *block;
    switch (choice % 16) {
    case 0:
    case 1:
    case 2:
    case 3: release(worker, atomic_exchange(mailbox, allocate(worker))); break;
    case 4: release(worker, atomic_exchange(mailbox, NULL)); break;
    case 5:
    case 6:  // somebody else's block, reallocated here and handed on
        block = atomic_exchange(mailbox, NULL);
        if (block) release(worker, atomic_exchange(mailbox, resize(worker, block)));
        break;
    case 7: release(worker, push(allocate(worker))); break;
    case 8: release(worker, pop()); break;
    case 9:
        block = pop();
        if (block) release(worker, push(resize(worker, block)));
        break;
    case 10:
        if (*own) *own = resize(worker, *own);
        break;
    default:
        release(worker, *own);
        *own = allocate(worker);
        break;
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    worker->tid = syscall(SYS_gettid);
    pthread_barrier_wait(&all_there);
    marker(MARKER_BEGIN);
    while (worker->calls < worker->limit) step(worker);
    for (int i = 0; i < OWN; i++) release(worker, worker->own[i]);
    marker(MARKER_END);
    return NULL;
}

static void print_counts(const char *path, int threads) {
    static struct plain_writer out;
    unsigned long total = 0;
    writer_open(&out, path);
    writer_print(&out, "{\"threads\": [");
    for (int i = 0; i <= threads; i++) {
        struct worker *worker = &workers[i];
        total += worker->calls;
        writer_print(&out, "%s{\"tid\": %ld, \"calls\": {", i ? ", " : "", worker->tid);
        for (int f = 0; f < FUNCTIONS; f++)
            writer_print(&out, "%s\"%s\": %lu", f ? ", " : "", function_names[f], worker->counts[f]);
        writer_print(&out, "}}");
    }
    writer_print(&out, "], \"total\": %lu}\n", total);
    writer_close(&out);
}

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: threads_exchange JSON [CALLS [THREADS [SEED]]]");
    unsigned long calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 24000000;
    int threads = argc > 3 ? atoi(argv[3]) : 4;
    uint64_t seed = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    if (threads < 1 || threads > THREADS_MAX) target_fail("1 to 256 threads");
    struct worker *tidier = &workers[threads];
    tidier->tid = syscall(SYS_gettid);
    pthread_barrier_init(&all_there, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i].random_state = (seed * THREADS_MAX + (uint64_t)i) * 0x9E3779B97F4A7C15ull + 1;
        workers[i].limit = calls / (unsigned)threads;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) target_fail("no thread");
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    marker(MARKER_BEGIN);
    for (int i = 0; i < MAILBOXES; i++) release(tidier, mailboxes[i]);
    for (void *block; (block = pop());) release(tidier, block);
    marker(MARKER_END);
    print_counts(argv[1], threads);
    return 0;
}
