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
static void take(struct ended_logs *logs, const char *name) {
    struct ht_raw_log log;
    struct ht_error error;
    char path[PATH_MAX];
    if (!log_has_name(name) ||
        snprintf(path, sizeof path, "%s/%s", logs->directory, name) >= (int)sizeof path ||
        ht_raw_open(&log, path, &error))
        return;
    if (log_is_of_run(&log, logs->id)) {
        filter_watch_meet(&logs->filters, &log);
        if (logs->cuts) log_cut_if_ended(&log);
    }
    ht_raw_close(&log);
}

static void take_what_was_closed(struct ended_logs *logs) {
    _Alignas(struct inotify_event) char events[4096];
    ssize_t got = read(logs->notified, events, sizeof events);
    for (ssize_t at = 0; at < got;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        at += (ssize_t)(sizeof *event + event->len);
        if (event->len) take(logs, event->name);
    }
}

static void *watch(void *argument) {
    struct ended_logs *logs = argument;
    struct pollfd wanted[] = {{.fd = logs->notified, .events = POLLIN}, {.fd = logs->stop, .events = POLLIN}};
    while (!wanted[1].revents)
        if (poll(wanted, 2, filter_watch_answer(&logs->filters)) > 0 && wanted[0].revents)
            take_what_was_closed(logs);
    return NULL;
}

void ended_logs_begin(struct ended_logs *logs, const char *directory, const char *id, bool cuts) {
    *logs = (struct ended_logs){.directory = directory,
                                .id = id,
                                .cuts = cuts,
                                .notified = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
                                .stop = eventfd(0, EFD_CLOEXEC)};
    logs->watches = directory && logs->notified >= 0 && logs->stop >= 0 &&
                    inotify_add_watch(logs->notified, directory, IN_CLOSE_WRITE) >= 0;
}

void ended_logs_watch(struct ended_logs *logs) {
    sigset_t all, before;
    if (!logs->watches) return;
    sigfillset(&all);
    // Signals are the first thread's, which passes them on to the program.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    logs->has_thread = !pthread_create(&logs->thread, NULL, watch, logs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ended_logs_leave(struct ended_logs *logs) {
    if (logs->has_thread && !eventfd_write(logs->stop, 1)) pthread_join(logs->thread, NULL);
    if (logs->notified >= 0) close(logs->notified);
    if (logs->stop >= 0) close(logs->stop);
    filter_watch_leave(&logs->filters);
}
