// SPDX-License-Identifier: Apache-2.0
#include "replay_window.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "background_threads.h"
#include "older_libc.h"
#include "processor_number.h"
#include "raw_calls.h"

// Spins until the number is there, but not longer than turns_max turns, and returns how many.
static uint32_t dependency_spin(_Atomic uint32_t *word, uint32_t dependency, uint32_t turns_max) {
    uint32_t turns = 0;
    while (turns < turns_max &&
           !ht_dependency_is(atomic_load_explicit(word, memory_order_acquire), dependency)) {
        ht_cpu_relax();
        turns++;
    }
    return turns;
}

static bool one_cpu_only(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    // Not what the allocator is shown.
    return syscall(SYS_sched_getaffinity, 0, HT_TRUE_AFFINITY, &allowed) > 0 && CPU_COUNT(&allowed) == 1;
}

// The least of some tries: the others were disturbed.
static double turn_cost_ns(void) {
    enum { TRIES = 20, TURNS = 500 };
    _Atomic uint32_t word = 0;
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
        dependency_spin(&word, 1, TURNS);
        uint64_t ns = ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    return (double)least_ns / TURNS;
}

static uint64_t reading_cost_ns(void) {
    enum { TRIES = 100 };
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before_ns = ht_thread_cpu_ns(), ns = ht_thread_cpu_ns() - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    return least_ns;
}

// Measures what waiting costs here. Where only one CPU is allowed nobody spins: who is waited for cannot run.
static struct ht_wait_costs wait_costs_measure(void) {
    // Long enough for a thread on another core to finish the op we wait for, short beside a sleep.
    enum { TURNS_MAX = 100 };
    return (struct ht_wait_costs){.turns_max = one_cpu_only() ? 0 : TURNS_MAX,
                                  .turn_ns = turn_cost_ns(),
                                  .reading_ns = reading_cost_ns()};
}

// Only what is used becomes real. A library's thread-local storage lies on the stack too and must fit.
enum { STACK_BYTES = 2 << 20 };

// What the thread's end costs the allocator happens before this returns. It takes no lock of ours any more.
static void join(struct ht_window *window, struct ht_lane *lane) {
    pthread_join(lane->thread, NULL);
    window->stacks[window->stacks_count++] = lane->stack;
}

static struct ht_lane *take_leaver(struct ht_window *window) {
    struct ht_lane *leaver = window->leavers;
    if (leaver) window->leavers = leaver->next_leaver;
    return leaver;
}

// Joins those that have ended.
static void lane_threads_join(struct ht_window *window) {
    for (struct ht_lane *leaver; (leaver = take_leaver(window));) join(window, leaver);
}

// A stack in shared memory, so that it is not the allocator's, unless the process forks: a former thread's, or a new one.
static void *get_stack(struct ht_window *window) {
    struct ht_lane *leaver = window->stacks_count ? NULL : take_leaver(window);
    if (leaver) join(window, leaver);
    if (window->stacks_count) return window->stacks[--window->stacks_count];
    int kind = window->forks ? MAP_PRIVATE : MAP_SHARED;
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return stack == MAP_FAILED ? NULL : stack;
}

static _Noreturn void refuse_start(const struct ht_lane *lane, int reason) {
    struct ht_outcome *outcome = lane->window->outcome;
    snprintf(outcome->message, sizeof outcome->message, "thread %u of %u cannot be started: %s",
             lane->number + 1, lane->window->lanes_count, strerror(reason));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(1);
}

// With the window's lock held, as lane_threads_join. body: what the thread does. One that cannot be started ends the process, with the
// reason in the outcome, because others may already wait for its ops.
static void lane_thread_start(struct ht_lane *lane, void *(*body)(void *lane)) {
    struct ht_window *window = lane->window;
    pthread_attr_t attributes;
    ht_lane_replaying(window, false);  // what the C library allocates for a thread is not the trace's
    lane->stack = get_stack(window);
    if (!lane->stack || pthread_attr_init(&attributes)) refuse_start(lane, ENOMEM);
    pthread_attr_setstack(&attributes, lane->stack, STACK_BYTES);
    int failed = pthread_create(&lane->thread, &attributes, body, lane);
    if (failed) refuse_start(lane, failed);
    pthread_attr_destroy(&attributes);
    ht_lane_replaying(window, true);
}

