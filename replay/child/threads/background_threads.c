// SPDX-License-Identifier: Apache-2.0
// By system calls and in buffers on the stack: opendir would call malloc, which is the allocator's.
#include "background_threads.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "kernel_text.h"
#include "older_libc.h"
#include "raw_calls.h"
#include "replay_form.h"
#include "virtual_clock.h"

// R runs or may run, D waits for a disk and goes on by itself.
// Both are false where /proc cannot be read.
static bool thread_is_ready(pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    ht_kernel_read(path, text, sizeof text);
    char state = ht_kernel_state(text);
    return state == 'R' || state == 'D';
}

bool ht_another_thread_is_ready(void) {
    char entries[4096];
    bool found = false;
    long bytes;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && !found && (bytes = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < bytes && !found;) {
            unsigned short entry_bytes;
            memcpy(&entry_bytes, entries + at + offsetof(struct dirent64, d_reclen), sizeof entry_bytes);
            pid_t tid = atoi(entries + at + offsetof(struct dirent64, d_name));
            at += entry_bytes;
            found = tid > 0 && tid != ht_gettid() && thread_is_ready(tid);
        }
    }
    if (fd >= 0) close(fd);
    return found;
}

// Why this cannot deadlock.
// - Who advances the clock waits for an awake background thread until that has worked for PATIENCE_NS, or was
// found waiting for something that nobody here can see at PATIENCE_NS / POLL_NS polls. It is not waited for
// again until it has slept once more. One that waits for a processor only is not late: the real clock alone
// would not show that, on a machine that does other things besides or stands still. Nor does the advancing thread
// wait forever for threads that wake each other: after COMINGS_MAX sleeps, for none that is awake.
// - Each round of advancing sets the clock to a deadline, and nobody sleeps for less than a step of trace
// time, so the rounds end.
// - A sleeper whose time does not come, because who would advance the clock waits for a lock that the sleeper
// holds, polls after what it asked for by the real clock and PATIENCE_NS, and gets up if the trace
// stands still and nobody works or could.
// - The table's lock is held for a few instructions, futex wakes and pthread_cond_broadcast, none of which
// waits for a lock of the allocator's, so that a thread that holds one may take it. A broadcast that comes
// between begin and the wait itself is lost; so it is repeated until the sleeper has come back (settle).

enum { BACKGROUND_MAX = 64 };
static const uint64_t PATIENCE_NS = 100000000, POLL_NS = 1000000, WORK_NS = 5000000;
static const uint32_t POLLS_MAX =
    60000;  // for one that never gets a processor, behind threads of real-time priority
static const uint32_t COMINGS_MAX = 10000;

enum state { NOBODY, AWAKE, ASLEEP, WOKEN };

struct ht_background {
    _Atomic uint32_t state;  // futex of those that nap
    pid_t tid;
    bool due;   // woken because its deadline has come
    bool late;  // awake, but not waited for any more
    uint32_t polls,
        waiting_polls;  // of it since it slept last, while it was awaited; and those that found it waiting
    uint64_t awake_cpu_ns;         // its CPU clock at the first of these polls
    uint64_t deadline_ns;          // in trace time
    uint64_t place_ns, worked_ns;  // at the last poll: the trace's time, and the process's CPU clock
    pthread_cond_t *cond;
    uint64_t cpu_ns;  // its CPU clock when it slept last
};

