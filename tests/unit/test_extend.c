// SPDX-License-Identifier: Apache-2.0
// A trace that is continued: who plays whom and which thread, and what slopes are seen.
#include "unit_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "block_matching.h"
#include "loop_threads.h"
#include "slope.h"

// ---- who plays whom when a stretch is repeated: always a rule of one to one, by class and age, that adds up ----

enum { OBJECTS_MAX = 4096 };

// A world of objects, of which some live at the stretch's beginning and some at its end.
struct world {
    struct matching matching;
    struct match_block before[OBJECTS_MAX], after[OBJECTS_MAX];
    uint64_t births;
};

static struct match_block block(struct world *world, uint64_t bytes, uint32_t thread, uint32_t kind) {
    return (struct match_block){.birth = ++world->births,
                                .bytes = bytes,
                                .slot = (uint32_t)world->births,
                                .thread = thread,
                                .kind = kind,
                                .turns = true,
                                .same = MATCH_NONE};
}

static void freed(struct world *world, uint64_t bytes, uint32_t thread, uint32_t kind) {
    world->before[world->matching.before_count++] = block(world, bytes, thread, kind);
}

static void made(struct world *world, uint64_t bytes, uint32_t thread, uint32_t kind) {
    world->after[world->matching.after_count++] = block(world, bytes, thread, kind);
}

// Outlives the stretch; to: its size afterwards.
static void stays(struct world *world, uint64_t bytes, uint64_t to, uint32_t thread, uint32_t kind) {
    struct matching *matching = &world->matching;
    struct match_block both = block(world, bytes, thread, kind);
    both.turns = false;
    both.same = (uint32_t)matching->after_count;
    world->before[matching->before_count] = both;
    both.same = (uint32_t)matching->before_count++;
    both.resized = to != bytes;
    both.bytes = to;
    world->after[matching->after_count++] = both;
}

static struct world *new_world(void) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->matching.before = world->before;
    world->matching.after = world->after;
    return world;
}

// Partners are mutual, of one kind, and nobody who stays is without; only one list has blocks of a kind that are.
static void check(const struct matching *matching) {
    uint64_t alone_before = 0, alone_after = 0;
    long long of_kind[8] = {0};
    for (size_t i = 0; i < matching->before_count; i++) {
        const struct match_block *block = &matching->before[i];
        of_kind[block->kind]++;
        if (block->partner == MATCH_NONE) {
            alone_before++;
            assert_true(block->turns);
            continue;
        }
        assert_int_equal(matching->after[block->partner].partner, i);
        assert_int_equal(matching->after[block->partner].kind, block->kind);
    }
    for (size_t i = 0; i < matching->after_count; i++) {
        of_kind[matching->after[i].kind]--;
        if (matching->after[i].partner != MATCH_NONE) continue;
        alone_after++;
        assert_true(matching->after[i].turns);
    }
    long long more = 0, fewer = 0;
    for (size_t kind = 0; kind < 8; kind++) {
        if (of_kind[kind] > 0) more += of_kind[kind];
        else fewer -= of_kind[kind];
    }
    assert_int_equal(alone_before, more);
    assert_int_equal(alone_after, fewer);
    assert_int_equal(alone_before, matching->unmatched_before);
    assert_int_equal(alone_after, matching->unmatched_after);
    assert_int_equal(matching->by_thread + matching->by_class + matching->by_size + alone_before,
                     matching->before_count);
}

static void age_decides_within_class_and_thread(void **state) {
    (void)state;
    struct world *world = new_world();
    for (unsigned i = 0; i < 3; i++) freed(world, 100, 1, 0);
    for (unsigned i = 0; i < 3; i++) freed(world, 100, 2, 0);
    for (unsigned i = 0; i < 3; i++) made(world, 100, 2, 0);
    for (unsigned i = 0; i < 3; i++) made(world, 110, 1, 0);
    assert_true(match_blocks(&world->matching));
    check(&world->matching);
    assert_int_equal(world->matching.by_thread, 6);
    for (unsigned i = 0; i < 6; i++) assert_int_equal(world->before[i].partner, (i + 3) % 6);
    free(world);
}

static void what_is_oldest_and_stays_plays_itself(void **state) {
    (void)state;
    struct world *world = new_world();
    for (unsigned i = 0; i < 5; i++) stays(world, 64, 64, 0, 0);
    for (unsigned i = 0; i < 5; i++) freed(world, 64, 0, 0);
    for (unsigned i = 0; i < 5; i++) made(world, 64, 0, 0);
    assert_true(match_blocks(&world->matching));
    check(&world->matching);
    for (unsigned i = 0; i < 5; i++) assert_int_equal(world->before[i].partner, world->before[i].same);
    free(world);
}

