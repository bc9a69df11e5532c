// SPDX-License-Identifier: Apache-2.0
// A master that forks workers, which copy known pages of its block. It prints the block's address, and goes on until a file is
// gone, or SIGTERM comes; then the workers end first.
// Usage: group_kinds COUNTS MODE FILE
#include <errno.h>
#include <signal.h>

#include "target_modes.h"

// Behind the pages that are written there are some that are only read, none for a while, and a last one.
enum {
    PAGE = 4096,
    PAGES = 4096,
    READ_PAGES = 64,
    LAST_PAGE = 6500,
    WORKERS = 3,
    STEP = 100,
    NOBODY = 65534,
    RENEWED_US = 400000
};

static const char *file;
static volatile sig_atomic_t terminated;
static char *block;

static void terminate(int number) {
    (void)number;
    terminated = 1;
}

static void go_on(void) {
    while (!terminated && !access(file, F_OK)) usleep(2000);
}

static void begin(char *path) {
    static const struct sigaction action = {.sa_handler = terminate};
    file = path;
    sigaction(SIGTERM, &action, NULL);
    // Large: it has a mapping of its own. Its first page has malloc's words, too.
    block = (char *)malloc((size_t)(LAST_PAGE + 2) * PAGE);
    if (!block) target_fail("malloc failed");
    block = (char *)(((uintptr_t)block + PAGE) / PAGE * PAGE);
    for (size_t page = 0; page < PAGES; page++) block[page * PAGE] = 1;
    for (size_t page = PAGES; page < PAGES + READ_PAGES; page++)
        if (((volatile char *)block)[page * PAGE]) target_fail("a fresh page is not zero");
    block[(size_t)LAST_PAGE * PAGE] = 1;
}

static void copy(size_t first, size_t pages) {
    for (size_t page = first; page < first + pages; page++) block[page * PAGE]++;
}

static void say(const char *more, int pid) {
    char line[96];
    int length = snprintf(line, sizeof line, "%s%lx %d\n", more, (unsigned long)block, pid);
    if (write(1, line, (size_t)length) != length) target_fail("cannot print");
}

// Worker i copies 100 * (i + 1) pages from page 1000 * i on.
static pid_t fork_worker(int number, int user) {
    int ready[2];
    char byte = 1;
    if (pipe(ready)) target_fail("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        if (user && setuid((uid_t)user)) target_fail("cannot become another user");
        tally_churn(TALLY_FIRST, 10);
        copy(1000 * (size_t)number, STEP * ((size_t)number + 1));
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        go_on();
        _exit(0);
    }
    close(ready[1]);
    if (pid < 0 || read(ready[0], &byte, 1) != 1) target_fail("no worker");
    close(ready[0]);
    return pid;
}

static int run_workers(int user) {
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) workers[i] = fork_worker(i, user);
    for (int i = 0; i < WORKERS; i++) say("worker ", workers[i]);
    say("block ", 0);
    go_on();
    for (int i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGTERM);
        if (child_status(workers[i])) return 1;
        usleep(100000);
    }
    // Nothing is left of the group, but the master.
    usleep(300000);
    return 60;
}

static int be_workers(char *path) {
    begin(path);
    return run_workers(0);
}

static int be_other_user(char *path) {
    begin(path);
    return run_workers(NOBODY);
}

// One ends, and the next one comes at once.
static int replace_workers(char *path) {
    begin(path);
    say("block ", 0);
    while (!terminated && !access(file, F_OK)) {
        pid_t one = fork_worker(0, 0), other = fork_worker(1, 0);
        usleep(RENEWED_US);
        kill(one, SIGTERM);
        kill(other, SIGTERM);
        if (child_status(one) || child_status(other)) return 1;
    }
    return 61;
}

// A worker, and a child that becomes another program.
static int execute(char *path) {
    begin(path);
    pid_t worker = fork_worker(0, 0), other = fork();
    if (other == 0) {
        execlp("sleep", "sleep", "60", NULL);
        target_fail("cannot execute sleep");
    }
    say("worker ", worker);
    say("other ", other);
    say("block ", 0);
    go_on();
    kill(other, SIGTERM);
    while (waitpid(other, NULL, 0) < 0 && errno == EINTR) continue;
    kill(worker, SIGTERM);
    return child_status(worker) ? 1 : 62;
}

static int be_alone(char *path) {
    begin(path);
    say("block ", 0);
    go_on();
    return 63;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"workers", be_workers},       {"other-user", be_other_user},
                                               {"replaced", replace_workers}, {"exec", execute},
                                               {"alone", be_alone},           {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
