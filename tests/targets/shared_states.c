// SPDX-License-Identifier: Apache-2.0
// More than one at work on a thread's storage: a process that shares all memory with its parent, and threads of the program's
// own that a signal switches, at any instruction. The allocator stands that. Usage: shared_states COUNTS MODE [alternate]
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include "target_modes.h"

enum { SIZE_PARENT = 7970, SIZE_CHILD, SIZE_SWITCHED, STACK_BYTES = 256 << 10 };

static volatile int child_is_done;

static int allocate_as_child(void *unused) {
    (void)unused;
    tally_churn(SIZE_CHILD, 20000);
    child_is_done = 1;
    return 0;
}

static char *map_stack(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) target_fail("no stack");
    return at;
}

static int clone_vm(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    pid_t pid = clone(allocate_as_child, map_stack(STACK_BYTES) + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
    while (pid > 0 && !child_is_done) tally_churn(SIZE_PARENT, 1);
    if (child_status(pid)) target_fail("the child failed");
    tally_churn(SIZE_PARENT, 100);
    return 123;
}

// ---- threads of the program's own ----

enum { STRANDS = 4, SWITCHES = 600, SWITCH_US = 150 };

static ucontext_t strand[STRANDS], first;
static volatile sig_atomic_t current, switches;

// The signal is blocked in all that is saved here, so that none comes within a switch.
static void switch_strand(int number) {
    (void)number;
    int saved = errno, from = current;
    current = (from + 1) % STRANDS;
    if (switches++ < SWITCHES) swapcontext(&strand[from], &strand[current]);
    else setcontext(&first);
    errno = saved;
}

static void allocate_as_strand(void) {
    sigset_t switching;
    sigemptyset(&switching);
    sigaddset(&switching, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &switching, NULL);
    for (;;) tally_churn(SIZE_SWITCHED, 1);
}

static int switched(char *alternate) {
    static volatile int is_over;
    struct sigaction action = {.sa_handler = switch_strand, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, SWITCH_US}, {0, SWITCH_US}}, never = {{0, 0}, {0, 0}};
    char *stacks = map_stack(STRANDS * STACK_BYTES);
    if (alternate && sigaltstack(&(stack_t){.ss_sp = map_stack(STACK_BYTES), .ss_size = STACK_BYTES}, NULL))
        target_fail("no alternate stack");
    tally_churn(SIZE_PARENT, 100);
    for (int i = 0; i < STRANDS; i++) {
        getcontext(&strand[i]);
        strand[i].uc_stack.ss_sp = stacks + i * STACK_BYTES;
        strand[i].uc_stack.ss_size = STACK_BYTES;
        sigaddset(&strand[i].uc_sigmask, SIGALRM);
        makecontext(&strand[i], allocate_as_strand, 0);
    }
    getcontext(&first);
    if (!is_over) {
        is_over = 1;
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        setcontext(&strand[0]);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    _exit(124);
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"clone_vm", clone_vm}, {"switched", switched}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
