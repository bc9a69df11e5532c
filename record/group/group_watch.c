// SPDX-License-Identifier: Apache-2.0
#include "group_watch.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "now.h"
#include "space.h"
#include "talk.h"

enum group_watch_state { WATCH_WAITS = 0, WATCH_BUSY = -1 };

static const double LASTING_S = 1, PEAK_STEP = 1.05;
#define MS 1000000u
// A look's CPU time, so many times, passes until the next: a hundredth of a processor.
enum { PAUSE_TIMES = 100 };
static const uint64_t PAUSE_LEAST_NS = 5 * MS, PAUSE_UNSEEN_NS = 1000 * MS, FIRST_PAUSE_NS = 1 * MS,
                      WRITE_PAUSE_NS = 1000 * MS, KEPT_NS = UINT64_C(5000) * MS, QUICK_NS = 10 * MS,
                      SIGNAL_WAITS_NS = 20 * MS, DYING_NS = UINT64_C(1500) * MS;

// ---- the file ----

static void write_file(struct group_watch *watch) {
    struct ht_group_snapshot both[HT_SNAPSHOT_REASONS];
    struct ht_group_snapshots file = {
        .root_pid = (uint32_t)watch->root, .page_bytes = SPACE_PAGE_BYTES, .snapshot = both};
    struct ht_error error;
    for (size_t i = 0; i < HT_SNAPSHOT_REASONS; i++)
        if (watch->snapshot[i].members) both[file.count++] = watch->snapshot[i];
    // Orders them by time: a peak may be newer than the last look at a complete group.
    if (file.count == 2 && both[0].time_ns > both[1].time_ns) {
        struct ht_group_snapshot later = both[0];
        both[0] = both[1];
        both[1] = later;
    }
    strncpy(file.run, watch->id, sizeof file.run - 1);
    watch->changed = false;
    watch->written_ns = ht_now_ns(CLOCK_MONOTONIC);
    if (!ht_group_snapshots_write(watch->path, &file, &error)) return;
    if (!watch->write_failed) ht_complain("heaptape record", &error);
    watch->write_failed = true;
}

static void write_if_due(struct group_watch *watch) {
    if (watch->changed && watch->is_group && ht_now_ns(CLOCK_MONOTONIC) > watch->written_ns + WRITE_PAUSE_NS)
        write_file(watch);
}

// ---- snapshots ----

static bool copy_member(const struct ht_group_member *from, struct ht_group_member *to) {
    *to = *from;
    to->mappings = 0;
    to->mapping = calloc(from->mappings, sizeof *to->mapping);
    for (size_t i = 0; to->mapping && i < from->mappings; i++) {
        size_t pages = (from->mapping[i].end - from->mapping[i].start) / SPACE_PAGE_BYTES;
        to->mapping[i] = from->mapping[i];
        to->mapping[i].state = malloc(pages);
        if (!to->mapping[i].state) return false;
        memcpy(to->mapping[i].state, from->mapping[i].state, pages);
        to->mappings++;
    }
    return to->mapping;
}

// In the place of the one before, to which it may have to give way again if that one has stood for a while.
static void put_snapshot(struct group_watch *watch, enum ht_snapshot_reason reason,
                         const struct ht_group_snapshot *snapshot) {
    struct ht_group_snapshot *place = &watch->snapshot[reason], *former = &watch->former[reason];
    bool stood = place->members && place->time_ns + DYING_NS <= snapshot->time_ns;
    ht_group_snapshot_free(stood ? former : place);
    if (stood) *former = *place;
    *place = *snapshot;
    watch->changed = true;
}

static void keep_copy(struct group_watch *watch, enum ht_snapshot_reason reason,
                      const struct ht_group_snapshot *snapshot) {
    struct ht_group_snapshot copy = *snapshot;
    copy.reason = reason;
    copy.members = 0;
    copy.member = calloc(snapshot->members, sizeof *copy.member);
    bool whole = copy.member;
    while (whole && copy.members < snapshot->members) {
        whole = copy_member(&snapshot->member[copy.members], &copy.member[copy.members]);
        copy.members++;
    }
    if (!whole) {
        ht_group_snapshot_free(&copy);
        return;
    }
    put_snapshot(watch, reason, &copy);
}

static bool is_dying(const struct group_watch *watch, enum ht_snapshot_reason reason) {
    const struct ht_group_snapshot *snapshot = &watch->snapshot[reason];
    return snapshot->members && snapshot->time_ns + DYING_NS > watch->complete_ns;
}

