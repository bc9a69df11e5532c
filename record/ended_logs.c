// SPDX-License-Identifier: Apache-2.0
#include "ended_logs.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "grow.h"
#include "raw_state.h"

void log_cut(const struct ht_raw_log *log) {
    struct ht_raw_header now;
    // The header is read again: the process may have written on until it went.
    if (ht_raw_in_use(log) || pread(log->fd, &now, sizeof now, 0) != sizeof now ||
        now.chunks_end >= log->file_bytes)
        return;
    int fd = ht_raw_open_for_writing(log);
    if (fd < 0) return;
    if (ftruncate(fd, (off_t)now.chunks_end)) { /* it stays sparse */
    }
    close(fd);
}

bool log_is_of_run(const struct ht_raw_log *log, const char *id) {
    const char *log_id = ht_raw_context(log, "run");
    return log_id && !strcmp(log_id, id);
}

bool log_has_name(const char *name) {
    static const char start[] = "malloc-footprint.", end[] = ".mraw";
    size_t length = strlen(name);
    return length >= sizeof start + sizeof end - 2 && !strncmp(name, start, sizeof start - 1) &&
           !strcmp(name + length - (sizeof end - 1), end);
}

// Cuts it only if it has much room there.
static void log_cut_if_ended(const struct ht_raw_log *log) {
    enum { WORTH_IT_BYTES = 64 << 10 };
    struct stat status;
    if (!fstat(log->fd, &status) &&
        (uint64_t)status.st_blocks * 512 > log->header.chunks_end + WORTH_IT_BYTES)
        log_cut(log);
}

// ---- questions about filters ----

enum { WAIT_MS_MAX = 20 };

static uint32_t load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static bool is_known(const struct filter_watch *watch, const struct ht_raw_header *header) {
    for (size_t i = 0; i < watch->count; i++)
        if (watch->asker[i]->pid == header->pid && watch->asker[i]->sequence == header->sequence) return true;
    return false;
}

// A process of another namespace, where its number is another's here, is not answered.
static struct ht_raw_header *map_asker(const struct ht_raw_log *log) {
    if (!ht_raw_is_mapped(log)) return NULL;
    int fd = ht_raw_open_for_writing(log);
    if (fd < 0) return NULL;
    void *header = mmap(NULL, HT_RAW_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return header == MAP_FAILED ? NULL : header;
}

// The recorder has opened the log once more, maybe to be noticed.
static void filter_watch_meet(struct filter_watch *watch, const struct ht_raw_log *log) {
    if (log->header.filter_answer != HT_FILTER_FORESEEN || is_known(watch, &log->header) ||
        !ht_grow(&watch->asker, &watch->room, watch->count + 1, sizeof *watch->asker))
        return;
    struct ht_raw_header *header = map_asker(log);
    if (!header) return;
    watch->asker[watch->count++] = header;
    watch->wait_ms = 0;
    __atomic_store_n(&header->filter_answer, HT_FILTER_WATCHED, __ATOMIC_RELEASE);
}

// More than the process had before. Kernels before 5.9 do not count, but say that there is one. False where the thread has gone.
static bool has_new_filter(uint32_t pid, const char *thread, uint32_t before) {
    char path[64], line[256];
    unsigned mode = 0, count = 0;
    bool counts = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.16s/status", pid, thread);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "Seccomp: %u", &mode);
        counts |= sscanf(line, "Seccomp_filters: %u", &count) == 1;
    }
    if (status) fclose(status);
    return counts ? count > before : mode != 0;
}

static enum ht_filter_answer look(const struct ht_raw_header *header) {
    char path[64];
    struct dirent *entry;
    bool came = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", header->pid);
    DIR *threads = opendir(path);
    if (!threads) return HT_FILTER_CAME;  // it has ended, or cannot be seen
    while (!came && (entry = readdir(threads)))
        came = *entry->d_name != '.' && has_new_filter(header->pid, entry->d_name, header->filters_before);
    closedir(threads);
    return came ? HT_FILTER_CAME : HT_FILTER_NONE;
}

static bool has_gone(const struct ht_raw_header *header) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRIu32, header->pid);
    return access(path, F_OK) != 0;
}

// Answers what has been asked. The milliseconds until it is to be called again; -1: nobody will ask.
static int filter_watch_answer(struct filter_watch *watch) {
    for (size_t i = 0; i < watch->count;) {
        struct ht_raw_header *header = watch->asker[i];
        bool asked = load(&header->filter_answer) == HT_FILTER_ASKED;
        if (asked) __atomic_store_n(&header->filter_answer, look(header), __ATOMIC_RELEASE);
        if (asked || has_gone(header)) {
            munmap(header, HT_RAW_HEADER_BYTES);
            watch->asker[i] = watch->asker[--watch->count];
        } else {
            i++;
        }
    }
    if (watch->wait_ms < WAIT_MS_MAX) watch->wait_ms++;
    return watch->count ? watch->wait_ms : -1;
}

static void filter_watch_leave(struct filter_watch *watch) {
    for (size_t i = 0; i < watch->count; i++) munmap(watch->asker[i], HT_RAW_HEADER_BYTES);
    free(watch->asker);
}

// ---- the watch ----

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
