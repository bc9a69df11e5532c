// SPDX-License-Identifier: Apache-2.0
// Handlers that interrupt malloc itself, or whatever lies between the program and it, and then fork or jump
// away. Legal, because libsignal_safe_malloc serves the program. Usage: signal_inside COUNTS MODE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include "target_modes.h"

enum {
    SIZE_MAIN = 7720,
    SIZE_CHILD,
    SIZE_CHILD_GOES_ON,
    SIZE_AFTER,
    FORKS = 60,
    JUMPS = 200,
    CALLS = 100,
    THREADS = 2000
};

extern volatile int signal_safe_malloc_inside, signal_safe_malloc_raises;

static volatile sig_atomic_t handled, in_child;
static pid_t children[FORKS];
static sigjmp_buf back;

static void tick_every_us(long us) {
    struct itimerval timer = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

// Every other child ends in the handler; the rest return from it into the very call that it interrupted.
static void fork_here(int number) {
    (void)number;
    if (handled == FORKS || in_child || signal_safe_malloc_inside) return;
    pid_t pid = fork();
    if (pid < 0) target_fail("cannot fork");
    if (pid == 0) {
        tick_every_us(0);
        in_child = 1;
        tally_churn(SIZE_CHILD, 50);
        if (handled % 2) _exit(40);
        return;
    }
    children[handled] = pid;
    handled++;
}

static int fork_in_handler(char *unused) {
    (void)unused;
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    tick_every_us(700);
    while (handled < FORKS && !in_child) free(tally_malloc(SIZE_MAIN));
    if (in_child) {
        tally_churn(SIZE_CHILD_GOES_ON, 50);
        exit(40);
    }
    tick_every_us(0);
    for (int i = 0; i < FORKS; i++)
        if (child_status(children[i]) != 40) target_fail("a child did not end as it should");
    tally_churn(SIZE_AFTER, 1000);
    return 41;
}

static void fork_and_wait(int number) {
    (void)number;
    pid_t pid = fork();
    if (pid < 0) target_fail("cannot fork");
    if (pid && child_status(pid) != 45) target_fail("the child did not end as it should");
    if (!pid) free(tally_malloc(SIZE_CHILD));
}

// The child ends the very call that was interrupted, and makes more from the same place.
static int fork_in_malloc(char *unused) {
    (void)unused;
    signal(SIGUSR1, fork_and_wait);
    signal_safe_malloc_raises = SIGUSR1;
    tally_churn(SIZE_MAIN, CALLS);
    return 45;
}

static void jump_away(int number) {
    (void)number;
    // Within the library itself its own state would be left behind; before and after it, nothing is.
    if (signal_safe_malloc_inside) return;
    handled++;
    siglongjmp(back, 1);
}

// What was called, and left by a jump, may be recorded or not; what comes afterwards must be.
static int jump_from_the_first(char *unused) {
    (void)unused;
    struct sigaction action = {.sa_handler = jump_away};
    sigaction(SIGALRM, &action, NULL);
    tick_every_us(500);
    sigsetjmp(back, 1);
    while (handled < JUMPS) free(malloc(SIZE_MAIN));
    tick_every_us(0);
    signal(SIGALRM, SIG_IGN);
    tally_churn(SIZE_AFTER, 1000);
    return 42;
}

static int jump_in_handler(char *unused) {
    free(malloc(SIZE_MAIN));  // the recorder has begun before the first signal
    return jump_from_the_first(unused);
}

static void allocate(int number) {
    (void)number;
    tally_churn(SIZE_CHILD, 1);
    handled++;
}

static void *interrupted_once(void *unused) {
    signal_safe_malloc_raises = SIGUSR1;
    free(tally_malloc(SIZE_MAIN));
    return unused;
}

static long anonymous_kb(void) {
    char text[4096] = "";
    int fd = open("/proc/self/status", O_RDONLY);
    if (read(fd, text, sizeof text - 1) <= 0 || !strstr(text, "RssAnon:")) target_fail("no RssAnon");
    close(fd);
    return atol(strstr(text, "RssAnon:") + strlen("RssAnon:"));
}

// One thread after another, each of them interrupted within malloc: what is kept for such a thread must serve
// the next one.
static int interrupt_threads(char *unused) {
    (void)unused;
    long before = 0;
    signal(SIGUSR1, allocate);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (i == THREADS / 10) before = anonymous_kb();
        if (pthread_create(&thread, NULL, interrupted_once, NULL) || pthread_join(thread, NULL))
            target_fail("no thread");
    }
    if (handled != THREADS) target_fail("a thread was not interrupted");
    return anonymous_kb() - before < THREADS ? 43 : 44;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"fork", fork_in_handler},           {"fork_once", fork_in_malloc},  {"jump", jump_in_handler},
        {"jump_first", jump_from_the_first}, {"threads", interrupt_threads}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
