// SPDX-License-Identifier: Apache-2.0
// Every way to come by another process: each allocates, and each block is counted.
// Usage: process_kinds COUNTS MODE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "target_modes.h"

enum { SIZE_PARENT = 7310, SIZE_CHILD, SIZE_GRANDCHILD, SIZE_IMAGE, SIZE_INHERITED };

static const char *counts_path;

// The command line by which a shell calls this program's mode "image".
static char *image_command(void) {
    static char command[8192];
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0) target_fail("no /proc/self/exe");
    own[length] = 0;
    snprintf(command, sizeof command, "'%s' '%s' image", own, counts_path);
    return command;
}

static int be_image(char *unused) {
    (void)unused;
    tally_churn(SIZE_IMAGE, 200);
    return write(1, "image\n", 6) == 6 ? 50 : 1;
}

static int call_system(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    int status = system(image_command());
    tally_churn(SIZE_PARENT, 100);
    return WIFEXITED(status) && WEXITSTATUS(status) == 50 ? 51 : 1;
}

static int call_popen(char *unused) {
    (void)unused;
    char line[32];
    tally_churn(SIZE_PARENT, 100);
    FILE *pipe = popen(image_command(), "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || strcmp(line, "image\n")) return 1;
    tally_churn(SIZE_PARENT, 100);
    return WEXITSTATUS(pclose(pipe)) == 50 ? 52 : 1;
}

// The parent is gone at once; the daemon keeps stdout, by which a test knows when it ends.
static int become_daemon(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    if (daemon(0, 1)) return 1;
    tally_churn(SIZE_CHILD, 10000);
    return write(1, "daemon\n", 7) == 7 ? 53 : 1;
}

static int fork_twice(char *unused) {
    (void)unused;
    int ends[2];
    char byte;
    void *inherited[50];
    if (pipe(ends)) return 1;
    tally_churn(SIZE_PARENT, 100);
    for (int i = 0; i < 50; i++) inherited[i] = tally_malloc(SIZE_INHERITED);
    pid_t pid = fork();
    if (pid == 0) {
        // The middle process leaves without a single call of its own, when the parent has gone on for a while:
        // what the grandchild inherits is as old as the first fork.
        usleep(50000);
        if (fork()) _exit(0);
        close(ends[0]);
        for (int i = 0; i < 50; i++) free(inherited[i]);
        tally_churn(SIZE_GRANDCHILD, 300);
        if (write(ends[1], "g", 1) != 1) _exit(1);
        exit(0);
    }
    close(ends[1]);
    for (int i = 0; i < 50; i++) free(inherited[i]);
    if (child_status(pid) != 0 || read(ends[0], &byte, 1) != 1) return 1;
    while (read(ends[0], &byte, 1) > 0) continue;  // the grandchild's end of the pipe closes when it is gone
    tally_churn(SIZE_PARENT, 100);
    return 54;
}

// No handler of pthread_atfork runs for these.
static pid_t clone_raw(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }
static pid_t fork_raw(void) {
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return clone_raw();
#endif
}

static int without_handlers(pid_t (*divide)(void)) {
    void *inherited[100];
    for (int i = 0; i < 100; i++) inherited[i] = tally_malloc(SIZE_INHERITED);
    pid_t pid = divide();
    if (pid == 0) {
        for (int i = 0; i < 50; i++) free(inherited[i]);
        tally_churn(SIZE_CHILD, 300);
        pid = divide();
        if (pid == 0) {
            tally_churn(SIZE_GRANDCHILD, 300);
            _exit(7);
        }
        _exit(child_status(pid) == 7 ? 8 : 1);
    }
    tally_churn(SIZE_PARENT, 5000);  // at the same time
    for (int i = 0; i < 100; i++) free(inherited[i]);
    return child_status(pid);
}
static int call_clone(char *unused) {
    (void)unused;
    return without_handlers(clone_raw) == 8 ? 55 : 1;
}
static int call_fork(char *unused) {
    (void)unused;
    return without_handlers(fork_raw) == 8 ? 56 : 1;
}

// Not every C library has it.
static int call_bare_fork(char *unused) {
    (void)unused;
    pid_t (*bare_fork)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    if (!bare_fork) return 77;
    return without_handlers(bare_fork) == 8 ? 61 : 1;
}

// By libc's function, with a stack of its own.
static void *cloned_blocks[100];
static int be_clone(void *depth) {
    static char stack[256 << 10] __attribute__((aligned(16)));
    for (int i = 0; i < 50; i++) free(cloned_blocks[i]);
    tally_churn(depth ? SIZE_GRANDCHILD : SIZE_CHILD, 300);
    if (depth) return 7;
    for (int i = 0; i < 50; i++) cloned_blocks[i] = tally_malloc(SIZE_INHERITED);
    return child_status(clone(be_clone, stack + sizeof stack, SIGCHLD, stack)) == 7 ? 8 : 1;
}
static int call_clone_function(char *unused) {
    (void)unused;
    static char stack[256 << 10] __attribute__((aligned(16)));
    for (int i = 0; i < 100; i++) cloned_blocks[i] = tally_malloc(SIZE_INHERITED);
    pid_t pid = clone(be_clone, stack + sizeof stack, SIGCHLD, NULL);
    for (int i = 0; i < 100; i++) free(cloned_blocks[i]);
    return child_status(pid) == 8 ? 62 : 1;
}

// Handlers of the program's, registered before its first call of malloc. Those of the parent and the child free what is live
// at the fork: what the one before it leaves.
static void *held[100];
static void before_fork(void) {
    void *others[50];
    for (int i = 0; i < 50; i++) others[i] = tally_malloc(SIZE_INHERITED);
    for (int i = 0; i < 50; i++) free(held[i]);
    memcpy(held, others, sizeof others);
}
static void after_fork(void) {
    for (int i = 0; i < 50; i++) free(held[i]);
}
static void in_fork(void) {
    for (int i = 25; i < 75; i++) free(held[i]);
    tally_churn(SIZE_CHILD, 10);
}
static int fork_with_handlers(char *unused) {
    (void)unused;
    pthread_atfork(before_fork, after_fork, in_fork);
    for (int i = 0; i < 100; i++) held[i] = tally_malloc(SIZE_INHERITED);
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 300);
        for (int i = 0; i < 25; i++) free(held[i]);
        _exit(5);
    }
    for (int i = 50; i < 100; i++) free(held[i]);
    return child_status(pid) == 5 ? 63 : 1;
}

