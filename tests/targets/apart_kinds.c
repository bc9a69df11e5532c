// Programs that would notice if the recorder had another thread or process at work when a call returns.
// Usage: apart_kinds COUNTS MODE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "target_modes.h"

#ifndef __WALL
#define __WALL 0x40000000
#endif

enum { SIZE_MAIN = 7870, ROUNDS = 100, BLOCKS = 400, BLOCK_BYTES = 300000, TOUCHED_BYTES = 20000 };

static volatile sig_atomic_t children_ended;

static void count_child(int number) {
    (void)number;
    children_ended++;
}

// Memory grows so fast that a sample falls due every millisecond or sooner. After each call `is_as_it_was`
// tells whether the program is alone.
static long count_disturbed(bool (*is_as_it_was)(void)) {
    static char *block[BLOCKS];
    long disturbed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            volatile size_t size = BLOCK_BYTES;
            block[i] = malloc(size);
            disturbed += !is_as_it_was();
            memset(block[i], 1, TOUCHED_BYTES);
            free(tally_malloc(SIZE_MAIN));
            disturbed += !is_as_it_was();
        }
        for (int i = 0; i < BLOCKS; i++) free(block[i]);
    }
    return disturbed;
}

// The kernel refuses this to a process of several threads, as it does new user namespaces.
static bool has_one_thread(void) { return unshare(CLONE_THREAD) == 0; }

static bool has_no_child(void) {
    return waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD && !children_ended;
}

static int say_disturbed(long disturbed, int status) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", disturbed);
    return write(1, text, (size_t)length) == length ? status : 99;
}

static int with_one_thread(char *unused) {
    (void)unused;
    return say_disturbed(count_disturbed(has_one_thread), 80);
}

static int without_child(char *unused) {
    (void)unused;
    signal(SIGCHLD, count_child);
    return say_disturbed(count_disturbed(has_no_child), 81);
}

// After this the process can't have another thread, only a child, which would be the first of a namespace.
static int in_another_pid_namespace(char *unused) {
    (void)unused;
    tally_churn(SIZE_MAIN, 100);
    if (unshare(CLONE_NEWPID)) return 79;
    for (int i = 0; i < 100; i++) {
        volatile size_t size = BLOCK_BYTES;
        char *block = malloc(size);
        memset(block, 1, BLOCK_BYTES);
        free(tally_malloc(SIZE_MAIN));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (i % 10 == 0) {
            pid_t child = fork();
            if (child == 0) _exit(i);
            if (child < 0 && i == 0) target_fail("no child");
            if (child > 0 && child_status(child) != i) target_fail("another child");
        }
        free(block);
    }
    return 82;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"one_thread", with_one_thread},
                                               {"no_child", without_child},
                                               {"pid_namespace", in_another_pid_namespace},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
