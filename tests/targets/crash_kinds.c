// SPDX-License-Identifier: Apache-2.0
// Ends in one of the ways that leave no time for a farewell. Usage: crash_kinds COUNTS MODE
#include <signal.h>
#include <sys/resource.h>

#include "target_modes.h"

enum { SIZE_BEFORE = 7930, SIZE_HANDLER, SIZE_LIVE };

static void prepare(void) {
    tally_churn(SIZE_BEFORE, 5000);
    for (int i = 0; i < 500; i++) {
        void *volatile live = tally_malloc(SIZE_LIVE);
        (void)live;
    }
}

static int end_by_abort(char *unused) {
    (void)unused;
    prepare();
    abort();
}

static int end_by_fault(char *unused) {
    (void)unused;
    prepare();
    volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
    return 1;
}

static int end_by_sigkill(char *unused) {
    (void)unused;
    prepare();
    return raise(SIGKILL);
}

static int end_by_quick_exit(char *unused) {
    (void)unused;
    prepare();
    quick_exit(21);
}

// The handler runs on a stack of its own, the thread's is used up; it allocates and leaves.
static void on_overflow(int number) {
    (void)number;
    tally_churn(SIZE_HANDLER, 3000);
    _exit(22);
}

__attribute__((noinline)) static int recurse(volatile char *above) {
    volatile char frame[512];
    if (!above) return 0;
    frame[0] = above[0];
    return recurse(frame) + frame[0];
}

static int end_by_overflow(char *unused) {
    (void)unused;
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
    char first = 0;
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    prepare();
    return recurse(&first);
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"abort", end_by_abort},           {"fault", end_by_fault},       {"sigkill", end_by_sigkill},
        {"quick_exit", end_by_quick_exit}, {"overflow", end_by_overflow}, {NULL, NULL}};
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    return run_target_mode(modes, argc, argv);
}
