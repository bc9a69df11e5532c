// SPDX-License-Identifier: Apache-2.0
// The functions that wait until a moment, as every library in the process calls them. A background thread of
// the allocator waits for trace time (background_threads.h). A replay thread that waits, for instance between
// attempts to get a lock, waits in real time, because what it waits for happens in real time; its clock shows
// that it has. The harness waits by system calls of its own, and the C library's functions do not call each
// other by these names, so neither is concerned. Waits for descriptors stay real.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include "background_threads.h"
#include "next_functions.h"
#include "raw_clock.h"
#include "virtual_clock.h"

#define EXPORTED __attribute__((visibility("default")))

// How often a wait for a semaphore polls whether its deadline has come, which wakes no such wait.
static const uint64_t POLL_NS = 1000000;
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
    for (uint64_t ns = ht_background_patience_ns(asked_ns); ht_background_nap(mine, ns);
         ns = ht_background_patience_ns(0)) {
        if (ht_background_asleep(mine) && !ht_background_trace_goes_on(mine)) return;
    }
}

static void sleep_in_background(clockid_t id, const struct timespec *moment) {
    uint64_t left;
    bool over = false;
    while (!over && (left = left_ns(id, moment)) > 0) {
        bool by_trace = ht_virtual_clock_shows(id);
        struct ht_background *mine =
            ht_background_begin(NULL, by_trace ? ht_virtual_clock_trace_ns(id, moment) : HT_NO_DEADLINE_NS);
        if (!mine) return sleep_really(left);
        if (by_trace) sleep_by_trace(mine, left);
        // The trace's begin ends this nap, or has come before it.
        else if (!ht_virtual_clock_runs()) ht_background_nap(mine, left);
        ht_background_end(mine);
        over = by_trace;
    }
}

// Its sleeps are to be known even before the trace begins.
static bool is_background(void) {
    ht_virtual_clock_release();
    return ht_background_this_thread();
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
    struct ht_background *mine = ht_background_begin(cond, ht_virtual_clock_trace_ns(id, moment));
    struct timespec limit = real_moment(id, mine ? ht_background_patience_ns(left) : left);
    int failed = wait(cond, mutex, id, &limit);
    while (failed == ETIMEDOUT && mine && ht_background_asleep(mine) && ht_background_trace_goes_on(mine)) {
        limit = real_moment(id, ht_background_patience_ns(0));
        failed = wait(cond, mutex, id, &limit);
    }
    return mine && ht_background_end(mine) ? ETIMEDOUT : failed;
}

static int wait_on_condition(wait_until *wait, pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                             const struct timespec *moment) {
    bool sound = moment->tv_sec >= 0 && (uint64_t)moment->tv_nsec < HT_NS_PER_S;
    if (!sound || (ht_virtual_clock_runs() && !ht_virtual_clock_shows(id)))
        return wait(cond, mutex, id, moment);
    if (sleeps_by_trace()) return wait_by_trace(wait, cond, mutex, id, moment);
    if (is_background()) {  // the trace has not begun, and will wake it when it does
        struct ht_background *mine = ht_background_begin(cond, HT_NO_DEADLINE_NS);
        int failed = mine && ht_virtual_clock_runs() ? 0 : wait(cond, mutex, id, moment);
        if (mine) ht_background_end(mine);
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
    struct ht_background *mine = is_background() ? ht_background_begin(cond, HT_NO_DEADLINE_NS) : NULL;
    int failed = ht_next.pthread_cond_wait(cond, mutex);
    if (mine) ht_background_end(mine);
    return failed;
}

EXPORTED int pthread_cond_signal(pthread_cond_t *cond) {
    return ht_background_signal(cond) ? 0 : ht_next.pthread_cond_signal(cond);
}

EXPORTED int pthread_cond_broadcast(pthread_cond_t *cond) {
    return ht_background_signal(cond) ? 0 : ht_next.pthread_cond_broadcast(cond);
}

EXPORTED int sem_wait(sem_t *semaphore) {
    struct ht_background *mine = is_background() ? ht_background_begin(NULL, HT_NO_DEADLINE_NS) : NULL;
    int failed = ht_next.sem_wait(semaphore);
    int reason = errno;
    if (mine) ht_background_end(mine);
    errno = reason;
    return failed;
}

// Polls, because nothing but a post wakes who waits for a semaphore.
static int poll_semaphore(struct ht_background *mine, sem_t *semaphore, uint64_t asked_ns) {
    bool by_trace = ht_virtual_clock_runs();
    uint64_t patience_ns = by_trace ? ht_background_patience_ns(asked_ns) : asked_ns;
    int failed = sem_trywait(semaphore);
    for (uint64_t slept_ns = 0; failed && ht_background_asleep(mine); slept_ns += POLL_NS) {
        if (slept_ns >= patience_ns) {
            if (!by_trace || !ht_background_trace_goes_on(mine)) break;
            patience_ns = slept_ns + ht_background_patience_ns(0);
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
            ht_background_begin(NULL, by_trace ? ht_virtual_clock_trace_ns(id, moment) : HT_NO_DEADLINE_NS);
        struct timespec real = real_moment(id, left);
        if (!mine) return ht_next.sem_clockwait(semaphore, id, &real);
        failed = poll_semaphore(mine, semaphore, left);
        ht_background_end(mine);
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
