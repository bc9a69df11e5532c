// SPDX-License-Identifier: Apache-2.0
#include "ended_logs.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "cut_log.h"

// A process has its log mapped for writing until it ends, and this is when the kernel reports that the file was closed. It
// does so whenever the recorder has opened the file once more, too.
static void cut_what_was_closed(const struct ended_logs *logs) {
    _Alignas(struct inotify_event) char events[4096];
    char path[PATH_MAX];
    ssize_t got = read(logs->notified, events, sizeof events);
    for (ssize_t at = 0; at < got;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        at += (ssize_t)(sizeof *event + event->len);
        if (event->len &&
            snprintf(path, sizeof path, "%s/%s", logs->directory, event->name) < (int)sizeof path)
            log_cut_if_ended(path, logs->id);
    }
}

static void *watch(void *argument) {
    const struct ended_logs *logs = argument;
    struct pollfd wanted[] = {{.fd = logs->notified, .events = POLLIN}, {.fd = logs->stop, .events = POLLIN}};
    while (poll(wanted, 2, -1) > 0 && !wanted[1].revents) cut_what_was_closed(logs);
    return NULL;
}

void ended_logs_watch(struct ended_logs *logs, const char *directory, const char *id) {
    *logs = (struct ended_logs){.directory = directory,
                                .id = id,
                                .notified = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
                                .stop = eventfd(0, EFD_CLOEXEC)};
    sigset_t all, before;
    sigfillset(&all);
    // Signals are the first thread's, which passes them on to the program.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    logs->watches = logs->notified >= 0 && logs->stop >= 0 &&
                    inotify_add_watch(logs->notified, directory, IN_CLOSE_WRITE) >= 0 &&
                    !pthread_create(&logs->thread, NULL, watch, logs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ended_logs_leave(struct ended_logs *logs) {
    if (logs->watches && !eventfd_write(logs->stop, 1)) pthread_join(logs->thread, NULL);
    if (logs->notified >= 0) close(logs->notified);
    if (logs->stop >= 0) close(logs->stop);
}
