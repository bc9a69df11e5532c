// SPDX-License-Identifier: Apache-2.0
// A coroutine allocates, near the end of its stack and thousands of frames away from it. Prints the CPU time that it took in
// each place, in ns.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "target_support.h"

enum { STACK_BYTES = 4 << 20, CALLS = 2000, NEAR = 100, FAR = 10000 };

static ucontext_t caller, coroutine;

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) uint64_t allocate_at(unsigned depth) {
    uint64_t taken;
    if (depth) {
        taken = allocate_at(depth - 1);
    } else {
        uint64_t before = cpu_ns();
        for (unsigned i = 0; i < CALLS; i++) {
            void *volatile block = malloc(10);
            free(block);
        }
        taken = cpu_ns() - before;
    }
    __asm__ volatile("");
    return taken;
}

static void run(void) {
    unsigned long long near = allocate_at(NEAR), far = allocate_at(FAR);
    printf("%llu %llu\n", near, far);
}

int main(void) {
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || getcontext(&coroutine)) target_fail("no stack");
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, run, 0);
    return swapcontext(&caller, &coroutine) ? 1 : 0;
}
