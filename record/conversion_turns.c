// SPDX-License-Identifier: Apache-2.0
#include "conversion_turns.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "grow.h"
#include "punch_holes.h"
#include "raw_state.h"

// Each takes up to 20 MiB and what its process's live blocks need.
enum { RUNNING_MIN = 8, RUNNING_MAX = 32, RUNNING_PER_PROCESSOR = 2 };
static const uint64_t LONG_BYTES = UINT64_C(16) << 20, BACKLOG_BYTES_MAX = UINT64_C(512) << 20;
// A follower gets so much before it yields: to begin again, it writes its state and reads it.
static const double TURN_S = 10;
// A process that has run for long is seldom asked whether it has ended.
static const double LOOK_LEAST_S = 0.02, LOOK_MOST_S = 1, LOOK_SHARE = 0.125;

bool conversion_turns_begin(struct conversion_turns *turns) {
    cpu_set_t ours;
    size_t processors = sched_getaffinity(0, sizeof ours, &ours) ? 1 : (size_t)CPU_COUNT(&ours);
    *turns =
        (struct conversion_turns){.ended_max = processors, .running_max = processors * RUNNING_PER_PROCESSOR};
    if (turns->running_max < RUNNING_MIN) turns->running_max = RUNNING_MIN;
    if (turns->running_max > RUNNING_MAX) turns->running_max = RUNNING_MAX;
    turns->followed = calloc(turns->ended_max + turns->running_max, sizeof(struct conversion *));
    return turns->followed && map64_init(&turns->log);
}

// ---- the logs ----

bool conversion_open_log(const struct conversion *one, struct ht_raw_log *log) {
    struct ht_error error;
    if (ht_raw_open(log, one->result.raw, &error)) return false;
    if (log->header.start_realtime_ns == one->start_realtime_ns) return true;
    ht_raw_close(log);
    return false;
}

static bool is_in_use(const struct ht_raw_log *log) {
    return !punch_holes_under_way(log) && ht_raw_in_use(log);
}

bool conversion_log_is_in_use(const struct conversion *one) {
    struct ht_raw_log log;
    if (!conversion_open_log(one, &log)) return false;
    bool in_use = is_in_use(&log);
    ht_raw_close(&log);
    return in_use;
}

static void look_at(struct conversion_turns *turns, struct conversion *one, double now_s) {
    double pause_s = turns->run_has_ended ? LOOK_LEAST_S : (now_s - one->found_s) * LOOK_SHARE;
    pause_s = fmin(fmax(pause_s, LOOK_LEAST_S), LOOK_MOST_S);
    if (one->has_ended || now_s - one->looked_s < pause_s) return;
    struct ht_raw_log log;
    struct stat status;
    bool there = conversion_open_log(one, &log);
    one->looked_s = now_s;
    // A recording that was stopped gains no more, though its process has the log.
    one->has_ended = !there || log.header.state == HT_RAW_STOPPED || !is_in_use(&log);
    one->bytes = there && !fstat(log.fd, &status) ? (uint64_t)status.st_blocks * 512 : 0;
    if (there) ht_raw_close(&log);
    if (one->has_ended) turns->backlog_bytes += one->bytes;
}

// ---- the turns ----

static struct conversion *parent_of(const struct conversion_turns *turns, const struct conversion *one) {
    if (!one->parent_name) return NULL;
    size_t at = map64_find(&turns->log, one->parent_name);
    if (!map64_has(&turns->log, at)) return NULL;
    struct conversion *parent =
        (struct conversion *)(uintptr_t)turns->log.entry[at].value;  // NOLINT(performance-no-int-to-ptr)
    return parent == one ? NULL : parent;
}

bool conversion_waits(struct conversion_turns *turns, struct conversion *one) {
    if (!ht_grow(&turns->waiting, &turns->waiting_room, turns->waits + 1, sizeof(struct conversion *)) ||
        !map64_put(&turns->log, one->own_name, (uint64_t)(uintptr_t)one))
        return false;
    one->state = CONVERSION_WAITS;
    turns->waiting[turns->waits++] = one;
    return true;
}

static bool has_place(struct conversion_turns *turns, const struct conversion *one) {
    if (one->has_ended) return turns->follows - turns->running < turns->ended_max;
    if (!one->is_needed && one->bytes < LONG_BYTES) return false;
    turns->is_crowded |= turns->running >= turns->running_max;
    return turns->running < turns->running_max;
}

// A child takes over what its parent's conversion notes at the fork, which therefore begins before.
struct conversion *conversion_next(struct conversion_turns *turns, double now_s) {
    turns->is_crowded = false;
    for (size_t i = 0; i < turns->waits; i++) {
        struct conversion *one = turns->waiting[i];
        look_at(turns, one, now_s);
        struct conversion *parent = parent_of(turns, one);
        if (parent && parent->state != CONVERSION_IS_DONE && (one->has_ended || one->is_needed))
            parent->is_needed = true;
        if (parent && parent->state == CONVERSION_WAITS) continue;
        if (has_place(turns, one)) return one;
    }
    return NULL;
}

static void take_out(struct conversion **list, size_t *count, const struct conversion *one) {
    size_t at = 0;
    while (at < *count && list[at] != one) at++;
    if (at == *count) return;
    memmove(list + at, list + at + 1, (--*count - at) * sizeof(struct conversion *));
}

static void leave_queue(struct conversion_turns *turns, struct conversion *one) {
    take_out(turns->waiting, &turns->waits, one);
    if (one->has_ended) turns->backlog_bytes -= one->bytes;
}

void conversion_is_followed(struct conversion_turns *turns, struct conversion *one, double now_s) {
    leave_queue(turns, one);
    one->state = CONVERSION_IS_FOLLOWED;
    one->was_running = !one->has_ended;
    one->followed_s = now_s;
    turns->running += one->was_running;
    turns->followed[turns->follows++] = one;
}

void conversion_is_given_up(struct conversion_turns *turns, struct conversion *one) {
    leave_queue(turns, one);
    one->state = CONVERSION_IS_DONE;
}

void conversion_left(struct conversion_turns *turns, struct conversion *one) {
    take_out(turns->followed, &turns->follows, one);
    turns->running -= one->was_running;
    one->state = CONVERSION_IS_DONE;
}

bool conversion_waits_for_parent(const struct conversion_turns *turns, const struct conversion *one) {
    const struct conversion *parent = parent_of(turns, one);
    return parent && parent->state == CONVERSION_IS_FOLLOWED;
}

struct conversion *conversion_to_yield(const struct conversion_turns *turns, double now_s) {
    struct conversion *longest = NULL;
    for (size_t i = 0; i < turns->follows && turns->is_crowded; i++) {
        struct conversion *one = turns->followed[i];
        if (one->yields || one->asked_to_stop) return NULL;
        if (!longest && one->was_running && !one->is_needed && now_s - one->followed_s > TURN_S)
            longest = one;
    }
    return longest;
}

bool conversion_is_patient(const struct conversion_turns *turns, const struct conversion *one) {
    return one->has_ended && !turns->run_has_ended && turns->backlog_bytes < BACKLOG_BYTES_MAX;
}
