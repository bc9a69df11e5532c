// SPDX-License-Identifier: Apache-2.0
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
#include "background_threads.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "futex_word.h"
#include "next_functions.h"
#include "older_libc.h"
#include "raw_clock.h"
#include "ready_threads.h"
#include "replay_form.h"
#include "virtual_clock.h"

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

bool ht_background_this_thread(void) { return of_this_thread != &no_background && ht_gettid() != getpid(); }

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
    one->waiting_polls += !ht_thread_is_ready(one->tid);
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
bool ht_background_trace_goes_on(struct ht_background *mine) {
    return has_gone_on(mine) || ht_another_thread_is_ready();
}

struct ht_background *ht_background_begin(pthread_cond_t *cond, uint64_t deadline_ns) {
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

bool ht_background_end(struct ht_background *mine) {
    pthread_mutex_lock(&table.lock);
    bool due = mine->due;
    mine->cond = NULL;
    atomic_store(&mine->state, AWAKE);
    report_due();
    pthread_mutex_unlock(&table.lock);
    return due;
}

bool ht_background_asleep(const struct ht_background *mine) { return mine->state == ASLEEP; }

bool ht_background_nap(struct ht_background *mine, uint64_t real_ns) {
    ht_futex_wait_for(&mine->state, ASLEEP, real_ns);
    return ht_background_asleep(mine);
}

uint64_t ht_background_patience_ns(uint64_t asked_ns) {
    double slow = table.real_ns_per_trace_ns > 1 ? table.real_ns_per_trace_ns : 1;
    double real_ns = (double)asked_ns * slow;
    return real_ns < 1e18 ? (uint64_t)real_ns + PATIENCE_NS : (uint64_t)1e18;
}

bool ht_background_signal(pthread_cond_t *cond) {
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
