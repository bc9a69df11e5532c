// SPDX-License-Identifier: Apache-2.0
// Threads that call at once, that stop anywhere in a call, and that end.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "allocator_calls.h"
#include "background_threads.h"
#include "raw_calls.h"
#include "single_steps.h"
#include "torture_part.h"

#define MIB ((uint64_t)1 << 20)

enum {
    THREADS_MAX = 136,  // at once, of which all but a few only come and go
    SHARED = 256,       // that all threads make and end
    LEFT = 40,          // that each thread leaves
    FRESH = 56,         // size classes, four between 2^i and 2^(i+1)
    STACK_BYTES = 512 << 10,
    SPINS = 2000,
    STEPS_MAX = 1500  // through one call
};

struct worker {
    struct ht_torturer t;
    pthread_t thread;
    void *stack;
    unsigned steps;    // through the allocator, in this call
    unsigned stop_at;  // the step behind which it stops; 0: every other one
    uint32_t made;     // blocks of fresh classes
};

// Threads that run at once.
static struct {
    void (*body)(struct worker *worker);
    uint32_t count;
    _Atomic uint32_t arrived, round;  // round: a futex
    pthread_key_t key;
    _Atomic uint32_t turn;          // enum duel_turn, a futex
    _Atomic uint64_t bytes;         // of the blocks of a duel
    _Atomic uint32_t busy[SHARED];  // a thread is at the shared block
    struct worker workers[THREADS_MAX];
} crew;

static void next_round(void) {
    atomic_store(&crew.arrived, 0);
    atomic_fetch_add(&crew.round, 1);
    ht_futex_wake(&crew.round);
}

// All threads leave it at once. Those that wait do not keep a processor from the others for long.
static void meet(void) {
    uint32_t round = atomic_load(&crew.round);
    if (atomic_fetch_add(&crew.arrived, 1) + 1 == crew.count) {
        next_round();
        return;
    }
    for (unsigned turns = 0; atomic_load(&crew.round) == round; turns++) {
        if (turns < SPINS) ht_cpu_relax();
        else ht_futex_wait(&crew.round, round);
    }
}

static void *begin(void *argument) {
    struct worker *worker = argument;
    ht_background_not_this_thread();
    while (atomic_load(&crew.round) == 0) ht_futex_wait(&crew.round, 0);
    crew.body(worker);
    ht_torture_add(&worker->t);
    return NULL;
}

static bool start(struct worker *worker) {
    pthread_attr_t attributes;
    if (!worker->stack)
        worker->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (worker->stack == MAP_FAILED) {
        worker->stack = NULL;
        return false;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, worker->stack, STACK_BYTES);
    bool started = !pthread_create(&worker->thread, &attributes, begin, worker);
    pthread_attr_destroy(&attributes);
    return started;
}

// Returns how many threads there were.
static uint32_t run_crew(struct ht_torturer *t, uint32_t count, void (*body)(struct worker *worker)) {
    struct ht_torture_record *record = &t->of->findings->torture;
    uint32_t started = 0;
    crew.body = body;
    atomic_store(&crew.round, 0);
    for (; started < count; started++) {
        struct worker *worker = &crew.workers[started];
        worker->t = (struct ht_torturer){.of = t->of,
                                         .random = ht_torture_draw(t, UINT64_MAX) | 1,
                                         .until_ns = t->until_ns,
                                         .number = started + 1,
                                         .id = (uint32_t)record->threads_ended + started + 1,
                                         .part = t->part};
        if (!start(worker)) break;
    }
    crew.count = started;
    next_round();
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(crew.workers[i].thread, NULL);
        t->late |= crew.workers[i].t.late;
    }
    record->threads_ended += started;
    if (started > record->threads) record->threads = started;
    return started;
}

// The blocks of one thread.
static struct ht_slots own_range(const struct worker *worker, uint32_t count) {
    return (struct ht_slots){ht_work.first + SHARED + worker->t.number * count, count};
}

