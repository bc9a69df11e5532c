// SPDX-License-Identifier: Apache-2.0
// Ten thousand threads, a hundred alive at a time, each with a few calls; joined or detached. Near its end
// the program writes its own memory use in KiB into REPORT. Usage: many_threads COUNTS MODE REPORT
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "target_modes.h"

enum { THREADS = 10000, AT_ONCE = 100, SIZE_THREAD = 7520, SIZE_LEFT, CALLS = 20 };

static _Atomic int ended;

static void *work(void *argument) {
    tally_churn(SIZE_THREAD, CALLS);
    return argument ? tally_malloc(SIZE_LEFT) : NULL;
}

static void *work_detached(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "worker %d", (int)(intptr_t)argument);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    tally_churn(SIZE_THREAD, CALLS);
    ended++;
    return NULL;
}

static long field_kib(const char *text, const char *name) {
    const char *line = strstr(text, name);
    return line ? atol(line + strlen(name)) : 0;
}

static void write_report(const char *path) {
    static char text[8192];
    static struct plain_writer out;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0) target_fail("no /proc/self/status");
    close(fd);
    text[got] = 0;
    writer_open(&out, path);
    writer_print(&out, "%ld\n",
                 field_kib(text, "RssAnon:") + field_kib(text, "RssFile:") + field_kib(text, "RssShmem:"));
    writer_close(&out);
}

static int join_threads(char *report) {
    pthread_t threads[AT_ONCE];
    for (int started = 0; started < THREADS; started += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            if (pthread_create(&threads[i], NULL, work, &ended)) target_fail("no thread");
        for (int i = 0; i < AT_ONCE; i++) {
            void *left;
            pthread_join(threads[i], &left);
            free(left);
        }
    }
    write_report(report);
    return 110;
}

static int detach_threads(char *report) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int started = 0; started < THREADS / 10; started++) {
        while (started - ended >= AT_ONCE) usleep(100);
        if (pthread_create(&thread, &attributes, work_detached, (void *)(intptr_t)started))
            target_fail("no thread");
    }
    while (ended < THREADS / 10) usleep(1000);
    write_report(report);
    // The threads have counted, but some may not be gone: their last calls are libc's.
    usleep(50000);
    return 111;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"joined", join_threads}, {"detached", detach_threads}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