static void nothing_plays_another_kind(void **state) {
    (void)state;
    struct world *world = new_world();
    freed(world, 64, 0, 1);
    made(world, 64, 0, 2);
    assert_true(match_blocks(&world->matching));
    check(&world->matching);
    assert_int_equal(world->matching.unmatched_before, 1);
    assert_int_equal(world->matching.unmatched_after, 1);
    free(world);
}

static uint64_t some_size(uint64_t *seed) {
    static const uint64_t above[] = {16, 200, 5000, 300000};
    return 1 + unit_random(seed) % above[unit_random(seed) % 4];
}

static void random_worlds_add_up(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (unsigned round = 0; round < 300; round++) {
        struct world *world = new_world();
        size_t objects = unit_random(&seed) % 300, chance = unit_random(&seed) % 5;
        for (size_t i = 0; i < objects; i++) {
            uint32_t thread = (uint32_t)(unit_random(&seed) % 3), kind = (uint32_t)(unit_random(&seed) % 2);
            uint64_t bytes = some_size(&seed), draw = unit_random(&seed) % 8;
            if (draw < 2 + chance / 2) freed(world, bytes, thread, kind);
            else if (draw < 6) made(world, bytes, thread, kind);
            else stays(world, bytes, draw == 6 ? bytes : some_size(&seed), thread, kind);
        }
        assert_true(match_blocks(&world->matching));
        check(&world->matching);
        free(world);
    }
}

// As many are freed as made, so what is live after many repetitions is what one makes, whatever the sizes were.
static void live_bytes_come_to_rest(void **state) {
    (void)state;
    uint64_t seed = 9;
    double live[65];
    struct world *world = new_world();
    for (unsigned i = 0; i < 1000; i++) {
        stays(world, some_size(&seed), some_size(&seed), 0, 0);
        freed(world, 1 + unit_random(&seed) % 500, 0, 0);
        made(world, 1 + unit_random(&seed) % 500, 0, 0);
    }
    assert_true(match_blocks(&world->matching) && match_live_bytes(&world->matching, live, 64));
    double bytes = 0;
    for (size_t i = 0; i < world->matching.after_count; i++) bytes += (double)world->after[i].bytes;
    assert_true(live[0] == bytes);
    for (unsigned i = 1; i <= 64; i++) assert_true(fabs(live[i] / live[0] - 1) < 0.01);
    assert_true(fabs(live[64] - live[63]) < 1);
    free(world);
}

// `lasts` is what nobody frees: with each repetition so many bytes more.
static void growth_is_what_was_asked_for(void **state) {
    (void)state;
    for (unsigned extra = 0; extra < 3; extra++) {
        double live[21];
        struct world *world = new_world();
        for (unsigned i = 0; i < 1000; i++) {
            freed(world, 1 + i % 200, 0, 0);
            made(world, 1 + i % 200, 0, 0);
        }
        // In one world only as much is made in addition as grows, in one less, in one more.
        for (unsigned i = 0; i < 100 * extra; i++) made(world, 100, 0, 0);
        assert_true(match_blocks(&world->matching));
        check(&world->matching);
        uint64_t grown = match_grow(&world->matching, 10000);
        assert_in_range(grown, 9900, 10100);
        assert_true(match_live_bytes(&world->matching, live, 20));
        for (unsigned i = 2; i <= 20; i++) assert_true(fabs(live[i] - live[i - 1] - (double)grown) < 1);
        free(world);
    }
}

static void classes_rise_with_sizes(void **state) {
    (void)state;
    unsigned last = 0;
    for (uint64_t bytes = 0; bytes < 300000; bytes += 1 + bytes / 4000) {
        unsigned class = match_class(bytes);
        assert_true(class >= last);
        last = class;
    }
    assert_true(match_class(UINT64_MAX) > match_class(UINT64_MAX / 2));
}

// ---- who plays which thread when a stretch is repeated: threads of one name by rank of age ----

enum { THREADS_MAX = 32, FROM_EVENT = 1000, FROM_NS = 1000, LENGTH_NS = 100, STAY = 0 };

// A trace of some threads, of which each calls once in a repetition.
struct thread_world {
    struct loop_plan plan;
    struct ht_trace_facts facts;
    struct loop_thread threads[THREADS_MAX];
    struct ht_thread known[THREADS_MAX];
};