// In a process that has called the allocator as little as possible, all threads call each function for the first time at once,
// and then take so much memory that all kinds of tables have to grow.
static void call_first(struct worker *worker) {
    static const uint64_t sizes[] = {24, 1000, 5000, 40000, 300000};
    enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = SIZES * HT_VERIFIED_FUNCTIONS, MORE = 400 };
    struct ht_torturer *t = &worker->t;
    struct ht_slots mine = own_range(worker, BLOCKS + MORE);
    for (uint32_t i = 0; i < BLOCKS + MORE; i++) {
        uint64_t bytes = i < BLOCKS ? sizes[i % SIZES] : 50 + i % MORE;
        if (i < BLOCKS) meet();
        ht_block_make(t, t->of->blocks + mine.first + i, i < BLOCKS ? i / SIZES : HT_VERIFIED_MALLOC, bytes,
                      64);
    }
    meet();
    ht_slots_end(t, mine);
}

static void contend(struct worker *worker) {
    static const uint64_t sizes[] = {16, 48, 128, 500, 1024, 4000, 16000, 33000, 140000, 1100000};
    static const unsigned depths[] = {1, 3, 40, HT_DEPTH_MAX};
    const uint64_t most_bytes = 4 * MIB;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
            unsigned depth = depths[k], calls = sizes[i] <= 4000 ? 12000 : sizes[i] < 100000 ? 2000 : 300;
            meet();
            if (depth * sizes[i] <= most_bytes)
                ht_torture_contend(&worker->t, sizes[i], depth, calls / depth + 2);
        }
    }
}

// A call of any function, on a block that all threads make, resize and end. bytes: near which they are; 0: any.
static void exchange_one(struct worker *worker, uint64_t bytes, unsigned bits) {
    struct ht_torturer *t = &worker->t;
    uint32_t slot = (uint32_t)ht_torture_draw(t, SHARED);
    struct ht_block *block = t->of->blocks + ht_work.first + slot;
    uint64_t wanted = bytes ? bytes - ht_torture_draw(t, 8) : ht_any_size(t, bits);
    if (atomic_exchange(&crew.busy[slot], 1)) return;
    bool resizes = block->at && block->function < HT_VERIFIED_NEW && ht_torture_draw(t, 3) == 0;
    if (resizes) ht_block_resize(t, block, wanted + bytes * ht_torture_draw(t, 2));
    else if (block->at) ht_block_end(t, block);
    else
        ht_block_make(t, block, bytes && t->random % 2 ? HT_VERIFIED_MALLOC : ht_any_function(t, true),
                      wanted, bytes ? 64 : ht_any_alignment(t));
    atomic_store(&crew.busy[slot], 0);
}

static void exchange(struct worker *worker) {
    for (unsigned i = 0; i < 12000 && ht_torture_goes_on(&worker->t); i++)
        exchange_one(worker, 0, i % 40 ? 14 : 18);
}

// Two threads: one goes through the allocator step by step, and stops behind every other instruction until the other has made a
// call. So they meet everywhere, on one processor as well, and not only where the kernel happens to change threads.
enum duel_turn { TURN_FIRST, TURN_SECOND, TURN_OVER };
static __thread struct worker *stepping;

static void stop_there(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    struct worker *worker = stepping;
    int before = errno;
    keep_steps_of(context);
    if (worker->steps++ >= STEPS_MAX) stop_steps_of(context);
    bool once = worker->stop_at,
         stops = once ? worker->steps == worker->stop_at : ht_torture_draw(&worker->t, 2);
    const uint64_t patience_ns = once ? 2000000 : 200000;
    if (once && stops) stop_steps_of(context);
    // Who waits for what the first one holds is not waited for.
    if (stops && atomic_load(&crew.turn) == TURN_FIRST) {
        atomic_store(&crew.turn, TURN_SECOND);
        ht_futex_wake(&crew.turn);
        ht_futex_wait_for(&crew.turn, TURN_SECOND, patience_ns);
    }
    errno = before;
}