// Functions that are called in the place of the C library's have no argument to carry state in.
static struct {
    pthread_mutex_t lock;
    _Atomic uint32_t slept;  // futex: grows whenever somebody begins to sleep
    _Atomic uint32_t used;
    double real_ns_per_trace_ns;
    uint32_t ended;
    uint64_t ended_cpu_ns;
    struct ht_background all[BACKGROUND_MAX];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct ht_background no_background;  // of replay threads
static _Thread_local struct ht_background *of_this_thread;

_Atomic uint64_t ht_background_due_ns = HT_NO_DEADLINE_NS;

void ht_background_not_this_thread(void) { of_this_thread = &no_background; }

static bool background_this_thread(void) {
    return of_this_thread != &no_background && ht_gettid() != getpid();
}

static uint64_t first_due(void) {
    uint64_t due_ns = HT_NO_DEADLINE_NS;
    if (!ht_virtual_clock_runs()) return due_ns;
    for (uint32_t i = 0; i < table.used; i++) {
        const struct ht_background *one = &table.all[i];
        if (one->state == ASLEEP && one->deadline_ns < due_ns) due_ns = one->deadline_ns;
    }
    return due_ns;
}

static bool is_awaited(const struct ht_background *one) {
    return (one->state == AWAKE || one->state == WOKEN) && !one->late;
}

static bool anyone_awaited(void) {
    for (uint32_t i = 0; i < table.used; i++) {
        if (is_awaited(&table.all[i])) return true;
    }
    return false;
}

static void report_due(void) {
    bool awaited = ht_virtual_clock_runs() && anyone_awaited();
    atomic_store(&ht_background_due_ns, awaited ? 0 : first_due());
}

static void forget_ended(struct ht_background *one) {
    if (one->state == NOBODY || ht_tgkill(getpid(), one->tid, 0) == 0 || errno != ESRCH) return;
    table.ended++;
    table.ended_cpu_ns += one->cpu_ns;
    one->state = NOBODY;
}

static void wake(struct ht_background *one) {
    forget_ended(one);  // the condition of an ended thread need not be one any more
    if (one->state == NOBODY) return;
    atomic_store(&one->state, WOKEN);
    if (one->cond) ht_next.pthread_cond_broadcast(one->cond);
    else ht_futex_wake(&one->state);
}

static void poll_thread(struct ht_background *one) {
    forget_ended(one);
    if (one->state == WOKEN) wake(one);  // it may not have slept yet when it was woken
    if (!is_awaited(one)) return;
    uint64_t cpu_ns = ht_cpu_ns_of_thread(one->tid);
    if (one->polls++ == 0) one->awake_cpu_ns = cpu_ns;
    one->waiting_polls += !thread_is_ready(one->tid);
    one->late = cpu_ns - one->awake_cpu_ns > PATIENCE_NS || one->waiting_polls > PATIENCE_NS / POLL_NS ||
                one->polls > POLLS_MAX;
}

// With the lock held, but not while waiting: until all that are awake sleep or have ended, or are late.
static void settle(void) {
    uint32_t begun = atomic_load(&table.slept);
    while (anyone_awaited()) {
        uint32_t seen = atomic_load(&table.slept);
        pthread_mutex_unlock(&table.lock);
        ht_futex_wait_for(&table.slept, seen, POLL_NS);
        pthread_mutex_lock(&table.lock);
        bool endless = atomic_load(&table.slept) - begun > COMINGS_MAX;
        if (atomic_load(&table.slept) != seen && !endless) continue;
        for (uint32_t i = 0; i < table.used; i++) {
            poll_thread(&table.all[i]);
            if (endless && is_awaited(&table.all[i])) table.all[i].late = true;
        }
    }
}

void ht_background_advance_slowly(_Atomic uint64_t *clock_ns, uint64_t to_ns) {
    pthread_mutex_lock(&table.lock);
    for (;;) {
        settle();
        uint64_t due_ns = first_due();
        if (due_ns > to_ns) break;
        if (due_ns > atomic_load(clock_ns)) atomic_store(clock_ns, due_ns);
        for (uint32_t i = 0; i < table.used; i++) {
            struct ht_background *one = &table.all[i];
            if (one->state != ASLEEP || one->deadline_ns > due_ns) continue;
            one->due = true;
            wake(one);
        }
    }
    if (to_ns > atomic_load(clock_ns)) atomic_store(clock_ns, to_ns);
    report_due();
    pthread_mutex_unlock(&table.lock);
}

void ht_background_start(_Atomic uint64_t *clock_ns, double real_ns_per_trace_ns) {
    assert(ht_virtual_clock_runs());
    pthread_mutex_lock(&table.lock);
    table.real_ns_per_trace_ns = real_ns_per_trace_ns;
    for (uint32_t i = 0; i < table.used; i++) {
        if (table.all[i].state == ASLEEP) wake(&table.all[i]);
    }
    pthread_mutex_unlock(&table.lock);
    ht_background_advance_slowly(clock_ns, 0);
}

void ht_background_forked(void) {
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&table.lock, &unlocked, sizeof table.lock);
    atomic_store(&table.used, 0);
    atomic_store(&ht_background_due_ns, HT_NO_DEADLINE_NS);
    of_this_thread = &no_background;
}