// Threads by turns, under simulation: one at a time executes its ops, from one TIME word to the next, and hands on to
// the one that is earliest in trace time (of equal ones the lower number). So the order does not depend on the kernel,
// and counts repeat. With accesses, TIME words also lie wherever the trace goes on with another thread, and no two are of
// one time: then the order is that of the trace. A thread that waits for a slot hands on
// too, and is passed over until what it waits for has been done; one that ends is joined by the next before that goes on, because its end costs the allocator calls.
//
// Why this cannot deadlock: as in a window (below), the thread of the first op in trace order that has not been executed
// exists and waits for no slot. Whoever has the turn executes a word, or hands on to one that waits for no slot.

// The lane takes part from now on; its thread waits by turn_await before its first op.
static void turn_enter(struct ht_lane *lane) {
    atomic_store(&lane->wake, 0);
    lane->awaited = NULL;
    lane->next_in_turn = lane->window->in_turn;
    lane->window->in_turn = lane;
}

static void remove_lane(struct ht_lane *lane) {
    struct ht_lane **at = &lane->window->in_turn;
    while (*at != lane) at = &(*at)->next_in_turn;
    *at = lane->next_in_turn;
}

static bool can_run(const struct ht_lane *lane) {
    return !lane->awaited || ht_dependency_is(atomic_load(lane->awaited), lane->awaited_dependency);
}

static bool is_earlier(const struct ht_lane *a, const struct ht_lane *b) {
    uint64_t a_ns = atomic_load(&a->place_ns), b_ns = atomic_load(&b->place_ns);
    return a_ns != b_ns ? a_ns < b_ns : a->number < b->number;
}

static struct ht_lane *earliest(const struct ht_window *window) {
    struct ht_lane *found = NULL;
    for (struct ht_lane *lane = window->in_turn; lane; lane = lane->next_in_turn) {
        if (can_run(lane) && (!found || is_earlier(lane, found))) found = lane;
    }
    return found;
}

static void hand_to(struct ht_lane *lane) {
    if (!lane) return;
    atomic_store(&lane->wake, 1);
    ht_futex_wake(&lane->wake);
}

// Who ended before this turn is gone when it begins.
static void turn_await(struct ht_lane *lane) {
    while (!atomic_load(&lane->wake)) ht_futex_wait(&lane->wake, 0);
    atomic_store(&lane->wake, 0);
    if (lane->window->leavers) lane_threads_join(lane->window);
}

// By nobody's turn yet: to the first.
static void turn_begin(struct ht_window *window) { hand_to(earliest(window)); }

// The lane has the turn, and has moved on; returns when it has it again.
static void turn_pass(struct ht_lane *lane) {
    struct ht_lane *next = earliest(lane->window);
    if (next == lane) return;
    hand_to(next);
    turn_await(lane);
}

// Likewise, once that dependency is there.
static void turn_pass_until(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency) {
    lane->awaited = word;
    lane->awaited_dependency = dependency;
    turn_pass(lane);
    lane->awaited = NULL;
}

// The lane has executed its last op, and has told the window so.
static void turn_leave(struct ht_lane *lane) {
    remove_lane(lane);
    hand_to(earliest(lane->window));
}

static void wait_until(const struct ht_window *window, uint64_t time_ns) {
    uint64_t moment_ns = window->real_start_ns + (uint64_t)((double)time_ns * window->real_ns_per_trace_ns);
    struct timespec moment = {.tv_sec = (time_t)(moment_ns / 1000000000u),
                              .tv_nsec = (long)(moment_ns % 1000000000u)};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) != 0 &&
           errno == EINTR) {
    }
}

void ht_pace_wait(struct ht_lane *lane, uint64_t time_ns) {
    uint64_t cpu_before_ns = ht_thread_cpu_ns();
    wait_until(lane->window, time_ns);
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}

