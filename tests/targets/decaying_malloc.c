// SPDX-License-Identifier: Apache-2.0
// An allocator, to be replayed, that keeps large freed blocks for a second and then gives them back. What it
// takes the time from, or how its background thread sleeps, $DECAY_BY says; nothing else about it is good.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define S_NS      1000000000ull
#define DECAY_NS  S_NS
#define PERIOD_NS (S_NS / 10)
#define EXPORTED  __attribute__((visibility("default")))
enum { LARGE_BYTES = 65536, CHUNK_BYTES = 1 << 20, HEADER_BYTES = 64, CLASSES = 18, KEPT_MAX = 4096 };

struct block {
    size_t bytes;   // that a user may have
    size_t mapped;  // of a large one, the mapping's
    struct block *next;
    uint64_t freed_ns;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more_kept;
    char *chunk, *chunk_end;
    struct block *free[CLASSES];
    struct block *kept;
    sem_t never;
    bool begun;
    const char *by;
    uint64_t start_ticks;
    double ticks_per_ns;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .more_kept = PTHREAD_COND_INITIALIZER, .by = ""};

static bool by(const char *name) { return !strcmp(heap.by, name); }

static uint64_t clock_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * S_NS + (uint64_t)now.tv_nsec;
}

static uint64_t ticks(void) {
#if defined(__x86_64__)
    unsigned cpu;
    return by("rdtscp") ? __builtin_ia32_rdtscp(&cpu) : __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static uint64_t now_ns(void) {
    if (by("gettimeofday")) {
        struct timeval now;
        gettimeofday(&now, NULL);
        return (uint64_t)now.tv_sec * S_NS + (uint64_t)now.tv_usec * 1000;
    }
    if (by("timespec_get")) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (uint64_t)now.tv_sec * S_NS + (uint64_t)now.tv_nsec;
    }
    if (by("time")) return (uint64_t)time(NULL) * S_NS;
    if (by("rdtsc") || by("rdtscp"))
        return (uint64_t)((double)(ticks() - heap.start_ticks) / heap.ticks_per_ns);
    return clock_ns(by("realtime") ? CLOCK_REALTIME : CLOCK_MONOTONIC);
}

static bool has_thread(void) { return !strncmp(heap.by, "thread_", 7); }

static void give_back(uint64_t now) {
    struct block **at = &heap.kept;
    while (*at) {
        struct block *block = *at;
        if (now - block->freed_ns < DECAY_NS) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        munmap(block, block->mapped);
    }
}

static struct timespec moment(clockid_t id, uint64_t in_ns) {
    uint64_t ns = clock_ns(id) + in_ns;
    return (struct timespec){(time_t)(ns / S_NS), (long)(ns % S_NS)};
}

// With the lock for conditions, without it for all else.
static void wait_a_period(void) {
    struct timespec period = {0, (long)PERIOD_NS}, at;
    if (by("thread_nanosleep") || by("thread_ends") || by("thread_with_lock")) nanosleep(&period, NULL);
    if (by("thread_clock_nanosleep")) clock_nanosleep(CLOCK_MONOTONIC, 0, &period, NULL);
    if (by("thread_until"))
        at = moment(CLOCK_REALTIME, PERIOD_NS), clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL);
    if (by("thread_usleep")) usleep(PERIOD_NS / 1000);
    if (by("thread_sleep")) sleep(1);
    if (by("thread_poll")) poll(NULL, 0, PERIOD_NS / 1000000);
    if (by("thread_select")) select(0, NULL, NULL, NULL, &(struct timeval){0, (long)PERIOD_NS / 1000});
    if (by("thread_semaphore")) at = moment(CLOCK_REALTIME, PERIOD_NS), sem_timedwait(&heap.never, &at);
}

static void wait_on_condition(void) {
    struct timespec at;
    if (by("thread_timedwait")) {
        at = moment(CLOCK_REALTIME, PERIOD_NS);
        pthread_cond_timedwait(&heap.more_kept, &heap.lock, &at);
    } else if (by("thread_clockwait")) {
        at = moment(CLOCK_MONOTONIC, PERIOD_NS);
        pthread_cond_clockwait(&heap.more_kept, &heap.lock, CLOCK_MONOTONIC, &at);
    } else if (by("thread_signalled") && !heap.kept) {  // nothing but a signal wakes it while the trace lasts
        at = moment(CLOCK_REALTIME, 1000000 * S_NS);
        pthread_cond_timedwait(&heap.more_kept, &heap.lock, &at);
    }
}