static int fifty_children(char *unused) {
    (void)unused;
    for (int i = 0; i < 50; i++) {
        void *inherited = tally_malloc(SIZE_INHERITED);
        pid_t pid = fork();
        if (pid == 0) {
            free(inherited);
            tally_churn(SIZE_CHILD, i);
            if (i % 2) _exit(i);
            exit(i);
        }
        if (child_status(pid) != i) return 1;
        free(inherited);
        tally_churn(SIZE_PARENT, 10);
    }
    return 57;
}

// A folder that was named relative to where the program began must still be found from elsewhere.
static int change_directory(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir("/")) _exit(1);
        tally_churn(SIZE_CHILD, 100);
        pid = fork();
        if (pid == 0) {
            if (chdir("/proc/self")) _exit(1);
            tally_churn(SIZE_GRANDCHILD, 100);
            _exit(9);
        }
        _exit(child_status(pid));
    }
    return child_status(pid) == 9 ? 58 : 1;
}

// The environment is gone before the first fork: nothing may be read from it any more.
static int without_environment(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    clearenv();
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 100);
        _exit(10);
    }
    return child_status(pid) == 10 ? 59 : 1;
}

// Goes on for a while after those who started it are gone.
static int linger(char *unused) {
    (void)unused;
    tally_churn(SIZE_PARENT, 100);
    usleep(700000);
    for (int i = 0; i < 100000; i++) free(tally_malloc(SIZE_CHILD));
    return write(1, "still here\n", 11) == 11 ? 60 : 1;
}

// Before the first call of malloc, by the function syscall(): it returns, in the child, to what lies on the child's stack.
static void be_on_stack(void) { _exit(11); }
static int clone_on_stack(char *unused) {
    (void)unused;
    int status = 11;
#if defined(__x86_64__)
    static uintptr_t stack[4096] __attribute__((aligned(16)));
    uintptr_t *top = &stack[4096 - 8];
    *top = (uintptr_t)be_on_stack;
    status = child_status((pid_t)syscall(SYS_clone, CLONE_VM | SIGCHLD, top, NULL, NULL, 0));
#endif
    tally_churn(SIZE_PARENT, 100);
    return status == 11 ? 64 : 1;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"image", be_image},
                                               {"system", call_system},
                                               {"popen", call_popen},
                                               {"daemon", become_daemon},
                                               {"double_fork", fork_twice},
                                               {"raw_clone", call_clone},
                                               {"raw_fork", call_fork},
                                               {"fifty", fifty_children},
                                               {"chdir", change_directory},
                                               {"clearenv", without_environment},
                                               {"linger", linger},
                                               {"bare_fork", call_bare_fork},
                                               {"clone", call_clone_function},
                                               {"atfork", fork_with_handlers},
                                               {"clone_on_stack", clone_on_stack},
                                               {NULL, NULL}};
    counts_path = argc > 1 ? argv[1] : "";
    return run_target_mode(modes, argc, argv);
}
