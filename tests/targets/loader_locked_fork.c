// Forks while another thread is inside dl_iterate_phdr, whose lock the child's C library leaves as it is. The child allocates,
// makes a process and a watch, closes a library that stays loaded, and exits; the program ends with 0 if the child did.
#include <dlfcn.h>
#include <link.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

static int inside[2], leave[2];

static int stay(struct dl_phdr_info *info, size_t size, void *argument) {
    char byte;
    (void)info, (void)size, (void)argument;
    if (write(inside[1], "", 1) != 1 || read(leave[0], &byte, 1) != 1) _exit(2);
    return 1;
}

static void *iterate(void *argument) {
    dl_iterate_phdr(stay, argument);
    return NULL;
}

static int leave_at_once(void *argument) {
    (void)argument;
    _exit(0);
}

static int live_as_a_child(void *library) {
    static char stack[65536];
    free(malloc(100));
    pid_t other = clone(leave_at_once, stack + sizeof stack, SIGCHLD, NULL);
    int status, watch = inotify_init1(0);
    if (other < 0 || waitpid(other, &status, 0) != other || watch < 0) return 1;
    mq_notify(-1, NULL);
    return dlclose(library);
}

int main(void) {
    pthread_t thread;
    char byte;
    int status;
    free(malloc(10));
    // Twice: it stays when it is closed.
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (!library || dlopen("libm.so.6", RTLD_NOW) != library) return 2;
    if (pipe(inside) || pipe(leave) || pthread_create(&thread, NULL, iterate, NULL)) return 2;
    if (read(inside[0], &byte, 1) != 1) return 2;
    pid_t child = fork();
    if (!child) exit(live_as_a_child(library));
    if (waitpid(child, &status, 0) != child || write(leave[1], "", 1) != 1) return 2;
    pthread_join(thread, NULL);
    return status != 0;
}
