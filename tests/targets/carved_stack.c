// SPDX-License-Identifier: Apache-2.0
// A coroutine whose stack is a part of the first thread's, below a page that must not be touched. Both recurse, to where the other
// has been before.
#include <alloca.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { AREA_BYTES = 256 << 10, PAGE_BYTES = 4096, PAGES = 6, ROUNDS = 3000, DEPTH_MIN = 20, DEPTH_MAX = 370 };

static unsigned number = 1;
static void *volatile sink;
static ucontext_t first, other;

static unsigned next_number(void) {
    number = number * 1103515245 + 12345;
    return number >> 16;
}

static __attribute__((noinline)) void descend(unsigned depth) {
    char room[48];
    sink = room;
    if (!depth) {
        sink = malloc(10);
        free(sink);
    } else if (next_number() & 1) {
        descend(depth - 1);
        __asm__ volatile("nop");
    } else {
        descend(depth - 1);
        __asm__ volatile("nop; nop");
    }
}

static void recurse(void) {
    for (unsigned i = 0; i < ROUNDS; i++) descend(DEPTH_MIN + next_number() % (DEPTH_MAX - DEPTH_MIN));
}

static void run_in(char *stack, size_t bytes) {
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = bytes;
    other.uc_link = &first;
    makecontext(&other, recurse, 0);
    swapcontext(&first, &other);
}

int main(void) {
    char *area = alloca(AREA_BYTES);
    char *end = (char *)(((uintptr_t)area + AREA_BYTES) & ~(uintptr_t)(PAGE_BYTES - 1));
    memset(area, 0, AREA_BYTES);
    recurse();
    for (unsigned i = 1; i <= PAGES; i++) {
        char *guard = end - i * PAGE_BYTES;
        run_in(area, AREA_BYTES);
        if (mprotect(guard, PAGE_BYTES, PROT_NONE)) return 1;
        run_in(area, (size_t)(guard - area));
        if (mprotect(guard, PAGE_BYTES, PROT_READ | PROT_WRITE)) return 1;
    }
    return 0;
}