// Processes that are about to end may write to all that they inherited, to free it: what was seen shortly before they ended is
// not what the group was like. The one before counts, or for the peak the last one, where the peak before had fewer processes.
static void go_back(struct group_watch *watch) {
    for (int i = HT_SNAPSHOT_REASONS; i-- > 0;) {
        enum ht_snapshot_reason reason = (enum ht_snapshot_reason)i;
        if (!is_dying(watch, reason)) continue;
        if (watch->former[i].members >= watch->snapshot[i].members) {
            ht_group_snapshot_free(&watch->snapshot[i]);
            watch->snapshot[i] = watch->former[i];
            watch->former[i] = (struct ht_group_snapshot){0};
        } else if (reason == HT_SNAPSHOT_PEAK && watch->snapshot[HT_SNAPSHOT_LAST].members &&
                   !is_dying(watch, HT_SNAPSHOT_LAST)) {
            keep_copy(watch, HT_SNAPSHOT_PEAK, &watch->snapshot[HT_SNAPSHOT_LAST]);
        }
        watch->changed = true;
    }
    watch->highest_bytes = group_snapshot_anonymous_bytes(&watch->snapshot[HT_SNAPSHOT_PEAK]);
}

static bool is_new_peak(const struct group_watch *watch, uint64_t bytes) {
    return (double)bytes >= (double)watch->highest_bytes * PEAK_STEP;
}

// Whether a group of so many processes may take the place of the last complete one.
static bool may_be_last(struct group_watch *watch, size_t processes) {
    uint64_t now_ns = ht_now_ns(CLOCK_MONOTONIC);
    if (processes >= watch->snapshot[HT_SNAPSHOT_LAST].members) {
        watch->shrunk_ns = 0;
        watch->complete_ns = now_ns;
        return true;
    }
    if (!watch->shrunk_ns) go_back(watch);
    if (!watch->shrunk_ns) watch->shrunk_ns = now_ns;
    return now_ns - watch->shrunk_ns > KEPT_NS;
}

static void take(struct group_watch *watch, uint64_t until_ns) {
    struct ht_group_snapshot snapshot;
    const struct group_look_order order = {&watch->tree, &watch->hidden, &watch->stop, until_ns};
    if (!group_look_pages(&order, &snapshot)) return;
    uint64_t bytes = group_snapshot_anonymous_bytes(&snapshot);
    if (is_new_peak(watch, bytes)) {
        watch->highest_bytes = bytes;
        keep_copy(watch, HT_SNAPSHOT_PEAK, &snapshot);
    }
    bool shares = group_snapshot_shares(&snapshot, SPACE_PAGE_BYTES);
    // A group stays one: its last snapshot is not of the root alone.
    if (may_be_last(watch, snapshot.members) && (shares || !watch->is_group))
        keep_copy(watch, HT_SNAPSHOT_LAST, &snapshot);
    watch->is_group |= shares;
    atomic_store(&watch->quick, watch->is_group && snapshot.took_ns < QUICK_NS);
    ht_group_snapshot_free(&snapshot);
}

// ---- the loop ----

static uint64_t cpu_ns(void) { return ht_now_ns(CLOCK_THREAD_CPUTIME_ID); }

// Half of what may be spent goes to sums, which show peaks, half to the last snapshot.
static void look(struct group_watch *watch) {
    uint64_t began_ns = cpu_ns();
    const struct group_look_order order = {
        .tree = &watch->tree, .hidden = &watch->hidden, .stop = &watch->stop};
    struct group_look_sum sum = group_look_sum(&order);
    uint64_t summed_ns = cpu_ns();
    watch->looks_cpu_ns += summed_ns - began_ns;
    bool complete = may_be_last(watch, sum.processes);
    bool grown = complete && is_new_peak(watch, sum.pss_anon_bytes);
    const struct ht_group_snapshot *before = &watch->snapshot[HT_SNAPSHOT_LAST];
    bool stood = !before->members || before->time_ns + DYING_NS <= watch->complete_ns;
    bool last = complete && stood && watch->pages_cpu_ns <= watch->looks_cpu_ns;
    if (!sum.processes || !(grown || last)) return;
    take(watch, 0);
    if (!grown) watch->pages_cpu_ns += cpu_ns() - summed_ns;
}

static void drop_snapshots(struct group_watch *watch) {
    for (size_t i = 0; i < HT_SNAPSHOT_REASONS; i++) {
        ht_group_snapshot_free(&watch->snapshot[i]);
        ht_group_snapshot_free(&watch->former[i]);
    }
}

