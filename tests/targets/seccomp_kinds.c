// SPDX-License-Identifier: Apache-2.0
// Programs that have the kernel kill them for a system call they did not foresee, and go on allocating: many
// calls, large blocks, and a pause after which a recorder's periodic work would be due.
// Usage: seccomp_kinds COUNTS MODE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "seccomp_filters.h"
#include "target_modes.h"

enum {
    SIZE_BEFORE = 7850,
    SIZE_AFTER,
    SIZE_THREAD,
    SIZE_CHILD,
    SIZE_ARENA,
    CALLS_BEFORE = 5000,
    CALLS_AFTER = 20000,
    PAUSE_NS = 300000000
};

static struct call_filter filter;
static uint64_t pause_loops;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void spin(uint64_t loops) {
    for (volatile uint64_t i = 0; i < loops; i++) continue;
}

// How many loops the pause takes: inside the sandbox there is no clock to ask.
static void measure_pause(void) {
    uint64_t started_ns = now_ns(), loops = 0;
    for (; now_ns() - started_ns < PAUSE_NS / 10; loops += 100000) spin(100000);
    pause_loops = loops * 10;
}

static void *volatile before_large;

static void prepare(void) {
    measure_pause();
    tally_churn(SIZE_BEFORE, CALLS_BEFORE);
    before_large = malloc(500000);
    memset(before_large, 1, 500000);
}

static void large_blocks(void) {
    for (int i = 0; i < 20; i++) {
        size_t size = (size_t)(64 << 10) << (i % 5);
        char *volatile block = malloc(size);
        if (!block) target_fail("malloc failed");
        memset(block, 1, size);
        block = realloc(block, 2 * size);
        free(block);
        free(calloc(3, size));
    }
}

static int go_on(int status) {
    tally_churn(SIZE_AFTER, CALLS_AFTER / 2);
    free(before_large);
    large_blocks();
    spin(pause_loops);
    tally_churn(SIZE_AFTER, CALLS_AFTER / 2);
    large_blocks();
    munmap(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
    return status;
}

static int opening_by_prctl(char *unused) {
    (void)unused;
    filter_opening(&filter);
    prepare();
    filter_install_by_prctl(&filter);
    return go_on(90);
}

static int opening_by_syscall(char *unused) {
    (void)unused;
    filter_opening(&filter);
    prepare();
    filter_install_by_syscall(&filter, 0);
    return go_on(91);
}

static int strict_by_prctl(char *unused) {
    (void)unused;
    filter_strict(&filter);
    prepare();
    filter_install_by_prctl(&filter);
    return go_on(92);
}

static int strict_by_syscall(char *unused) {
    (void)unused;
    filter_strict(&filter);
    prepare();
    filter_install_by_syscall(&filter, 0);
    return go_on(93);
}

static int strict_by_number(char *unused) {
    (void)unused;
    filter_strict(&filter);
    prepare();
    struct sock_fprog program = {filter.length, filter.code};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        target_fail("cannot install the filter");
    return go_on(97);
}

static _Atomic int started, locked_in;

static void *allocate_meanwhile(void *unused) {
    (void)unused;
    tally_churn(SIZE_THREAD, 1000);
    started = 1;
    while (!locked_in) tally_churn(SIZE_THREAD, 100);
    tally_churn(SIZE_THREAD, 2000);
    large_blocks();
    return NULL;
}

// The filter falls on another thread in the midst of its work; then come a new thread and a child.
static int on_all_threads(char *unused) {
    (void)unused;
    pthread_t thread;
    filter_opening(&filter);
    prepare();
    if (pthread_create(&thread, NULL, allocate_meanwhile, NULL)) target_fail("no thread");
    while (!started) usleep(100);
    filter_install_by_syscall(&filter, SECCOMP_FILTER_FLAG_TSYNC);
    locked_in = 1;
    pthread_join(thread, NULL);
    if (pthread_create(&thread, NULL, allocate_meanwhile, NULL)) target_fail("no thread");
    pthread_join(thread, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 1000);
        exit(5);
    }
    if (child_status(pid) != 5) return 1;
    return go_on(94);
}

// Nothing is forbidden but to read the cycle counter, for which the kernel sends SIGSEGV.
static int no_counter(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, CALLS_BEFORE);
#ifdef __x86_64__
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) target_fail("prctl");
#endif
    tally_churn(SIZE_ARENA, 10000);
    large_blocks();
    return 96;
}

// The oldest kind: read, write, exit of the thread and nothing else; on x86 the cycle counter is forbidden
// too. The blocks come from memory that malloc has at hand.
static int mode_strict(char *unused) {
    (void)unused;
    measure_pause();
    tally_churn(SIZE_BEFORE, CALLS_BEFORE);
    free(malloc(60000));
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)) target_fail("prctl");
    tally_churn(SIZE_ARENA, 5000);
    spin(pause_loops);
    tally_churn(SIZE_ARENA, 5000);
    syscall(SYS_exit, 95);
    return 1;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"opening_prctl", opening_by_prctl},
                                               {"opening_syscall", opening_by_syscall},
                                               {"strict_prctl", strict_by_prctl},
                                               {"strict_syscall", strict_by_syscall},
                                               {"strict_number", strict_by_number},
                                               {"all_threads", on_all_threads},
                                               {"mode_strict", mode_strict},
                                               {"no_counter", no_counter},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
