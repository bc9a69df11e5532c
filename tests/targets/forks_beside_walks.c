// Threads have ever new stacks, in a program that has registered code's frames, as one with a JIT compiler does: libgcc's
// unwinder takes a lock for each of these. Children that are forked meanwhile have new stacks, too. Each must end.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target_support.h"

extern void __register_frame(void *begin);

enum { THREADS = 3, CHILDREN = 600, DEPTH = 14, CODE_BYTES = 64, WAITS_MAX = 20000, WAIT_US = 1000 };

static char code[CODE_BYTES];
static atomic_bool done;
static __thread void *volatile sink;

static uint8_t *put(uint8_t *at, uint64_t value, size_t bytes) {
    memcpy(at, &value, bytes);
    return at + bytes;
}

// A section .eh_frame of one function, with absolute addresses, and the zero that ends it.
static void describe(uint8_t frames[128]) {
    static const uint8_t common[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
    memset(frames, 0, 128);
    uint8_t *at = put(frames, 4 + sizeof common, 4);
    at = put(at, 0, 4);
    memcpy(at, common, sizeof common);
    at += sizeof common;
    at = put(at, 4 + 8 + 8 + 4, 4);
    at = put(at, (uint64_t)(at - frames), 4);
    at = put(at, (uintptr_t)code, 8);
    put(at, CODE_BYTES, 8);
}

// Its frame is of no fixed size, so that libgcc is asked each time.
static __attribute__((noinline)) void descend(unsigned depth, unsigned way) {
    sink = __builtin_alloca(16 + (way & 3) * 16);
    if (!depth) {
        sink = malloc(10);
        free(sink);
    } else if (way & 1) {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop");
    } else {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop; nop");
    }
}

static void *descend_for_ever(void *number) {
    unsigned random = (unsigned)(uintptr_t)number;
    while (!done) {
        random = random * 1103515245 + 12345;
        descend(DEPTH, random >> 16);
    }
    return NULL;
}

// A child that hangs may have all signals blocked.
static bool ends_well(pid_t pid) {
    int status;
    for (unsigned wait = 0; wait < WAITS_MAX; wait++) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended) return ended == pid && !status;
        usleep(WAIT_US);
    }
    kill(pid, SIGKILL);
    return false;
}

int main(void) {
    static uint8_t frames[128];
    pthread_t thread[THREADS];
    describe(frames);
    __register_frame(frames);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, descend_for_ever, (void *)i)) target_fail("no thread");
    for (unsigned i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (unsigned way = 0; way < 4; way++) descend(DEPTH, i * 77 + way * 4099);
            _exit(0);
        }
        if (pid < 0 || !ends_well(pid)) target_fail("a child did not end");
    }
    done = true;
    for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return 0;
}