static struct ht_background *find_room(void) {
    for (uint32_t i = 0; i < table.used; i++) {
        if (table.all[i].state == NOBODY) return &table.all[i];
    }
    return table.used < BACKGROUND_MAX ? &table.all[table.used++] : NULL;
}

// A thread that works on one call for long keeps the trace where it is, but will take it on.
static bool has_gone_on(struct ht_background *mine) {
    uint64_t place_ns = ht_virtual_clock_place_ns(), worked_ns = ht_raw_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    bool has = place_ns != mine->place_ns || worked_ns - mine->worked_ns > WORK_NS;
    mine->place_ns = place_ns;
    mine->worked_ns = worked_ns;
    return has;
}

// So will one that has not got a processor meanwhile.
static bool background_trace_goes_on(struct ht_background *mine) {
    return has_gone_on(mine) || ht_another_thread_is_ready();
}

static struct ht_background *background_begin(pthread_cond_t *cond, uint64_t deadline_ns) {
    pthread_mutex_lock(&table.lock);
    struct ht_background *mine = of_this_thread ? of_this_thread : find_room();
    if (mine) {
        of_this_thread = mine;
        mine->tid = ht_gettid();
        mine->cond = cond;
        mine->due = mine->late = false;
        mine->polls = mine->waiting_polls = 0;
        mine->deadline_ns = deadline_ns;
        mine->cpu_ns = ht_thread_cpu_ns();
        atomic_store(&mine->state, ASLEEP);
        if (ht_virtual_clock_runs() && deadline_ns < HT_NO_DEADLINE_NS) {
            has_gone_on(mine);
            uint64_t earliest_ns = ht_virtual_clock_read_ns() + HT_TIME_STEP_NS;
            if (deadline_ns < earliest_ns) mine->deadline_ns = earliest_ns;
        }
        atomic_fetch_add(&table.slept, 1);
        report_due();
    }
    pthread_mutex_unlock(&table.lock);
    if (mine) ht_futex_wake(&table.slept);
    return mine;
}

static bool background_end(struct ht_background *mine) {
    pthread_mutex_lock(&table.lock);
    bool due = mine->due;
    mine->cond = NULL;
    atomic_store(&mine->state, AWAKE);
    report_due();
    pthread_mutex_unlock(&table.lock);
    return due;
}

static bool background_asleep(const struct ht_background *mine) { return mine->state == ASLEEP; }

// Waits until woken, or so long by the real clock. False if woken.
static bool background_nap(struct ht_background *mine, uint64_t real_ns) {
    ht_futex_wait_for(&mine->state, ASLEEP, real_ns);
    return background_asleep(mine);
}

// For how much real time to sleep, at first and again and again, before asking whether the trace has gone on
// since begin or the last asking. If it has not, it may be waiting for the sleeper, whose sleep is over then.
static uint64_t background_patience_ns(uint64_t asked_ns) {
    double slow = table.real_ns_per_trace_ns > 1 ? table.real_ns_per_trace_ns : 1;
    double real_ns = (double)asked_ns * slow;
    return real_ns < 1e18 ? (uint64_t)real_ns + PATIENCE_NS : (uint64_t)1e18;
}

// Somebody signals cond. If background threads sleep on it, all of them are woken, and the answer is true.
static bool background_signal(pthread_cond_t *cond) {
    bool found = false;
    if (atomic_load_explicit(&table.used, memory_order_relaxed) == 0) return false;
    pthread_mutex_lock(&table.lock);
    for (uint32_t i = 0; i < table.used; i++) {
        struct ht_background *one = &table.all[i];
        if (one->state != ASLEEP || one->cond != cond) continue;
        found = true;
        atomic_store(&one->state, WOKEN);
    }
    if (found) ht_next.pthread_cond_broadcast(cond);
    report_due();
    pthread_mutex_unlock(&table.lock);
    return found;
}

