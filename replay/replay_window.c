// Why this can't deadlock. Let e be the first op in trace order that has not been executed, and t its thread.
// - Every op before e has been executed, so t does not wait for a slot.
// - Let T be e's time. Every other thread u has a pending op f that is later in the trace, so f's time is T
// or
//   more, and u's place is more than f's time less HT_TIME_STEP_NS, because the stream tells its place (a
//   TIME word) before any op that is further from the place it told last. An ended thread's place is
//   infinity. So low_ns > T - HT_TIME_STEP_NS once it has been brought up to date, and e is inside the
//   window, whose width is not less than HT_TIME_STEP_NS. The same argument starts t if it does not exist
//   yet: a thread is due as soon as low_ns + HT_TIME_STEP_NS reaches the time of its first op. Equal times
//   change nothing.
// - A thread that ended before its process did tells the time of its end as a last place. It waits for
//   nothing but the window, and as e, or as the slowest, it is inside it.
// - low_ns is brought up to date: the slowest thread, when it moves on, sees that its former place is not
//   above low_ns and comes to raise_low. It may read a low_ns that another thread is just about to raise to
//   this very place; then that other thread sees the new place, because it looks at all places again after
//   storing low_ns (both sides store before they load, sequentially consistent).
#include "replay_window.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "background_threads.h"
#include "futex_word.h"
#include "raw_clock.h"
#include "replay_engine.h"

// Only what is used becomes real. A library's thread-local storage lies on the stack too and must fit.
enum { STACK_BYTES = 2 << 20 };

static uint64_t lowest_place(const struct ht_window *window) {
    uint64_t low_ns = UINT64_MAX;
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        uint64_t place_ns = atomic_load(&window->places_ns[i]);
        if (place_ns < low_ns) low_ns = place_ns;
    }
    return low_ns;
}

static void wake_wanting(struct ht_window *window, uint64_t low_ns) {
    if (low_ns < window->next_wanted_ns) return;
    window->next_wanted_ns = UINT64_MAX;
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        struct ht_lane *lane = &window->lanes[i];
        if (!lane->sleeping) continue;
        if (lane->wanted_ns <= low_ns) {
            lane->sleeping = false;
            atomic_store(&lane->wake, 1);
            ht_futex_wake(&lane->wake);
        } else if (lane->wanted_ns < window->next_wanted_ns) {
            window->next_wanted_ns = lane->wanted_ns;
        }
    }
}

static void *run_lane_thread(void *argument);

static void tell_replaying(const struct ht_window *window, bool yes) {
    if (window->replaying) window->replaying(yes);
}

// A stack in shared memory, so that it is not the allocator's: a former thread's, or a new one.
static void *get_stack(struct ht_window *window) {
    struct ht_lane *leaver = window->leavers;
    if (leaver) {
        window->leavers = leaver->next_leaver;
        pthread_join(leaver->thread, NULL);  // it is past its last op, and takes no lock any more
        return leaver->stack;
    }
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return stack == MAP_FAILED ? NULL : stack;
}

// Others may already wait for this thread's ops, so without it the run ends here.
static _Noreturn void refuse_start(struct ht_window *window, const struct ht_lane *lane, int reason) {
    snprintf(window->outcome->message, sizeof window->outcome->message,
             "thread %u of %u can't be started: %s", lane->number, window->lanes_count,
             strerrordesc_np(reason));
    window->outcome->state = HT_OUTCOME_REFUSED;
    _exit(1);
}

static void start_lane(struct ht_window *window, struct ht_lane *lane) {
    pthread_attr_t attributes;
    lane->stack = get_stack(window);
    if (!lane->stack || pthread_attr_init(&attributes)) refuse_start(window, lane, ENOMEM);
    pthread_attr_setstack(&attributes, lane->stack, STACK_BYTES);
    int failed = pthread_create(&lane->thread, &attributes, run_lane_thread, lane);
    if (failed) refuse_start(window, lane, failed);
    pthread_attr_destroy(&attributes);
}

static void finish_all(struct ht_window *window) {
    atomic_store(&window->all_done, 1);
    ht_futex_wake(&window->all_done);
}

// Starts the threads that are due. Whoever raised low_ns does it, as a program's own threads start each
// other; the time is not counted as the allocator's.
static void start_due(struct ht_window *window, uint64_t low_ns) {
    while (window->started < window->lanes_count) {
        struct ht_lane *lane = &window->lanes[window->start_order[window->started]];
        if (low_ns < UINT64_MAX && lane->stream->start_ns > low_ns + HT_TIME_STEP_NS) return;
        window->started++;
        if (lane->thread) continue;     // the initial lane has its thread
        tell_replaying(window, false);  // what the C library allocates for a thread is not the trace's
        start_lane(window, lane);
        tell_replaying(window, true);
    }
}

// With the lock held.
static uint64_t raise_low(struct ht_window *window) {
    uint64_t low_ns = lowest_place(window);
    for (;;) {
        if (low_ns < UINT64_MAX && low_ns > atomic_load(&window->low_ns)) {
            ht_background_advance(&window->low_ns, low_ns);
        }
        uint64_t again_ns = lowest_place(window);
        if (again_ns == low_ns) break;
        low_ns = again_ns;
    }
    wake_wanting(window, low_ns);
    start_due(window, low_ns);
    return low_ns;
}

