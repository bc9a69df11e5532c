// SPDX-License-Identifier: Apache-2.0
// Leaves calls of malloc's family at every eighth instruction, by a handler that jumps: the processor traps behind
// each one. A call that blocks SIGALRM, whose handler could not run there, is let go and tried again. Within
// libsignal_safe_malloc nothing is left, or its own state would be. With "allocates" the handler comes behind every
// instruction of a malloc, allocates, and returns. Usage: jump_anywhere COUNTS [allocates]
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>

#include "single_steps.h"
#include "target_support.h"

// Little blocks: an instruction that fills one traps for every byte.
enum {
    SIZE_AFTER = 7900,
    SIZE_HANDLER,
    SIZE_WITHIN,
    SIZE_LEFT = 40,
    SIZE_RESIZED = 56,
    SIZE_FREED = 24,
    STRIDE = 8,
    TRIES_MAX = 20000
};

extern volatile int signal_safe_malloc_inside;

static volatile unsigned steps_left;
static volatile int let_go;
static sigjmp_buf back;
static void *volatile block;

static void step(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    ucontext_t *interrupted = context;
    if (sigismember(&interrupted->uc_sigmask, SIGALRM)) {
        let_go = 1;
        stop_steps_of(interrupted);
    } else if (steps_left) {
        steps_left--;
    } else if (!signal_safe_malloc_inside) {
        siglongjmp(back, 1);
    }
}

static void call_malloc(void) { block = malloc(SIZE_LEFT); }
static void call_calloc(void) { block = calloc(3, SIZE_LEFT / 5); }
static void call_aligned(void) { block = aligned_alloc(64, SIZE_LEFT); }
static void call_failing(void) { block = malloc(SIZE_MAX / 2); }
static void call_realloc(void) { block = realloc(block, SIZE_RESIZED); }
static void call_free(void) { free(block); }

static void leave_everywhere(void (*call)(void), int takes_block) {
    volatile int over = 0;
    for (volatile unsigned steps = 0, tries = 0; !over; steps += let_go ? 0 : STRIDE, tries++) {
        if (tries == TRIES_MAX) target_fail("the call does not end");
        if (takes_block) block = malloc(SIZE_FREED);
        let_go = 0;
        if (!sigsetjmp(back, 1)) {
            steps_left = steps;
            begin_steps();
            call();
            end_steps();
            over = !let_go;
        }
        free(tally_malloc(SIZE_AFTER));
    }
}

static void allocate(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    if (steps_left && steps_left--) return;
    stop_steps_of(context);
    let_go = 1;
    if (!signal_safe_malloc_inside) tally_churn(SIZE_HANDLER, 1);
}

static int allocate_everywhere(void) {
    let_go = 1;
    for (unsigned steps = 0; let_go; steps++) {
        if (steps == TRIES_MAX) target_fail("the call does not end");
        let_go = 0;
        steps_left = steps + 1;
        begin_steps();
        block = tally_malloc(SIZE_WITHIN);
        end_steps();
        free(block);
    }
    return 45;
}

int main(int argc, char **argv) {
    bool allocates = argc > 2;
    struct sigaction action = {.sa_sigaction = allocates ? allocate : step, .sa_flags = SA_SIGINFO};
    tally_open(argc > 1 ? argv[1] : NULL);
    sigaction(SIGTRAP, &action, NULL);
    free(tally_malloc(SIZE_AFTER));
    if (allocates) return allocate_everywhere();
    leave_everywhere(call_malloc, 0);
    leave_everywhere(call_calloc, 0);
    leave_everywhere(call_aligned, 0);
    leave_everywhere(call_failing, 0);
    leave_everywhere(call_realloc, 1);
    leave_everywhere(call_free, 1);
    for (int i = 0; i < 1000; i++) free(tally_malloc(SIZE_AFTER));
    return 43;
}