static void *in_background(void *unused) {
    for (;;) {
        wait_a_period();
        pthread_mutex_lock(&heap.lock);
        wait_on_condition();
        // Asleep with the lock: who allocates meanwhile waits for a sleeper, who must not wait for him.
        if (by("thread_with_lock")) nanosleep(&(struct timespec){0, (long)PERIOD_NS}, NULL);
        give_back(by("thread_signalled") ? UINT64_MAX : now_ns());
        pthread_mutex_unlock(&heap.lock);
        if (by("thread_ends")) return unused;
    }
}

static void begin(void) {
    heap.begun = true;
    heap.by = getenv("DECAY_BY") ? getenv("DECAY_BY") : "";
    sem_init(&heap.never, 0, 0);
    if (by("rdtsc") || by("rdtscp")) {
        uint64_t ns = clock_ns(CLOCK_MONOTONIC), begun = ticks();
        while (clock_ns(CLOCK_MONOTONIC) - ns < 2000000) {
        }
        heap.ticks_per_ns = (double)(ticks() - begun) / (double)(clock_ns(CLOCK_MONOTONIC) - ns);
        heap.start_ticks = begun;
    }
}

static __attribute__((constructor)) void begin_thread(void) {
    pthread_t thread;
    free(malloc(1));  // begins, if nobody has called yet
    if (has_thread()) pthread_create(&thread, NULL, in_background, NULL);
}

static void *map(size_t bytes) {
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

static unsigned class_of(size_t bytes) {
    unsigned class = 5;
    while ((size_t)1 << class < bytes) class ++;
    return class;
}

static struct block *small_block(unsigned class) {
    struct block *block = heap.free[class];
    size_t needed = HEADER_BYTES + ((size_t)1 << class);
    if (block) {
        heap.free[class] = block->next;
        return block;
    }
    if (!heap.chunk || (size_t)(heap.chunk_end - heap.chunk) < needed) {
        heap.chunk = map(CHUNK_BYTES);
        heap.chunk_end = heap.chunk + CHUNK_BYTES;
    }
    block = (struct block *)heap.chunk;
    heap.chunk += needed;
    block->bytes = (size_t)1 << class;
    return block;
}

EXPORTED void *malloc(size_t bytes) {
    pthread_mutex_lock(&heap.lock);
    if (!heap.begun) begin();
    if (!has_thread()) give_back(now_ns());
    struct block *block;
    if (bytes < LARGE_BYTES) {
        block = small_block(class_of(bytes));
    } else {
        block = map(bytes + HEADER_BYTES);
        if (block) *block = (struct block){.bytes = bytes, .mapped = bytes + HEADER_BYTES};
    }
    pthread_mutex_unlock(&heap.lock);
    volatile char *volatile nowhere = (volatile char *)8;
    if (by("crash") && bytes == 12345) *nowhere = 1;
    return block ? (char *)block + HEADER_BYTES : NULL;
}

EXPORTED void free(void *memory) {
    if (!memory) return;
    struct block *block = (struct block *)((char *)memory - HEADER_BYTES);
    pthread_mutex_lock(&heap.lock);
    if (block->bytes < LARGE_BYTES) {
        block->next = heap.free[class_of(block->bytes)];
        heap.free[class_of(block->bytes)] = block;
    } else {
        block->freed_ns = now_ns();
        block->next = heap.kept;
        heap.kept = block;
        if (by("thread_signalled")) pthread_cond_signal(&heap.more_kept);
    }
    pthread_mutex_unlock(&heap.lock);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    void *made = malloc(count * bytes);
    return made ? memset(made, 0, count * bytes) : NULL;
}

EXPORTED void *realloc(void *memory, size_t bytes) {
    void *made = malloc(bytes);
    if (made && memory) {
        size_t former = ((struct block *)((char *)memory - HEADER_BYTES))->bytes;
        memcpy(made, memory, former < bytes ? former : bytes);
        free(memory);
    }
    return made;
}

EXPORTED int posix_memalign(void **made, size_t alignment, size_t bytes) {
    if (alignment > 16) return EINVAL;
    *made = malloc(bytes);
    return *made ? 0 : ENOMEM;
}