static void attack(struct worker *worker) {
    static const uint64_t sizes[] = {24, 200, 1000, 5000, 40000, 100};
    enum { FIRST = 4, WARM = 400, STEPPED = 15 };
    struct ht_torturer *t = &worker->t;
    stepping = worker;
    for (unsigned i = 0; i < 6 * (WARM + STEPPED) && ht_torture_goes_on(t); i++) {
        unsigned call = i % (WARM + STEPPED);
        if (call == 0) atomic_store(&crew.bytes, sizes[i / (WARM + STEPPED)]);
        t->stepped = call < FIRST || call >= WARM;
        worker->steps = 0;
        exchange_one(worker, crew.bytes, 0);
    }
}

static void answer(struct worker *worker) { exchange_one(worker, crew.bytes, 0); }

static void make_fresh(struct worker *worker) {
    uint32_t slot = own_range(worker, FRESH).first + worker->made++;
    ht_block_make(&worker->t, worker->t.of->blocks + slot, HT_VERIFIED_MALLOC, crew.bytes, 0);
}

// The first use of many size classes. The second thread calls but once in each: were it earlier, the use would not be the first.
static void attack_fresh(struct worker *worker) {
    struct ht_torturer *t = &worker->t;
    unsigned range = 64;  // about the steps of a call
    stepping = worker;
    t->stepped = true;
    for (unsigned i = 0; i < FRESH && ht_torture_goes_on(t); i++) {
        uint64_t step = 4ull << i / 4;
        atomic_store(&crew.bytes, (4 + i % 4) * step - ht_torture_draw(t, step));
        worker->stop_at = 1 + (unsigned)ht_torture_draw(t, range);
        worker->steps = 0;
        make_fresh(worker);
        if (worker->steps < worker->stop_at) range = worker->steps + 1;
        else if (range < 512) range *= 2;
    }
}

static void take_turns(struct worker *worker, void (*first)(struct worker *),
                       void (*second)(struct worker *)) {
    if (worker->t.number == 1) {
        first(worker);
        atomic_store(&crew.turn, TURN_OVER);
        ht_futex_wake(&crew.turn);
    }
    for (uint32_t turn; worker->t.number != 1 && (turn = atomic_load(&crew.turn)) != TURN_OVER;) {
        if (turn == TURN_FIRST) {
            ht_futex_wait(&crew.turn, TURN_FIRST);
            continue;
        }
        second(worker);
        uint32_t mine = TURN_SECOND;
        atomic_compare_exchange_strong(&crew.turn, &mine, TURN_FIRST);
        ht_futex_wake(&crew.turn);
    }
}

static void duel(struct worker *worker) { take_turns(worker, attack, answer); }
static void duel_fresh(struct worker *worker) { take_turns(worker, attack_fresh, make_fresh); }

static bool fight(struct ht_torturer *t, void (*body)(struct worker *worker)) {
    const struct sigaction action = {.sa_sigaction = stop_there, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    t->alone = false;
    return run_crew(t, 2, body) == 2;
}

static bool fight_duel(struct ht_torturer *t) { return fight(t, duel); }

static bool fight_fresh(struct ht_torturer *t) {
    bool done = fight(t, duel_fresh);
    ht_slots_end(t, (struct ht_slots){ht_work.first + SHARED + FRESH, 2 * FRESH});
    return done;
}

// Each thread ends what another has made.
static void hand_over(struct worker *worker) {
    enum { BLOCKS = 200, ROUNDS = 40 };
    static const uint64_t sizes[] = {40, 400, 1300, 5000};
    struct ht_torturer *t = &worker->t;
    struct ht_slots mine = own_range(worker, BLOCKS), others = mine;
    others.first = ht_work.first + SHARED + (t->number % crew.count + 1) * BLOCKS;
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < BLOCKS; k++)
            ht_block_make(t, t->of->blocks + mine.first + k, HT_VERIFIED_MALLOC, sizes[i % 4] + k % 8, 0);
        meet();
        ht_slots_end(t, others);
        meet();
    }
}