// A shell that becomes the program leaves nothing of itself.
static void forget_image_before(struct group_watch *watch) {
    const struct tree_process *root = &watch->tree.process[0];
    bool same = !watch->image.pid || tree_process_has_image_of(root, &watch->image);
    watch->image = *root;
    if (same) return;
    drop_snapshots(watch);
    if (watch->written_ns) unlink(watch->path);
    watch->highest_bytes = watch->shrunk_ns = watch->written_ns = 0;
    watch->is_group = watch->changed = false;
    atomic_store(&watch->quick, false);
}

static void go_on(struct group_watch *watch) {
    if (!group_tree_find(&watch->tree, watch->root)) return;
    forget_image_before(watch);
    watch->looks |= group_tree_has_lasting_child(&watch->tree, LASTING_S);
    bool ending = ht_now_ns(CLOCK_MONOTONIC) < atomic_load(&watch->ending_until_ns);
    if (watch->looks && !ending) look(watch);
    write_if_due(watch);
}

// It had waited for this: whatever happens here, the signal goes on.
static void pass_on(struct group_watch *watch, int number) {
    if (group_tree_find(&watch->tree, watch->root)) take(watch, ht_now_ns(CLOCK_MONOTONIC) + SIGNAL_WAITS_NS);
    kill(watch->root, number);
}

// Returns the signal that is to be passed on, or 0.
static int rest(struct group_watch *watch, uint64_t ns) {
    struct pollfd wanted = {.fd = watch->wake, .events = POLLIN};
    const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    eventfd_t count;
    atomic_store(&watch->state, WATCH_WAITS);
    if (!atomic_load(&watch->stop)) ppoll(&wanted, 1, &pause, NULL);
    int state = atomic_exchange(&watch->state, WATCH_BUSY);
    if (wanted.revents && eventfd_read(watch->wake, &count)) { /* it was read before */
    }
    return state > 0 ? state : 0;
}

static uint64_t pause_after(const struct group_watch *watch, uint64_t cost_ns) {
    uint64_t ns = cost_ns * PAUSE_TIMES, least = watch->looks ? PAUSE_LEAST_NS : PAUSE_UNSEEN_NS;
    return ns < least ? least : ns;
}

static void *watch_group(void *argument) {
    struct group_watch *watch = argument;
    uint64_t pause_ns = watch->looks ? FIRST_PAUSE_NS : PAUSE_UNSEEN_NS;
    while (!atomic_load(&watch->stop)) {
        int number = rest(watch, pause_ns);
        uint64_t began_ns = cpu_ns();
        if (number) pass_on(watch, number);
        else if (!atomic_load(&watch->stop)) go_on(watch);
        pause_ns = pause_after(watch, cpu_ns() - began_ns);
    }
    return NULL;
}

void group_watch_begin(struct group_watch *watch, pid_t root) {
    sigset_t all, before;
    watch->root = root;
    watch->looks = watch->from_start;
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&watch->state, WATCH_BUSY);
    if (sysconf(_SC_PAGESIZE) != SPACE_PAGE_BYTES || watch->wake < 0 ||
        !ht_group_snapshots_path(watch->path, sizeof watch->path, watch->directory, (uint32_t)root))
        return;
    sigfillset(&all);
    // Signals are the first thread's, which passes them on to the program.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->has_thread = !pthread_create(&watch->thread, NULL, watch_group, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool group_watch_passes(struct group_watch *watch, int number) {
    int waits = WATCH_WAITS;
    bool ends = number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGHUP;
    // Servers read their settings again when they get a hangup.
    if (ends && number != SIGHUP) atomic_store(&watch->ending_until_ns, ht_now_ns(CLOCK_MONOTONIC) + KEPT_NS);
    return ends && atomic_load(&watch->quick) &&
           atomic_compare_exchange_strong(&watch->state, &waits, number) && !eventfd_write(watch->wake, 1);
}

void group_watch_leave(struct group_watch *watch) {
    atomic_store(&watch->stop, true);
    if (watch->has_thread && !eventfd_write(watch->wake, 1)) pthread_join(watch->thread, NULL);
    watch->has_thread = false;
    if (watch->wake >= 0) close(watch->wake);
    watch->wake = -1;
    // Before a signal was passed on nobody knew that the end was near.
    if (!watch->shrunk_ns && !atomic_load(&watch->ending_until_ns)) go_back(watch);
    if (watch->changed && watch->is_group) write_file(watch);
}

void group_watch_free(struct group_watch *watch) {
    drop_snapshots(watch);
    group_tree_free(&watch->tree);
}