// Threads come in the order in which they begin. ends_ns 0: it does not end.
static void thread(struct thread_world *world, const char *name, bool before, uint64_t ends_ns) {
    uint32_t i = world->plan.head_threads++;
    world->known[i] = (struct ht_thread){
        .first_event = (before ? 0 : FROM_EVENT) + i, .calls = 1, .ended = ends_ns, .end_ns = ends_ns};
    strcpy(world->known[i].name, name);
    world->threads[i] = (struct loop_thread){.head_calls = 1,
                                             .calls = 1,
                                             .calls_cut = 1,
                                             .first_row = i,
                                             .first_ns = FROM_NS + i,
                                             .last_ns = FROM_NS + i,
                                             .last_cut_ns = FROM_NS + i};
    world->facts.threads_count = world->plan.threads_count = world->plan.head_threads;
}

static struct thread_world *begin(void) {
    struct thread_world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->plan = (struct loop_plan){.from_event = FROM_EVENT,
                                     .end_event = FROM_EVENT + THREADS_MAX,
                                     .from_ns = FROM_NS,
                                     .until_ns = FROM_NS + LENGTH_NS,
                                     .rows = THREADS_MAX,
                                     .rows_cut = THREADS_MAX};
    world->plan.threads = world->threads;
    world->facts.threads = world->known;
    return world;
}

static void plan(struct thread_world *world, const uint32_t *players, size_t count) {
    assert_true(loop_threads_plan(&world->plan, &world->facts));
    assert_int_equal(world->plan.head_threads, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(world->threads[i].player, players[i]);
        if (players[i] != MATCH_NONE) assert_int_equal(world->threads[players[i]].plays, i);
    }
}

#define NO MATCH_NONE

static void by_rank_of_age(void **state) {
    (void)state;
    struct thread_world *world = begin();
    thread(world, "main", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", true, FROM_NS + 50);
    thread(world, "other", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", false, STAY);
    thread(world, "pool", false, FROM_NS + 70);
    thread(world, "pool", true, FROM_NS - 1);
    plan(world, (uint32_t[]){0, 1, 4, 3, 5, 6, NO, NO, NO}, 9);
    assert_int_equal(world->threads[2].kind, LOOP_THREAD_LEAVES);
    assert_int_equal(world->threads[7].kind, LOOP_THREAD_INSIDE);
    assert_int_equal(world->threads[8].kind, LOOP_THREAD_SILENT);
    assert_true(loop_thread_ends(&world->threads[2]) && loop_thread_ends(&world->threads[7]));
    assert_false(loop_thread_ends(&world->threads[6]));
    free(world);
}

static void surplus(void **state) {
    (void)state;
    struct thread_world *world = begin();
    thread(world, "a", true, FROM_NS + 1);
    thread(world, "a", true, FROM_NS + 2);
    thread(world, "b", true, STAY);
    thread(world, "a", false, STAY);
    thread(world, "b", false, STAY);
    // Of a, one that leaves has nobody to play it; of b, one that arrives has nobody to play.
    plan(world, (uint32_t[]){3, NO, 2, NO, NO}, 5);
    assert_true(loop_thread_ends(&world->threads[4]));
    assert_false(loop_thread_ends(&world->threads[3]));
    free(world);
}

// Of a pool of four, the oldest ends and a new one begins in each repetition: each thread lives for four repetitions.
static void lives(void **state) {
    (void)state;
    enum { POOL = 4, LOOPS = 10 };
    struct thread_world *world = begin();
    for (unsigned i = 0; i < POOL; i++) thread(world, "pool", true, i ? STAY : FROM_NS + 10);
    thread(world, "pool", false, STAY);
    plan(world, (uint32_t[]){1, 2, 3, 4, NO}, 5);
    world->plan.loops = LOOPS;
    world->plan.to_ns = FROM_NS + LENGTH_NS * (LOOPS + 1);
    size_t count;
    struct ht_thread *list = loop_threads_extended(&world->plan, &world->facts, &count);
    assert_non_null(list);
    assert_int_equal(count, POOL + 1 + LOOPS);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i].name, "pool");
        assert_int_equal(list[i].ended, i <= LOOPS);
        if (i) assert_true(list[i].end_ns >= list[i - 1].end_ns || !list[i].ended);
        if (i > POOL && list[i].ended)
            assert_int_equal(list[i].end_ns - list[i].start_ns, POOL * LENGTH_NS + 10 - POOL);
    }
    free(list);
    free(world);
}

// ---- slopes: right where there is one, and rarely seen where there is none, even if the level wanders ----

static double normal(uint64_t *seed) {
    double sum = 0;
    for (unsigned i = 0; i < 12; i++) sum += (double)(unit_random(seed) % 1000003) / 1000003;
    return sum - 6;
}