uint32_t ht_background_sleepers(void) {
    uint32_t count = 0;
    pthread_mutex_lock(&table.lock);
    for (uint32_t i = 0; i < table.used; i++) {
        forget_ended(&table.all[i]);
        count += table.all[i].state != NOBODY;
    }
    pthread_mutex_unlock(&table.lock);
    return count;
}

uint64_t ht_background_ended(uint32_t *count) {
    pthread_mutex_lock(&table.lock);
    uint64_t cpu_ns = table.ended_cpu_ns;
    *count = table.ended;
    pthread_mutex_unlock(&table.lock);
    return cpu_ns;
}

// The functions that wait until a moment, as every library in the process calls them. A background thread of
// the allocator waits for trace time (background_threads.h). A replay thread that waits, for instance between
// attempts to get a lock, waits in real time, because what it waits for happens in real time; its clock shows
// that it has. The harness waits by system calls of its own, and the C library's functions do not call each
// other by these names, so neither is concerned. Waits for descriptors stay real.

#define EXPORTED __attribute__((visibility("default")))

static const int64_t MONOTONIC_BEFORE_S = 1000000000;

static uint64_t now_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return ht_timespec_ns(&now);
}

static uint64_t until_ns(uint64_t moment_ns, uint64_t now) { return moment_ns > now ? moment_ns - now : 0; }

// What is left until a moment of a clock that the allocator sees, in the time that it shows.
static uint64_t left_ns(clockid_t id, const struct timespec *moment) {
    return until_ns(ht_timespec_ns(moment), now_ns(id));
}

static void sleep_really(uint64_t ns) {
    struct timespec time = ht_timespec(ns);
    ht_next.nanosleep(&time, NULL);
}

static void sleep_by_trace(struct ht_background *mine, uint64_t asked_ns) {
    for (uint64_t ns = background_patience_ns(asked_ns); background_nap(mine, ns);
         ns = background_patience_ns(0)) {
        if (background_asleep(mine) && !background_trace_goes_on(mine)) return;
    }
}

static void sleep_in_background(clockid_t id, const struct timespec *moment) {
    uint64_t left;
    bool over = false;
    while (!over && (left = left_ns(id, moment)) > 0) {
        bool by_trace = ht_virtual_clock_shows(id);
        struct ht_background *mine =
            background_begin(NULL, by_trace ? ht_virtual_clock_trace_ns(id, moment) : HT_NO_DEADLINE_NS);
        if (!mine) return sleep_really(left);
        if (by_trace) sleep_by_trace(mine, left);
        // The trace's begin ends this nap, or has come before it.
        else if (!ht_virtual_clock_runs()) background_nap(mine, left);
        background_end(mine);
        over = by_trace;
    }
}

// Its sleeps are to be known even before the trace begins.
static bool is_background(void) {
    ht_virtual_clock_release();
    return background_this_thread();
}

static bool sleeps_by_trace(void) { return ht_virtual_clock_runs() && is_background(); }

static int sleep_for(const struct timespec *time, struct timespec *rest) {
    if (!is_background() || time->tv_sec < 0 || (uint64_t)time->tv_nsec >= HT_NS_PER_S) {
        int failed = ht_next.nanosleep(time, rest);
        if (!failed) ht_virtual_clock_skip(ht_timespec_ns(time));
        return failed;
    }
    struct timespec moment = ht_timespec(now_ns(CLOCK_MONOTONIC) + ht_timespec_ns(time));
    sleep_in_background(CLOCK_MONOTONIC, &moment);
    return 0;
}

EXPORTED int nanosleep(const struct timespec *time, struct timespec *rest) { return sleep_for(time, rest); }

EXPORTED int clock_nanosleep(clockid_t id, int flags, const struct timespec *time, struct timespec *rest) {
    bool known = (uint64_t)time->tv_nsec < HT_NS_PER_S && time->tv_sec >= 0;
    bool passes = id == CLOCK_REALTIME || id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME || id == CLOCK_TAI;
    bool real = !ht_virtual_clock_runs() && !is_background();
    if (!known || !passes || real) return ht_next.clock_nanosleep(id, flags, time, rest);
    struct timespec left = flags & TIMER_ABSTIME ? ht_timespec(left_ns(id, time)) : *time;
    if (flags & TIMER_ABSTIME && is_background()) sleep_in_background(id, time);
    else if (sleep_for(&left, flags & TIMER_ABSTIME ? NULL : rest)) return errno;
    return 0;
}

