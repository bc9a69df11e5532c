// SPDX-License-Identifier: Apache-2.0
// One thread is inside dl_iterate_phdr, in a callback that ends after all else, and holds the loader's lock there. The main
// thread, or a child that is forked then, whose C library leaves the lock as it is, calls a function for the first time, and
// exits. Status 43. Usage: loader_locked here|child allocate|dlclose|clone|inotify|fanotify|queue
#include <dlfcn.h>
#include <link.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS = 43, WAIT_S = 20 };

static int inside[2];
static void *library;

static int stay(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)info, (void)size, (void)argument;
    if (write(inside[1], "", 1) != 1) _exit(2);
    for (;;) pause();
}

static void *iterate(void *argument) {
    dl_iterate_phdr(stay, argument);
    return NULL;
}

static int leave(void *unused) {
    (void)unused;
    _exit(0);
}

static int call(const char *what) {
    static _Alignas(16) char stack[1 << 16];
    int status;
    if (!strcmp(what, "allocate")) {
        void *volatile block = malloc(100);
        free(block);
    } else if (!strcmp(what, "dlclose")) {
        if (dlclose(library)) return 2;
    } else if (!strcmp(what, "clone")) {
        pid_t child = clone(leave, stack + sizeof stack, SIGCHLD, NULL);
        if (child < 0 || waitpid(child, &status, 0) != child || status) return 2;
    } else if (!strcmp(what, "inotify")) {
        inotify_init1(0);
    } else if (!strcmp(what, "fanotify")) {
        fanotify_init(0, 0);
    } else if (!strcmp(what, "queue")) {
        if (!mq_notify(-1, NULL)) return 2;
    } else {
        return 2;
    }
    return STATUS;
}

int main(int argc, char **argv) {
    pthread_t thread;
    char byte;
    int status;
    if (argc < 3) return 2;
    free(malloc(10));
    // Opened twice, so that it stays.
    if (!(library = dlopen("libm.so.6", RTLD_NOW)) || !dlopen("libm.so.6", RTLD_NOW)) return 2;
    if (pipe(inside) || pthread_create(&thread, NULL, iterate, NULL) || read(inside[0], &byte, 1) != 1)
        return 2;
    alarm(WAIT_S);
    if (!strcmp(argv[1], "here")) return call(argv[2]);
    pid_t child = fork();
    if (!child) {
        alarm(WAIT_S);
        return call(argv[2]);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