enum { SERIES = 500, FINE = 8 };

// A level that wanders, and comes back to 0 in so many steps (0: there is none), upon which each value has noise of that size
// (in parts of what the level scatters); a slope is a change over the whole series in parts of the whole scatter. Values are means.
struct series {
    size_t count;
    double back_steps, noise, slope;
};

static void draw(const struct series *series, double *values, uint64_t *seed) {
    double stays = series->back_steps > 0 ? exp(-1 / (series->back_steps * FINE)) : 0, level = normal(seed);
    double scatter = series->back_steps > 0 ? hypot(1, series->noise) : series->noise;
    for (size_t i = 0; i < series->count; i++) {
        double sum = 0;
        for (unsigned k = 0; k < FINE; k++) {
            sum += level / FINE;
            level = stays * level + sqrt(1 - stays * stays) * normal(seed);
        }
        if (series->back_steps <= 0) sum = 0;
        values[i] = 100 + sum + series->noise * normal(seed) +
                    series->slope * scatter * (double)i / (double)(series->count - 1);
    }
}

// In how many of SERIES a slope is seen, upwards.
static unsigned seen(struct series series) {
    uint64_t seed = 3;
    unsigned resolved = 0;
    for (unsigned i = 0; i < SERIES; i++) {
        double values[SLOPE_VALUES_MAX];
        draw(&series, values, &seed);
        struct slope fitted = slope_of(values, series.count);
        resolved += slope_resolved(&fitted) && (series.slope == 0 || fitted.step > 0);
    }
    return resolved;
}

// Of 500 in which there is none 25 are meant to be seen. A walk that does not come back looks at times as if it did.
static void what_wanders_has_no_slope(void **state) {
    (void)state;
    const size_t counts[] = {20, 32, 64};
    for (unsigned i = 0; i < 3; i++) {
        size_t n = counts[i];
        assert_true(seen((struct series){n, 0, 1, 0}) <= 25);
        assert_true(seen((struct series){n, 2, 0, 0}) <= 30);
        assert_true(seen((struct series){n, (double)n / 4, 0, 0}) <= 40);
        assert_true(seen((struct series){n, (double)n, 0, 0}) <= 60);
        // The noise hides that the level is alike from value to value.
        assert_true(seen((struct series){n, (double)n / 2, 1, 0}) <= 50);
        assert_true(seen((struct series){n, (double)n, 1, 0}) <= 60);
    }
}

static void a_slope_is_found(void **state) {
    (void)state;
    double line[20];
    for (unsigned i = 0; i < 20; i++) line[i] = 7 + 3 * i;
    struct slope slope = slope_of(line, 20);
    assert_true(fabs(slope.step - 3) < 1e-9 && slope.low <= 3 + 1e-9 && slope.high >= 3 - 1e-9);
    assert_true(fabs(slope.plain - 3) < 1e-9 && slope.plain_error < 1e-9);
    assert_true(fabs(slope.mean - 35.5) < 1e-9);
    for (unsigned i = 0; i < 20; i++) line[i] = 7;
    slope = slope_of(line, 20);
    assert_true(slope.low <= 0 && slope.high >= 0 && slope.high < 1e-9);
    assert_true(seen((struct series){64, 0, 1, 6}) > 450);
    assert_true(seen((struct series){64, 8, 1, 12}) > 450);
    assert_true(seen((struct series){32, 0, 1, 7}) > 450);
}

static void slopes_differ_where_they_do(void **state) {
    (void)state;
    struct slope flat = {.step = 0, .low = -1, .high = 1}, steep = {.step = 3, .low = 2, .high = 4},
                 near = {.step = 1, .low = 0, .high = 2};
    assert_true(slopes_differ(&flat, &steep) && slopes_differ(&steep, &flat));
    assert_false(slopes_differ(&flat, &near));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(age_decides_within_class_and_thread),
        cmocka_unit_test(what_is_oldest_and_stays_plays_itself),
        cmocka_unit_test(nothing_plays_another_kind),
        cmocka_unit_test(random_worlds_add_up),
        cmocka_unit_test(live_bytes_come_to_rest),
        cmocka_unit_test(growth_is_what_was_asked_for),
        cmocka_unit_test(classes_rise_with_sizes),
        cmocka_unit_test(by_rank_of_age),
        cmocka_unit_test(surplus),
        cmocka_unit_test(lives),
        cmocka_unit_test(what_wanders_has_no_slope),
        cmocka_unit_test(a_slope_is_found),
        cmocka_unit_test(slopes_differ_where_they_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