EXPORTED int usleep(useconds_t us) {
    struct timespec time = ht_timespec((uint64_t)us * HT_NS_PER_US);
    return sleep_for(&time, NULL);
}

EXPORTED unsigned sleep(unsigned seconds) {
    struct timespec time = {.tv_sec = seconds}, rest = {0};
    return sleep_for(&time, &rest) ? (unsigned)(rest.tv_sec + (rest.tv_nsec > 0)) : 0;
}

EXPORTED int poll(struct pollfd *all, nfds_t count, int timeout_ms) {
    if (count || timeout_ms <= 0) return ht_next.poll(all, count, timeout_ms);
    struct timespec time = ht_timespec((uint64_t)timeout_ms * 1000 * HT_NS_PER_US);
    return sleep_for(&time, NULL);
}

EXPORTED int ppoll(struct pollfd *all, nfds_t count, const struct timespec *time, const sigset_t *mask) {
    if (count || !time || mask) return ht_next.ppoll(all, count, time, mask);
    return sleep_for(time, NULL);
}

EXPORTED int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict odd,
                    struct timeval *restrict limit) {
    if (in || out || odd || !limit) return ht_next.select(count, in, out, odd, limit);
    struct timespec time = {.tv_sec = limit->tv_sec, .tv_nsec = limit->tv_usec * HT_NS_PER_US};
    return sleep_for(&time, NULL);
}

EXPORTED int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict odd,
                     const struct timespec *restrict time, const sigset_t *restrict mask) {
    if (in || out || odd || !time || mask) return ht_next.pselect(count, in, out, odd, time, mask);
    return sleep_for(time, NULL);
}

// A moment of the clock that the allocator sees, on the real clock of that name.
static struct timespec real_moment(clockid_t id, uint64_t left) {
    return ht_timespec(ht_raw_clock_ns(id) + left);
}

// wait: the C library's wait with a moment of the clock `id`.
typedef int wait_until(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

static int wait_by_trace(wait_until *wait, pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                         const struct timespec *moment) {
    uint64_t left = left_ns(id, moment);
    struct ht_background *mine = background_begin(cond, ht_virtual_clock_trace_ns(id, moment));
    struct timespec limit = real_moment(id, mine ? background_patience_ns(left) : left);
    int failed = wait(cond, mutex, id, &limit);
    while (failed == ETIMEDOUT && mine && background_asleep(mine) && background_trace_goes_on(mine)) {
        limit = real_moment(id, background_patience_ns(0));
        failed = wait(cond, mutex, id, &limit);
    }
    return mine && background_end(mine) ? ETIMEDOUT : failed;
}

static int wait_on_condition(wait_until *wait, pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                             const struct timespec *moment) {
    bool sound = moment->tv_sec >= 0 && (uint64_t)moment->tv_nsec < HT_NS_PER_S;
    if (!sound || (ht_virtual_clock_runs() && !ht_virtual_clock_shows(id)))
        return wait(cond, mutex, id, moment);
    if (sleeps_by_trace()) return wait_by_trace(wait, cond, mutex, id, moment);
    if (is_background()) {  // the trace has not begun, and will wake it when it does
        struct ht_background *mine = background_begin(cond, HT_NO_DEADLINE_NS);
        int failed = mine && ht_virtual_clock_runs() ? 0 : wait(cond, mutex, id, moment);
        if (mine) background_end(mine);
        return failed;
    }
    if (!ht_virtual_clock_runs()) return wait(cond, mutex, id, moment);
    uint64_t left = left_ns(id, moment);
    struct timespec real = real_moment(id, left);
    int failed = wait(cond, mutex, id, &real);
    if (failed == ETIMEDOUT) ht_virtual_clock_skip(left);
    return failed;
}

static int timed_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                      const struct timespec *moment) {
    (void)id;  // the condition knows it
    return ht_next.pthread_cond_timedwait(cond, mutex, moment);
}

static int clock_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                      const struct timespec *moment) {
    return ht_next.pthread_cond_clockwait(cond, mutex, id, moment);
}

