// SPDX-License-Identifier: Apache-2.0
#include "filter_watch.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "grow.h"
#include "raw_state.h"

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

void filter_watch_meet(struct filter_watch *watch, const struct ht_raw_log *log) {
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

int filter_watch_answer(struct filter_watch *watch) {
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

void filter_watch_leave(struct filter_watch *watch) {
    for (size_t i = 0; i < watch->count; i++) munmap(watch->asker[i], HT_RAW_HEADER_BYTES);
    free(watch->asker);
}
