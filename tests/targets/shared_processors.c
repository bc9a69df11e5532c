// More threads than processors: each of them loses the processor at any moment, and the others go on.
#include <pthread.h>
#include <time.h>

#include "target_modes.h"

enum { THREADS = 8, SECONDS = 1, KEPT = 20000, KEPT_BYTES = 1000 };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Megabytes of the heap, which come and go. There is no other memory.
static void fill_heap(unsigned *seed) {
    enum { BLOCKS_MAX = 400, BLOCK_BYTES_MIN = 16 << 10 };
    char *block[BLOCKS_MAX];
    int blocks = 50 + rand_r(seed) % (BLOCKS_MAX - 50);
    for (int i = 0; i < blocks; i++) {
        size_t bytes = BLOCK_BYTES_MIN + (size_t)rand_r(seed) % (4 * BLOCK_BYTES_MIN);
        block[i] = malloc(bytes);
        memset(block[i], 1, bytes);
    }
    for (int i = 0; i < blocks; i++) free(block[i]);
}

// The same of the program's own memory, with some calls of malloc. The heap stays as it is.
static void fill_maps(unsigned *seed) {
    size_t bytes = (size_t)(1 + rand_r(seed) % 4) << 20;
    char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) target_fail("mmap");
    memset(mapped, 1, bytes);
    munmap(mapped, bytes);
    for (int i = 0; i < 20; i++) {
        char *volatile block = malloc(2000);
        *block = 1;
        free(block);
    }
}

static void (*fill)(unsigned *seed);

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (double begin = seconds_now(); seconds_now() < begin + SECONDS;) fill(&seed);
    return NULL;
}

static int run_threads(void) {
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(i + 1))) target_fail("pthread_create");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return 0;
}

static int heap(char *argument) {
    (void)argument;
    fill = fill_heap;
    return run_threads();
}

static int maps(char *argument) {
    (void)argument;
    for (int i = 0; i < KEPT; i++) {
        char *volatile kept = malloc(KEPT_BYTES);
        memset(kept, 1, KEPT_BYTES);
    }
    fill = fill_maps;
    return run_threads();
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"heap", heap}, {"maps", maps}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
