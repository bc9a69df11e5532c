// SPDX-License-Identifier: Apache-2.0
// A process that makes it hard to walk its heap. Usage: hostile_heap KIND
//   plain    nothing of the kind
//   bins     headers are damaged, and the list of free chunks by which a walk would find the next sound one has no end
//   heaps    an arena's heaps lead to one that the program made up, and back
//   signals  counts the signals that it gets from a child, which prints "ready" first; at last prints "got N of M"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "live_blocks.h"

enum { BLOCKS = 4000, BLOCK_BYTES = 100, BIG_BYTES = 5000, HEAP_BYTES = 64 << 20, SIGNALS = 500 };

// Allocates nothing: the heap may be damaged.
static void say(const char *text) {
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(95);
}

static void make_blocks(void) {
    for (int i = 0; i < BLOCKS; i++) keep(malloc(BLOCK_BYTES), BLOCK_BYTES);
}

static void damage_bins(void) {
    uintptr_t *big = malloc(BIG_BYTES);
    keep(malloc(BLOCK_BYTES), BLOCK_BYTES);  // so that the big one does not become part of the top
    free(big);
    uintptr_t *bin = (uintptr_t *)big[0];  // NOLINT(performance-no-int-to-ptr): of the unsorted chunks
    make_blocks();
    uintptr_t *one = (uintptr_t *)blocks[10].address - 2, *other = (uintptr_t *)blocks[20].address - 2;
    bin[2] = bin[3] = (uintptr_t)one;
    one[2] = (uintptr_t)other;
    other[2] = (uintptr_t)one;
    for (int i = 100; i < BLOCKS - 100; i += 3) ((uintptr_t *)blocks[i].address)[-1] = 0xdeadbeefdeadbee1;
}

static void *allocate_and_wait(void *arena_used) {
    make_blocks();
    *(atomic_bool *)arena_used = true;
    pause();
    return NULL;
}

static void damage_heaps(void) {
    static atomic_bool used;
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_and_wait, &used)) _exit(97);
    while (!used) usleep(100);
    uintptr_t *heap = (uintptr_t *)((uintptr_t)blocks[0].address & ~(uintptr_t)(HEAP_BYTES - 1));
    uintptr_t wanted = (uintptr_t)heap - 16 * (uintptr_t)HEAP_BYTES;
    uintptr_t *false_heap = mmap((void *)wanted, HEAP_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if ((uintptr_t)false_heap != wanted) _exit(96);
    memset(false_heap, 0xff, 8 << 20);
    false_heap[0] = heap[0];  // the arena
    false_heap[1] = (uintptr_t)heap;
    false_heap[2] = HEAP_BYTES;
    heap[1] = (uintptr_t)false_heap;
}

static volatile int got;
static void count(int number) {
    (void)number;
    got++;
}

// Signals of a real-time number are queued: none may be lost.
static void count_signals(void) {
    sigaction(SIGRTMIN, &(struct sigaction){.sa_handler = count}, NULL);
    pid_t we = getpid(), child = fork();
    if (!child) {
        say("ready\n");
        for (int i = 0; i < SIGNALS; i++) {
            kill(we, SIGRTMIN);
            usleep(300);
        }
        _exit(0);
    }
    while (waitpid(child, NULL, 0) != child) {
    }
    char text[64];
    snprintf(text, sizeof text, "got %d of %d\n", got, SIGNALS);
    say(text);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    blocks = map_pages(BLOCKS_MAX * sizeof *blocks);
    if (!strcmp(argv[1], "bins")) damage_bins();
    else if (!strcmp(argv[1], "heaps")) damage_heaps();
    else if (!strcmp(argv[1], "signals")) count_signals();
    else make_blocks();
    char byte;
    say("ready\n");
    _exit(read(STDIN_FILENO, &byte, 1) == 1);
}