// Which clock a condition goes by, its attributes said once and cannot be asked; but no monotonic clock of a
// machine has come to where the real one has been since 2001.
EXPORTED int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                    const struct timespec *restrict moment) {
    clockid_t id = moment->tv_sec < MONOTONIC_BEFORE_S ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return wait_on_condition(timed_wait, cond, mutex, id, moment);
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                    clockid_t id, const struct timespec *restrict moment) {
    return wait_on_condition(clock_wait, cond, mutex, id, moment);
}

EXPORTED int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex) {
    struct ht_background *mine = is_background() ? background_begin(cond, HT_NO_DEADLINE_NS) : NULL;
    int failed = ht_next.pthread_cond_wait(cond, mutex);
    if (mine) background_end(mine);
    return failed;
}

EXPORTED int pthread_cond_signal(pthread_cond_t *cond) {
    return background_signal(cond) ? 0 : ht_next.pthread_cond_signal(cond);
}

EXPORTED int pthread_cond_broadcast(pthread_cond_t *cond) {
    return background_signal(cond) ? 0 : ht_next.pthread_cond_broadcast(cond);
}

EXPORTED int sem_wait(sem_t *semaphore) {
    struct ht_background *mine = is_background() ? background_begin(NULL, HT_NO_DEADLINE_NS) : NULL;
    int failed = ht_next.sem_wait(semaphore);
    int reason = errno;
    if (mine) background_end(mine);
    errno = reason;
    return failed;
}

// Polls, because nothing but a post wakes who waits for a semaphore.
static int poll_semaphore(struct ht_background *mine, sem_t *semaphore, uint64_t asked_ns) {
    bool by_trace = ht_virtual_clock_runs();
    uint64_t patience_ns = by_trace ? background_patience_ns(asked_ns) : asked_ns;
    int failed = sem_trywait(semaphore);
    for (uint64_t slept_ns = 0; failed && background_asleep(mine); slept_ns += POLL_NS) {
        if (slept_ns >= patience_ns) {
            if (!by_trace || !background_trace_goes_on(mine)) break;
            patience_ns = slept_ns + background_patience_ns(0);
        }
        if (by_trace != ht_virtual_clock_runs()) break;
        struct timespec moment = real_moment(CLOCK_MONOTONIC, POLL_NS);
        failed = ht_next.sem_clockwait(semaphore, CLOCK_MONOTONIC, &moment);
    }
    return failed;
}

static int wait_for_semaphore(sem_t *semaphore, clockid_t id, const struct timespec *moment) {
    bool by_trace;
    int failed;
    do {
        by_trace = ht_virtual_clock_runs();
        uint64_t left = left_ns(id, moment);
        struct ht_background *mine =
            background_begin(NULL, by_trace ? ht_virtual_clock_trace_ns(id, moment) : HT_NO_DEADLINE_NS);
        struct timespec real = real_moment(id, left);
        if (!mine) return ht_next.sem_clockwait(semaphore, id, &real);
        failed = poll_semaphore(mine, semaphore, left);
        background_end(mine);
    } while (failed && by_trace != ht_virtual_clock_runs());  // the trace has begun meanwhile
    if (failed) errno = ETIMEDOUT;
    return failed;
}

EXPORTED int sem_clockwait(sem_t *restrict semaphore, clockid_t id, const struct timespec *restrict moment) {
    bool sound = moment->tv_sec >= 0 && (uint64_t)moment->tv_nsec < HT_NS_PER_S;
    bool passes = id == CLOCK_REALTIME || id == CLOCK_MONOTONIC;
    if (sound && passes && is_background() && ht_virtual_clock_may_run()) {
        return wait_for_semaphore(semaphore, id, moment);
    }
    if (!sound || !ht_virtual_clock_shows(id)) return ht_next.sem_clockwait(semaphore, id, moment);
    uint64_t left = left_ns(id, moment);
    struct timespec real = real_moment(id, left);
    int failed = ht_next.sem_clockwait(semaphore, id, &real), reason = errno;
    if (failed && reason == ETIMEDOUT) ht_virtual_clock_skip(left);
    errno = reason;
    return failed;
}

EXPORTED int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict moment) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, moment);
}
