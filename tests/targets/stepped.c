// SPDX-License-Identifier: Apache-2.0
// A signal handler that allocates behind one instruction of a malloc or free: behind each one in a child of its own. There the
// recorder does not expect any stack yet, and begins to during the handler's calls. Usage: stepped
#include <signal.h>

#include "single_steps.h"
#include "target_modes.h"

enum { BEFORE = 4000, IN_HANDLER = 600, AFTER = 300, ENDED = 1, STEPS_MIN = 100, STEPS_MAX = 20000 };

static volatile int steps_left, handled;

static __attribute__((noinline)) void allocate(size_t bytes) { free(malloc(bytes)); }

static void step(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    if (steps_left--) return;
    stop_steps_of(context);
    for (int i = 0; i < IN_HANDLER; i++) allocate(24);
    handled = 1;
}

static int step_through_one(int steps) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < BEFORE; i++) allocate(32);
    steps_left = steps;
    begin_steps();
    allocate(32);
    end_steps();
    for (int i = 0; i < AFTER; i++) allocate(24), allocate(32);
    return handled ? 0 : ENDED;
}

int main(void) {
    int status = 0, steps = 0;
    for (; !status; steps++) {
        if (steps == STEPS_MAX) target_fail("the call does not end");
        pid_t pid = fork();
        if (!pid) _exit(step_through_one(steps));
        status = child_status(pid);
    }
    return status != ENDED || steps < STEPS_MIN;
}
