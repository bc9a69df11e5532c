// SPDX-License-Identifier: Apache-2.0
// Who plays whom when a stretch is repeated: always a rule of one to one, by class and age, that adds up.
#include "unit_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "block_matching.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(age_decides_within_class_and_thread),
        cmocka_unit_test(what_is_oldest_and_stays_plays_itself),
        cmocka_unit_test(nothing_plays_another_kind),
        cmocka_unit_test(random_worlds_add_up),
        cmocka_unit_test(live_bytes_come_to_rest),
        cmocka_unit_test(growth_is_what_was_asked_for),
        cmocka_unit_test(classes_rise_with_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
