// SPDX-License-Identifier: Apache-2.0
// Threads that allocate and free each other's blocks until somebody kills the process. Each counts its calls,
// after each call, on a page of its own of the file COUNTS: (thread id, calls). Writes one byte to stdout
// when all threads are at it. Usage: kill_writers COUNTS
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "target_support.h"

enum { THREADS = 4, SLOTS = 256, LANE_BYTES = 4096 };

struct lane {
    uint64_t tid;
    _Atomic uint64_t calls;
};

static char *lanes;
static _Atomic(void *) slots[SLOTS];
static _Atomic int working;

static void *work(void *argument) {
    size_t number = (size_t)(intptr_t)argument;
    struct lane *lane = (struct lane *)(lanes + number * LANE_BYTES);
    uint64_t random = number * 0x9e3779b97f4a7c15u + 1;
    lane->tid = (uint64_t)syscall(SYS_gettid);
    working++;
    for (;;) {
        uint64_t drawn = random_next(&random);
        void *block = malloc(16 + drawn % 700);
        if (!block) target_fail("malloc failed");
        lane->calls++;
        // Whoever put a block there, it is freed here: mostly another thread.
        void *other = atomic_exchange(&slots[drawn >> 32 & (SLOTS - 1)], block);
        if (!other) continue;
        free(other);
        lane->calls++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 2) target_fail("usage: kill_writers COUNTS");
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, THREADS * LANE_BYTES)) target_fail("cannot open the counters file");
    lanes = mmap(NULL, THREADS * LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (lanes == MAP_FAILED) target_fail("cannot map the counters file");
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)i)) target_fail("no thread");
    while (working < THREADS) usleep(100);
    if (write(1, ".", 1) != 1) return 1;
    for (;;) pause();
}