void ht_pace_advance_alone(struct ht_lane *lane, uint64_t time_ns) {
    struct ht_window *window = lane->window;
    uint64_t cpu_before_ns = ht_thread_cpu_ns(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    ht_background_advance(&window->low_ns, time_ns);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    if (window->real_ns_per_trace_ns > 0) wait_until(window, time_ns);
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}

void ht_pace_to_end(struct ht_window *window, uint64_t end_ns) {
    if (end_ns > window->low_ns) ht_background_advance(&window->low_ns, end_ns);
    if (window->real_ns_per_trace_ns > 0) wait_until(window, end_ns);
}

// Why this cannot deadlock. Let e be the first op in trace order that has not been executed, and t its thread.
// - Every op before e has been executed, so t does not wait for a slot.
// - Let T be e's time. Every other thread u has a pending op f that is later in the trace, so f's time is T
//   or more, and u's place is more than f's time less HT_TIME_STEP_NS, because the stream gives its place (a
//   TIME word) before any op that is further from the place it gave last. An ended thread's place is
//   infinity. So low_ns > T - HT_TIME_STEP_NS once it has been brought up to date, and e is inside the
//   window, whose width is not less than HT_TIME_STEP_NS. The same argument starts t if it does not exist
//   yet: a thread is due as soon as low_ns + HT_TIME_STEP_NS reaches the time of its first op. Equal times
//   change nothing.
// - A thread that ended before its process did gives the time of its end as a last place. It waits for
//   nothing but the window, and as e, or as the slowest, it is inside it.
// - low_ns is brought up to date: the slowest thread, when it moves on, sees that its former place is not
//   above low_ns and comes to raise_low. It may read a low_ns that another thread is just about to raise to
//   this very place; then that other thread sees the new place, because it reads all places again after
//   storing low_ns (both sides store before they load, sequentially consistent).

// Keys in the heap are places as they were when last read. Places only grow, so the earliest key that is
// still true is the lowest place. Lanes that have left hold nobody up and are taken out.
static uint64_t lowest_place(struct ht_window *window) {
    struct ht_lane_heap *places = &window->places;
    while (places->count) {
        struct ht_lane_key first = places->keys[0];
        uint64_t place_ns = atomic_load(&window->lanes[first.lane].place_ns);
        if (place_ns == first.ns) return place_ns;
        if (place_ns == UINT64_MAX) ht_lane_heap_take(places);
        else ht_lane_heap_delay_first(places, place_ns);
    }
    return UINT64_MAX;
}

// Both return whether a thread must be woken or started, which takes long.
static bool is_wanted(const struct ht_window *window, uint64_t low_ns) {
    return window->sleepers.count && window->sleepers.keys[0].ns <= low_ns;
}

// low_ns of UINT64_MAX: all that exist have left.
static bool is_due(const struct ht_window *window, uint64_t low_ns) {
    if (window->started == window->taking_part) return false;
    if (window->all_first) return true;
    const struct ht_lane *next = &window->lanes[window->start_order[window->started]];
    return low_ns == UINT64_MAX || window->base_ns + next->stream->start_ns <= low_ns + HT_TIME_STEP_NS;
}

static void call(struct ht_lane *lane, enum ht_lane_call which) {
    atomic_store(&lane->called, which);
    ht_futex_wake(&lane->called);
}

// Returns what it is after that.
static enum ht_lane_call await_other(struct ht_lane *lane, enum ht_lane_call which) {
    uint32_t called;
    while ((called = atomic_load(&lane->called)) == which) ht_futex_wait(&lane->called, which);
    return called;
}

static enum ht_lane_call await_call(struct ht_lane *lane) {
    call(lane, HT_LANE_WAITS);
    return await_other(lane, HT_LANE_WAITS);
}

static void window_leave(struct ht_lane *lane);

// A thread that lived to the end of its process keeps what its allocator holds for it until the run ends, and
// longer if the trace is not replayed once more. One that lived through a prelude goes on.
static void *run_thread(void *argument) {
    struct ht_lane *lane = argument;
    struct ht_window *window = lane->window;
    bool stays;
    ht_background_not_this_thread();
    lane->tid = ht_gettid();
    do {
        atomic_store(&lane->called, HT_LANE_RUNS);
        ht_lane_replaying(window, true);
        if (window->by_turns) turn_await(lane);
        lane->run(lane);
        stays = lane->stream->stays;
        window_leave(lane);
        ht_lane_replaying(window, false);
    } while (stays && await_call(lane) == HT_LANE_AGAIN);
    return NULL;
}

// Wakes and starts threads. The thread that raised low_ns does it, as a program's own threads start each
// other.
static void rouse(struct ht_window *window, uint64_t low_ns) {
    while (is_wanted(window, low_ns)) {
        struct ht_lane *lane = &window->lanes[ht_lane_heap_take(&window->sleepers).lane];
        atomic_store(&lane->wake, 1);
        ht_futex_wake(&lane->wake);
    }
    while (is_due(window, low_ns)) {
        struct ht_lane *lane = &window->lanes[window->start_order[window->started++]];
        if (window->by_turns) turn_enter(lane);
        if (lane == window->initial) continue;
        if (lane->parked) call(lane, HT_LANE_AGAIN);
        else lane_thread_start(lane, run_thread);
        lane->parked = false;
    }
}

// Sets the clock. Where background threads are waited for, that is no part of the lane's time.
static void advance_clock(struct ht_window *window, uint64_t low_ns, struct ht_lane *lane) {
    bool slow = lane && low_ns >= atomic_load(&ht_background_due_ns);
    uint64_t begin_ns = slow ? ht_uncounted_begin() : 0;
    uint64_t before_ns = slow ? ht_raw_clock_ns(CLOCK_MONOTONIC) : 0;
    if (slow && window->before_background) window->before_background();
    ht_background_advance(&window->low_ns, low_ns);
    if (!slow) return;
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    ht_uncounted_end(lane, begin_ns);
}

// With the lock held. lane: whose time it takes, or NULL.
static uint64_t raise_low(struct ht_window *window, struct ht_lane *lane) {
    uint64_t low_ns = lowest_place(window);
    for (;;) {
        if (low_ns < UINT64_MAX && low_ns > atomic_load(&window->low_ns)) {
            advance_clock(window, low_ns, lane);
        }
        uint64_t again_ns = lowest_place(window);
        if (again_ns == low_ns) break;
        low_ns = again_ns;
    }
    if (is_wanted(window, low_ns) || is_due(window, low_ns)) {
        uint64_t begin_ns = ht_uncounted_begin();
        rouse(window, low_ns);
        if (lane) ht_uncounted_end(lane, begin_ns);
    }
    return low_ns;
}

// Another lane that has the lock may be starting threads.
static void lock(struct ht_lane *lane) {
    if (pthread_mutex_trylock(&lane->window->lock) == 0) return;
    uint64_t begin_ns = ht_uncounted_begin(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&lane->window->lock);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    ht_uncounted_end(lane, begin_ns);
}

// Once asleep, a lane sleeps until it can run for half a window, and not only to its next op: sleeping and
// waking take longer than most ops. It never wants more than the argument above grants it.
static uint64_t wanted_ns(const struct ht_window *window, uint64_t time_ns) {
    uint64_t half_ns = window->width_ns / 2;
    return time_ns - (half_ns < HT_TIME_STEP_NS ? HT_TIME_STEP_NS : half_ns);
}

static void sleep_until_woken(struct ht_lane *lane) {
    uint64_t begin_ns = ht_uncounted_begin(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    while (!atomic_load(&lane->wake)) ht_futex_wait(&lane->wake, 0);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    ht_uncounted_end(lane, begin_ns);
}

void ht_window_advance_slowly(struct ht_lane *lane, uint64_t time_ns, uint64_t place_before_ns) {
    struct ht_window *window = lane->window;
    assert(place_before_ns <= time_ns);
    lock(lane);
    uint64_t low_ns = raise_low(window, lane);
    bool wait = !window->by_turns && time_ns > low_ns && time_ns - low_ns > window->width_ns;
    if (wait) {
        atomic_store(&lane->wake, 0);
        ht_lane_heap_put(&window->sleepers, wanted_ns(window, time_ns), lane->number);
    }
    pthread_mutex_unlock(&window->lock);
    if (wait) sleep_until_woken(lane);
    if (window->by_turns) turn_pass(lane);
}

void ht_window_report_place(struct ht_lane *lane, uint64_t trace_ns) {
    struct ht_window *window = lane->window;
    if (!window || window->alone) return;
    uint64_t time_ns = window->base_ns + trace_ns;
    if (time_ns <= atomic_load(&lane->place_ns)) return;
    pthread_mutex_lock(&window->lock);
    atomic_store(&lane->place_ns, time_ns);
    raise_low(window, NULL);
    pthread_mutex_unlock(&window->lock);
}

// The lane has executed its last op: it holds nobody up any more.
static void window_leave(struct ht_lane *lane) {
    struct ht_window *window = lane->window;
    pthread_mutex_lock(&window->lock);
    atomic_store(&lane->place_ns, UINT64_MAX);
    assert(window->running > 0);
    window->running--;
    raise_low(window, NULL);
    if (lane != window->initial) {
        lane->parked = lane->stream->stays;
        if (!lane->parked) {
            lane->next_leaver = window->leavers;
            window->leavers = lane;
        }
    }
    if (window->running == 0) {
        atomic_store(&window->stage, HT_WINDOW_DONE);
        ht_futex_wake(&window->stage);
    }
    pthread_mutex_unlock(&window->lock);
    if (window->by_turns) turn_leave(lane);
}

// Those that have something to do: a lane of a prelude's alone has nothing in the slice, and the other way round.
static void order_by_start(struct ht_window *window) {
    struct ht_lane_heap order = {.keys = window->places.keys};
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        const struct ht_lane *lane = &window->lanes[i];
        if (!lane->idle || lane == window->initial) ht_lane_heap_put(&order, lane->stream->start_ns, i);
    }
    window->taking_part = order.count;
    for (uint32_t i = 0; i < window->taking_part; i++) {
        window->start_order[i] = ht_lane_heap_take(&order).lane;
    }
}

static void begin(struct ht_window *window, uint64_t base_ns) {
    window->base_ns = base_ns;
    window->running = window->taking_part;
    window->started = window->places.count = 0;
    window->in_turn = NULL;
    atomic_store(&window->stage, HT_WINDOW_RUNS);
    for (uint32_t i = 0; i < window->taking_part; i++) {
        struct ht_lane *lane = &window->lanes[window->start_order[i]];
        uint64_t start_ns = base_ns + lane->stream->start_ns;
        atomic_store(&lane->place_ns, start_ns);
        ht_lane_heap_put(&window->places, start_ns, lane->number);
    }
}

void ht_window_init(struct ht_window *window, struct ht_lane *lanes, uint32_t lanes_count,
                    struct ht_lane *initial, uint64_t width_ns, const struct ht_window_tables *tables,
                    struct ht_outcome *outcome) {
    memset(window, 0, sizeof *window);
    window->lanes = lanes;
    window->lanes_count = lanes_count;
    window->initial = initial;
    window->width_ns = width_ns < HT_TIME_STEP_NS ? HT_TIME_STEP_NS : width_ns;
    window->alone = lanes_count == 1;
    window->places.keys = tables->places;
    window->sleepers.keys = tables->sleepers;
    window->start_order = tables->start_order;
    window->stacks = tables->stacks;
    window->outcome = outcome;
    window->costs = wait_costs_measure();
    pthread_mutex_init(&window->lock, NULL);
    for (uint32_t i = 0; i < lanes_count; i++) {
        lanes[i].window = window;
        lanes[i].number = i;
    }
    order_by_start(window);
    begin(window, 0);
}

static void join_ended(struct ht_window *window) {
    pthread_mutex_lock(&window->lock);
    lane_threads_join(window);
    pthread_mutex_unlock(&window->lock);
}

void ht_window_run(struct ht_window *window) {
    ht_lane_replaying(window, true);
    pthread_mutex_lock(&window->lock);
    raise_low(window, NULL);
    pthread_mutex_unlock(&window->lock);
    if (window->by_turns) turn_begin(window);
    if (window->initial) {
        if (window->by_turns) turn_await(window->initial);
        window->initial->run(window->initial);
        window_leave(window->initial);
    }
    while (atomic_load(&window->stage) == HT_WINDOW_RUNS) ht_futex_wait(&window->stage, HT_WINDOW_RUNS);
    ht_lane_replaying(window, false);
    join_ended(window);  // what they give back has been given back when the end is measured
}

void ht_window_go_on(struct ht_window *window, uint64_t base_ns) {
    for (uint32_t i = 0; i < window->lanes_count; i++)
        if (window->lanes[i].parked) await_other(&window->lanes[i], HT_LANE_RUNS);
    order_by_start(window);
    begin(window, base_ns);
}

void ht_window_rewind(struct ht_window *window, uint64_t base_ns) {
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        struct ht_lane *lane = &window->lanes[i];
        if (!lane->parked) continue;
        lane->parked = false;
        await_other(lane, HT_LANE_RUNS);
        call(lane, HT_LANE_DISMISSED);
        lane->next_leaver = window->leavers;
        window->leavers = lane;
    }
    join_ended(window);
    assert(base_ns >= window->base_ns);
    begin(window, base_ns);
}

static void sleep_until(_Atomic uint32_t *word, uint32_t dependency) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    while (!ht_dependency_is(seen, dependency)) {
        // The publisher replaces the whole word and wakes all; a thread that finds another's number sleeps
        // again.
        if ((seen & 1) || atomic_compare_exchange_strong(word, &seen, seen | 1)) {
            ht_futex_wait(word, seen | 1);
        }
        seen = atomic_load_explicit(word, memory_order_acquire);
    }
}

void ht_dependency_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency) {
    if (lane->window->by_turns) {
        turn_pass_until(lane, word, dependency);
        return;
    }
    uint32_t turns_max = lane->window->costs.turns_max;
    uint32_t turns = dependency_spin(word, dependency, turns_max);
    lane->turns += turns;
    if (turns < turns_max) return;
    uint64_t begin_ns = ht_uncounted_begin(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    sleep_until(word, dependency);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    ht_uncounted_end(lane, begin_ns);
}

void ht_dependency_wake(struct ht_lane *lane, _Atomic uint32_t *word) {
    uint64_t begin_ns = ht_uncounted_begin();
    ht_futex_wake(word);
    ht_uncounted_end(lane, begin_ns);
}
