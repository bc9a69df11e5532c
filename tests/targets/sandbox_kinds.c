// SPDX-License-Identifier: Apache-2.0
// Programs that lock themselves in and go on allocating. Usage: sandbox_kinds COUNTS MODE [FOLDER]
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "target_modes.h"

enum { SIZE_BEFORE = 7840, SIZE_AFTER, SIZE_CHILD, SIZE_THREAD, NOBODY = 65534 };

static void *allocate_in_thread(void *unused) {
    (void)unused;
    tally_churn(SIZE_THREAD, 500);
    return NULL;
}

static void run_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_in_thread, NULL)) target_fail("no thread");
    pthread_join(thread, NULL);
}

static void run_child(void) {
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 500);
        exit(4);
    }
    if (child_status(pid) != 4) target_fail("the child did not end as it should");
}

// Calls, large blocks, a thread and a child: whatever a recorder would want to do has its occasion.
static void go_on(void) {
    tally_churn(SIZE_AFTER, 100000);
    for (int i = 0; i < 50; i++) {
        char *volatile block = malloc(300000);
        if (block) memset(block, 1, 300000);
        free(block);
    }
    run_thread();
    run_child();
    tally_churn(SIZE_AFTER, 1000);
}

static int change_root(char *folder) {
    tally_churn(SIZE_BEFORE, 1000);
    if (chroot(folder) || chdir("/")) target_fail("cannot change the root");
    go_on();
    return 80;
}

static int change_user(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    run_thread();
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) target_fail("cannot change the user");
    go_on();
    return 81;
}

static int no_new_privileges(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) target_fail("prctl");
    go_on();
    return 82;
}

static int unshare_namespaces(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) target_fail("cannot unshare");
    go_on();
    return 83;
}

static int change_directory(char *folder) {
    tally_churn(SIZE_BEFORE, 1000);
    if (mkdir(folder, 0700) || chdir(folder) || rmdir(folder)) target_fail("cannot go there");
    go_on();
    return 84;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"chroot", change_root},         {"setuid", change_user},     {"no_new_privs", no_new_privileges},
        {"unshare", unshare_namespaces}, {"chdir", change_directory}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
