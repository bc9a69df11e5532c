// SPDX-License-Identifier: Apache-2.0
#include "group_meetings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel_text.h"
#include "raw_calls.h"

enum {
    TEXT_BYTES = 4096,
    POLL_MS = 200,
    IDLE_POLLS_MAX = 300,
    GONE_POLL_NS = 200000,
    GONE_POLLS_MAX = 200000
};

static ssize_t read_file(pid_t pid, const char *name, char text[TEXT_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return ht_kernel_read(path, text, TEXT_BYTES);
}

static bool has_ended(pid_t pid) {
    char text[TEXT_BYTES];
    if (read_file(pid, "stat", text) <= 0) return true;
    char state = ht_kernel_state(text);
    return state && strchr("ZXx", state);
}

static bool fail(struct ht_group_watch *watch, uint32_t number, const char *what, int why) {
    uint32_t pid = ht_group_process(watch->program->trace, number)->pid;
    snprintf(watch->problem, sizeof watch->problem, "the process that replays %" PRIu32 " %s%s%s", pid, what,
             why ? ": " : "", why ? strerror(why) : "");
    return false;
}

static bool is_gone_within(const struct ht_group_part *part, int polls_max) {
    const struct timespec moment = {.tv_nsec = GONE_POLL_NS};
    for (int polls = 0; polls < polls_max; polls++) {
        if (has_ended(part->pid)) return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

// How a process ended that has not been waited for.
static void say_end(struct ht_group_watch *watch, uint32_t number) {
    struct ht_group_part *part = &ht_group_parts(watch->plan)[number];
    const struct ht_outcome *outcome = &ht_group_exchange(watch->plan, part)->outcome;
    char text[TEXT_BYTES], what[sizeof outcome->message] = "ended before its calls had been made";
    int status = 0;
    const char *last = read_file(part->pid, "stat", text) > 0 ? strrchr(text, ' ') : NULL;  // its exit status
    if (last) status = (int)strtol(last, NULL, 10);
    if (outcome->state == HT_OUTCOME_REFUSED)
        snprintf(what, sizeof what, "could not go on: %.*s", (int)sizeof what - 20, outcome->message);
    else if (WIFSIGNALED(status) && sigabbrev_np(WTERMSIG(status)))
        snprintf(what, sizeof what, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    fail(watch, number, what, 0);
}

// It ended too early. If the root has ended then that is the reason, and known to who waits for it.
static bool miss(struct ht_group_watch *watch, uint32_t number) {
    if (!has_ended(ht_group_parts(watch->plan)[watch->plan->root].pid)) say_end(watch, number);
    return false;
}

static bool look_at(struct ht_group_watch *watch, uint32_t number, struct ht_group_look *look) {
    char text[TEXT_BYTES];
    ssize_t got = read_file(ht_group_parts(watch->plan)[number].pid, "smaps_rollup", text);
    int why = errno;
    if (got <= 0)
        return is_gone_within(&ht_group_parts(watch->plan)[number], GONE_POLLS_MAX / 100)
                   ? miss(watch, number)
                   : fail(watch, number, "cannot be looked at", why);
    look->pss_anon_bytes = ht_kernel_bytes(text, "\nPss_Anon:");
    look->rss_anon_bytes = ht_kernel_bytes(text, "\nAnonymous:");
    if (look->pss_anon_bytes != UINT64_MAX && look->rss_anon_bytes != UINT64_MAX) return true;
    return fail(watch, number, "cannot be looked at: this kernel's smaps_rollup has no Pss_Anon", 0);
}

// Its pages are still there until it is gone, and others seem to share them.
static bool await_gone(struct ht_group_watch *watch, uint32_t number) {
    return is_gone_within(&ht_group_parts(watch->plan)[number], GONE_POLLS_MAX) ||
           fail(watch, number, "does not end", 0);
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
    const struct ht_group_part *parts = ht_group_parts(watch->plan);
    for (uint32_t i = 0; i < watch->program->parts; i++) {
        // One that ends says so first.
        bool ended = atomic_load(&parts[i].state) == HT_GROUP_RUNS && has_ended(parts[i].pid);
        if (ended && atomic_load(&parts[i].state) == HT_GROUP_RUNS) return miss(watch, i);
    }
    return true;
}

// How long nothing has happened. Who waits wakes once a second, which takes next to no time.
struct idle {
    uint32_t polls;
    uint64_t cpu_ticks;
};

// All processes' CPU time together. False if one does not just sleep: it is stopped, by a debugger say, or waits for a disk or a
// processor.
static bool cpu_ticks_of_all(const struct ht_group_watch *watch, uint64_t *ticks) {
    char text[TEXT_BYTES], state;
    unsigned long long user, system;
    *ticks = 0;
    for (uint32_t i = 0; i < watch->program->parts; i++) {
        const struct ht_group_part *part = &ht_group_parts(watch->plan)[i];
        if (atomic_load(&part->state) != HT_GROUP_RUNS || read_file(part->pid, "stat", text) <= 0) continue;
        const char *name_end = strrchr(text, ')');
        if (!name_end || sscanf(name_end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &state,
                                &user, &system) != 3)
            continue;
        if (state != 'S') return false;
        *ticks += user + system;
    }
    return true;
}

// Polls are counted, since while this process is stopped itself no time passes.
static bool hangs(struct ht_group_watch *watch, struct idle *idle) {
    uint64_t ticks, second = (uint64_t)sysconf(_SC_CLK_TCK);
    if (idle->polls++ % (IDLE_POLLS_MAX / 2)) return false;
    bool known = cpu_ticks_of_all(watch, &ticks);
    if (idle->polls == 1 || !known || ticks > idle->cpu_ticks + second / 10) *idle = (struct idle){1, ticks};
    if (idle->polls < IDLE_POLLS_MAX) return false;
    snprintf(watch->problem, sizeof watch->problem,
             "its processes hung without CPU time for %d s and were ended", IDLE_POLLS_MAX * POLL_MS / 1000);
    return true;
}

// Until all wait, or have ended. False if the group has failed, or has ended.
static bool await_all(struct ht_group_watch *watch) {
    const struct timespec moment = {.tv_nsec = POLL_MS * 1000000};
    struct ht_group_plan *plan = watch->plan;
    struct idle idle = {0};
    for (;;) {
        // In this order: who has met stays, so if no more are alive then nobody is left who could fork.
        uint32_t changes = atomic_load(&plan->changes), met = atomic_load(&plan->met),
                 alive = atomic_load(&plan->alive);
        if (!alive || atomic_load(&watch->ended)) return false;
        if (met == alive) return true;
        ht_futex_wait_shared(&plan->changes, changes, &moment);
        if (atomic_load(&plan->changes) != changes) idle.polls = 0;
        else if (!all_are_there(watch) || hangs(watch, &idle)) return false;
    }
}

// Whoever waits ends.
static void end_all(struct ht_group_plan *plan) {
    atomic_store(&plan->broken, 1);
    ht_futex_wake_shared(&plan->released);
    ht_futex_wake_shared(&plan->alive);
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
    if (watch->problem[0]) end_all(plan);
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
    // Others may be left if the root was killed.
    end_all(watch->plan);
    pthread_join(watch->thread, NULL);
    return !watch->problem[0];
}