// The last calls of a thread, after those in which the allocator gives up what it has kept for it.
static void call_last(void *argument) {
    struct worker *worker = argument;
    struct ht_torturer *t = &worker->t;
    struct ht_block *block = t->of->blocks + own_range(worker, LEFT).first;
    ht_block_end(t, block);
    ht_block_make(t, block, HT_VERIFIED_MALLOC, ht_any_size(t, 12), 0);
    if (t->random % 2) pthread_setspecific(crew.key, worker);  // once more
    ht_torture_add(t);
}

// A thread whose first call is any, that takes memory, leaves blocks to others, and ends.
static void come_and_go(struct worker *worker) {
    struct ht_torturer *t = &worker->t;
    struct ht_slots mine = own_range(worker, LEFT);
    struct ht_block *left = t->of->blocks + mine.first;
    meet();
    if (left->at && left->function < HT_VERIFIED_NEW && t->random % 2) ht_block_resize(t, left, 5000);
    else ht_block_end(t, left);
    ht_torture_contend(t, 1000, HT_DEPTH_MAX, 1);
    for (uint32_t i = 0; i < 2 * LEFT; i++)
        ht_slots_put(t, mine, ht_any_function(t, true), ht_any_size(t, 12), ht_any_alignment(t));
    pthread_setspecific(crew.key, worker);
}

// One that leaves nothing.
static void come_and_end(struct worker *worker) {
    meet();
    ht_torture_contend(&worker->t, 1000, HT_DEPTH_MAX, 2);
}

bool ht_torture_thread_ends(struct ht_torturer *t) {
    const uint32_t count = t->of->threads, waves = 16, warm = 8;
    uint64_t before = 0;
    if (pthread_key_create(&crew.key, call_last)) return false;
    for (uint32_t i = 0; i < waves; i++) {
        if (run_crew(t, count, come_and_go) < count) return false;
        ht_slots_check(t, (struct ht_slots){ht_work.first + SHARED, (count + 1) * LEFT});
    }
    for (uint32_t i = 0; i < warm + waves; i++) {
        if (i == warm) before = ht_torture_resident(t->of);
        if (run_crew(t, count, come_and_end) < count) return false;
    }
    ht_torture_tell_growth(t, HT_VERIFIED_MALLOC, 0, before, waves * count * (uint64_t)(HT_DEPTH_MAX * 1000));
    bool all = run_crew(t, THREADS_MAX, come_and_go) == THREADS_MAX;
    ht_slots_end(t, (struct ht_slots){ht_work.first + SHARED, (THREADS_MAX + 1) * LEFT});
    pthread_key_delete(crew.key);
    return all;
}

bool ht_torture_duel(struct ht_torturer *t) {
    bool done = CAN_STEP;
    for (unsigned i = 0; i < 8 && done; i++) done = ht_torture_in_child(t, fight_fresh);
    return done && ht_torture_in_child(t, fight_duel);
}

bool ht_torture_threads(struct ht_torturer *t) {
    const uint64_t handed_over = 40 * 200 * 1700;  // bytes, by each thread
    uint32_t count = t->of->threads;
    if (run_crew(t, count, contend) < 2) return false;
    run_crew(t, count, exchange);
    ht_slots_end(t, ht_slots_some(SHARED));
    run_crew(t, count, hand_over);
    uint64_t before = ht_torture_resident(t->of);
    for (unsigned i = 0; i < 2; i++) run_crew(t, count, hand_over);
    ht_torture_tell_growth(t, HT_VERIFIED_MALLOC, 0, before, 2 * count * handed_over);
    return true;
}

static bool first_calls(struct ht_torturer *t) {
    t->alone = false;
    return run_crew(t, t->of->threads, call_first) > 1;
}

bool ht_torture_first_calls(struct ht_torturer *t) {
    bool done = true;
    for (unsigned i = 0; i < 12 && done; i++) done = ht_torture_in_child(t, first_calls);
    return done;
}
