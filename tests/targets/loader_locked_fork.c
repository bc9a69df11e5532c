// Forks while another thread is inside dl_iterate_phdr, whose lock the child's C library leaves as it is. The child allocates and
// exits; the program ends with 0 if the child did.
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
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

int main(void) {
    pthread_t thread;
    char byte;
    int status;
    free(malloc(10));
    if (pipe(inside) || pipe(leave) || pthread_create(&thread, NULL, iterate, NULL)) return 2;
    if (read(inside[0], &byte, 1) != 1) return 2;
    pid_t child = fork();
    if (!child) {
        free(malloc(100));
        exit(0);
    }
    if (waitpid(child, &status, 0) != child || write(leave[1], "", 1) != 1) return 2;
    pthread_join(thread, NULL);
    return status != 0;
}