void ht_window_advance_slowly(struct ht_lane *lane, uint64_t time_ns, uint64_t place_before_ns) {
    struct ht_window *window = lane->window;
    assert(place_before_ns <= time_ns);
    uint64_t cpu_before_ns = ht_thread_cpu_ns();
    pthread_mutex_lock(&window->lock);
    uint64_t low_ns = raise_low(window);
    bool wait = time_ns > low_ns && time_ns - low_ns > window->width_ns;
    if (wait) {
        lane->wanted_ns = time_ns - window->width_ns;
        lane->sleeping = true;
        atomic_store(&lane->wake, 0);
        if (lane->wanted_ns < window->next_wanted_ns) window->next_wanted_ns = lane->wanted_ns;
    }
    pthread_mutex_unlock(&window->lock);
    if (wait) {
        uint64_t before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
        while (!atomic_load(&lane->wake)) ht_futex_wait(&lane->wake, 0);
        lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    }
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}

void ht_window_tell_place(struct ht_lane *lane, uint64_t time_ns) {
    struct ht_window *window = lane->window;
    if (!window || window->alone || time_ns <= atomic_load(&window->places_ns[lane->number])) return;
    pthread_mutex_lock(&window->lock);
    atomic_store(&window->places_ns[lane->number], time_ns);
    raise_low(window);
    pthread_mutex_unlock(&window->lock);
}

// The lane has executed its last op: it holds nobody up any more.
static void leave(struct ht_lane *lane) {
    struct ht_window *window = lane->window;
    pthread_mutex_lock(&window->lock);
    atomic_store(&window->places_ns[lane->number], UINT64_MAX);
    assert(window->running > 0);
    window->running--;
    raise_low(window);
    if (window->running == 0) finish_all(window);
    bool stays = lane->stream->stays;
    if (!stays && lane->stack) {
        lane->next_leaver = window->leavers;
        window->leavers = lane;
    }
    pthread_mutex_unlock(&window->lock);
}

static void wait_all_done(struct ht_window *window) {
    while (!atomic_load(&window->all_done)) ht_futex_wait(&window->all_done, 0);
}

// A thread that lived to the end of its process keeps what its allocator holds for it until the run ends.
static void *run_lane_thread(void *argument) {
    struct ht_lane *lane = argument;
    ht_background_not_this_thread();
    lane->tid = gettid();
    tell_replaying(lane->window, true);
    ht_engine_run(lane);
    leave(lane);
    tell_replaying(lane->window, false);
    if (lane->stream->stays) {
        wait_all_done(lane->window);
        for (;;) pause();  // the process ends with the initial thread
    }
    return NULL;
}

static void order_by_start(struct ht_window *window) {
    for (uint32_t i = 0; i < window->lanes_count; i++) window->start_order[i] = i;
    // Threads are numbered by first event, so they come almost in order already.
    for (uint32_t i = 1; i < window->lanes_count; i++) {
        uint32_t moving = window->start_order[i], at = i;
        while (at > 0 && window->lanes[window->start_order[at - 1]].stream->start_ns >
                             window->lanes[moving].stream->start_ns) {
            window->start_order[at] = window->start_order[at - 1];
            at--;
        }
        window->start_order[at] = moving;
    }
}

void ht_window_init(struct ht_window *window, struct ht_lane *lanes, uint32_t lanes_count, uint64_t width_ns,
                    _Atomic uint64_t *places_ns, uint32_t *start_order, struct ht_outcome *outcome) {
    memset(window, 0, sizeof *window);
    window->lanes = lanes;
    window->lanes_count = lanes_count;
    window->width_ns = width_ns < HT_TIME_STEP_NS ? HT_TIME_STEP_NS : width_ns;
    window->alone = lanes_count == 1;
    window->places_ns = places_ns;
    window->start_order = start_order;
    window->outcome = outcome;
    window->next_wanted_ns = UINT64_MAX;
    window->running = lanes_count;
    pthread_mutex_init(&window->lock, NULL);
    for (uint32_t i = 0; i < lanes_count; i++) {
        lanes[i].window = window;
        lanes[i].number = i;
        atomic_store(&places_ns[i], lanes[i].stream->start_ns);
    }
    order_by_start(window);
}

void ht_window_run(struct ht_window *window, struct ht_lane *initial, void (*done)(void *), void *context) {
    if (initial) initial->thread = pthread_self();
    tell_replaying(window, true);
    pthread_mutex_lock(&window->lock);
    raise_low(window);
    pthread_mutex_unlock(&window->lock);
    if (initial) {
        ht_engine_run(initial);
        leave(initial);
    }
    if (window->lanes_count > 0) wait_all_done(window);
    tell_replaying(window, false);
    // What ended threads give back has been given back when the end is looked at.
    pthread_mutex_lock(&window->lock);
    for (struct ht_lane *leaver = window->leavers; leaver; leaver = leaver->next_leaver) {
        pthread_join(leaver->thread, NULL);
    }
    window->leavers = NULL;
    pthread_mutex_unlock(&window->lock);
    done(context);
}
