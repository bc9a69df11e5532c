// SPDX-License-Identifier: Apache-2.0
#include "group_meetings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "futex_word.h"

enum { TEXT_BYTES = 4096, KB = 1024, GONE_POLLS_MAX = 20000 };

static ssize_t read_file(pid_t pid, const char *name, char text[TEXT_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
    int why = errno;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    errno = why;
    return got;
}

static bool has_ended(pid_t pid) {
    char text[TEXT_BYTES];
    if (read_file(pid, "stat", text) <= 0) return true;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && strchr("ZXx", name_end[2]);
}

static bool field(const char *text, const char *name, uint64_t *bytes) {
    const char *at = strstr(text, name);
    if (!at) return false;
    *bytes = strtoull(at + strlen(name), NULL, 10) * KB;
    return true;
}

static bool fail(struct ht_group_watch *watch, uint32_t number, const char *what, int why) {
    uint32_t pid = ht_group_process(watch->program->trace, number)->pid;
    snprintf(watch->problem, sizeof watch->problem, "the process that replays %" PRIu32 " %s%s%s", pid, what,
             why ? ": " : "", why ? strerror(why) : "");
    return false;
}

static bool look_at(struct ht_group_watch *watch, uint32_t number, struct ht_group_look *look) {
    char text[TEXT_BYTES];
    if (read_file(ht_group_parts(watch->plan)[number].pid, "smaps_rollup", text) <= 0)
        return fail(watch, number, "cannot be looked at", errno);
    if (field(text, "\nPss_Anon:", &look->pss_anon_bytes) &&
        field(text, "\nAnonymous:", &look->rss_anon_bytes))
        return true;
    return fail(watch, number, "cannot be looked at: this kernel's smaps_rollup has no Pss_Anon", 0);
}

// Its pages are still there until it is gone, and others seem to share them.
static bool await_gone(struct ht_group_watch *watch, uint32_t number) {
    const struct timespec moment = {.tv_nsec = 200000};
    struct ht_group_part *part = &ht_group_parts(watch->plan)[number];
    for (int polls = 0; polls < GONE_POLLS_MAX; polls++) {
        if (has_ended(part->pid)) return true;
        nanosleep(&moment, NULL);
    }
    return fail(watch, number, "does not end", 0);
}

// All wait at the same meeting.
static bool look(struct ht_group_watch *watch, uint32_t meeting) {
    const struct ht_group_meeting *at = &watch->program->meeting[meeting];
    for (uint32_t i = 0; i < watch->program->parts; i++) {
        const struct ht_group_part *part = &ht_group_parts(watch->plan)[i];
        struct ht_group_look one = {0};
        uint32_t state = atomic_load(&part->state);
        if (state == HT_GROUP_ENDED && i != watch->plan->root && !await_gone(watch, i)) return false;
        if (state != HT_GROUP_RUNS) continue;
        if (!look_at(watch, i, &one)) return false;
        watch->meeting[meeting].pss_anon_bytes += one.pss_anon_bytes;
        watch->meeting[meeting].rss_anon_bytes += one.rss_anon_bytes;
        if (at->moment == HT_GROUP_NO_MOMENT || !at->written) continue;
        struct ht_group_look *of = &watch->part[(size_t)at->moment * watch->program->parts + i];
        of->pss_anon_bytes += one.pss_anon_bytes;
        of->rss_anon_bytes += one.rss_anon_bytes;
    }
    return true;
}

static bool all_are_there(struct ht_group_watch *watch) {
    for (uint32_t i = 0; i < watch->program->parts; i++) {
        const struct ht_group_part *part = &ht_group_parts(watch->plan)[i];
        // One that ends says so first.
        bool ended = atomic_load(&part->state) == HT_GROUP_RUNS && has_ended(part->pid);
        if (ended && atomic_load(&part->state) == HT_GROUP_RUNS)
            return fail(watch, i, *part->message ? part->message : "ended before its calls had been made", 0);
    }
    return true;
}

// Until all wait, or have ended. False if the group has failed, or has ended.
static bool await_all(struct ht_group_watch *watch) {
    const struct timespec moment = {.tv_nsec = 200000000};
    struct ht_group_plan *plan = watch->plan;
    for (;;) {
        uint32_t changes = atomic_load(&plan->changes), alive = atomic_load(&plan->alive);
        if (!alive || atomic_load(&watch->ended)) return false;
        if (atomic_load(&plan->met) == alive) return true;
        ht_futex_wait_shared(&plan->changes, changes, &moment);
        if (atomic_load(&plan->changes) == changes && !all_are_there(watch)) return false;
    }
}

static void *watch_group(void *context) {
    struct ht_group_watch *watch = context;
    struct ht_group_plan *plan = watch->plan;
    uint64_t start_ns = ht_group_process(watch->program->trace, plan->root)->start_ns;
    uint32_t meeting = 0;
    while (meeting < plan->meetings && watch->program->meeting[meeting].time_ns < start_ns) meeting++;
    atomic_store(&plan->released, meeting);
    while (await_all(watch) && look(watch, meeting)) {
        atomic_store(&plan->met, 0);
        atomic_store(&plan->released, ++meeting);
        ht_futex_wake_shared(&plan->released);
    }
    if (watch->problem[0]) {
        atomic_store(&plan->broken, 1);
        ht_futex_wake_shared(&plan->released);
        ht_futex_wake_shared(&plan->alive);
    }
    return NULL;
}

bool ht_group_watch_start(struct ht_group_watch *watch) {
    watch->problem[0] = 0;
    atomic_store(&watch->ended, false);
    errno = pthread_create(&watch->thread, NULL, watch_group, watch);
    return !errno;
}

bool ht_group_watch_stop(struct ht_group_watch *watch) {
    atomic_store(&watch->ended, true);
    ht_futex_wake_shared(&watch->plan->changes);
    pthread_join(watch->thread, NULL);
    return !watch->problem[0];
}
