// SPDX-License-Identifier: Apache-2.0
// A child of vfork limits, ends or seals itself, on its parent's memory. Usage: vfork_limits COUNTS MODE
#include <sys/prctl.h>
#include <sys/resource.h>

#include "target_modes.h"

enum { SIZE_AFTER = 7910, CALLS = 600000 };

static int go_on(pid_t child, int status) {
    if (child_status(child) != 5) target_fail("the child did not end as it should");
    tally_churn(SIZE_AFTER, CALLS);
    return status;
}

static int limit(char *unused) {
    (void)unused;
    const struct rlimit little = {64 << 20, 64 << 20};
    free(malloc(10));
    pid_t pid = vfork();
    if (pid == 0) _exit(setrlimit(RLIMIT_AS, &little) ? 6 : 5);
    return go_on(pid, 45);
}

// Not allowed, and done all the same.
static int leave(char *unused) {
    (void)unused;
    free(malloc(10));
    pid_t pid = vfork();
    if (pid == 0) exit(5);
    return go_on(pid, 46);
}

static int no_counter(char *unused) {
    (void)unused;
    free(malloc(10));
    pid_t pid = vfork();
    if (pid == 0) _exit(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) ? 6 : 5);
    return go_on(pid, 47);
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"limit", limit}, {"exit", leave}, {"no_counter", no_counter}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
