// SPDX-License-Identifier: Apache-2.0
// Who runs when and when it ends, with an executor that runs nothing and has a clock of its own.
#include "unit_support.h"

#include <string.h>

#include "schedule.h"

enum { TURNS_MAX = 100000 };

struct mock {
    struct ht_turn turns[TURNS_MAX];
    size_t count;
    uint64_t clock_ns, turn_ns;
    uint32_t time_resolved_at, memory_resolved_at;  // rounds; 0: never
    uint32_t interims[64], interims_count;
    size_t fail_at;  // turns; 0: never
};

static bool take_turn(void *context, const struct ht_turn *turn) {
    struct mock *mock = context;
    assert_true(mock->count < TURNS_MAX);
    mock->turns[mock->count++] = *turn;
    mock->clock_ns += mock->turn_ns;
    return mock->count != mock->fail_at;
}

static void analyse_interim(void *context, uint32_t rounds, bool *time_open, bool *memory_open) {
    struct mock *mock = context;
    assert_true(mock->interims_count < 64);
    mock->interims[mock->interims_count++] = rounds;
    *time_open = !mock->time_resolved_at || rounds < mock->time_resolved_at;
    *memory_open = !mock->memory_resolved_at || rounds < mock->memory_resolved_at;
}

static uint64_t mock_now_ns(void *context) { return ((struct mock *)context)->clock_ns; }

static struct mock mock;

static enum ht_schedule_end run(const struct ht_schedule *schedule, uint64_t seed, uint32_t *rounds) {
    struct ht_random random = {seed};
    struct ht_executor executor = {&mock, take_turn, analyse_interim, mock_now_ns};
    return ht_schedule_run(schedule, &random, &executor, rounds);
}

static struct ht_schedule both_passes(uint32_t rounds) {
    return (struct ht_schedule){
        .choices = 3, .rounds = rounds, .time_pass = true, .memory_pass = true, .control = true};
}

static int clear(void **state) {
    (void)state;
    memset(&mock, 0, sizeof mock);
    mock.turn_ns = 1000;
    return 0;
}

// How many turns of a pass somebody had in the round.
static int turns_of(uint32_t round, uint32_t who, enum ht_pass pass) {
    int found = 0;
    for (size_t i = 0; i < mock.count; i++) {
        const struct ht_turn *turn = &mock.turns[i];
        found += !turn->warm_up && turn->round == round && turn->who == who && turn->pass == pass;
    }
    return found;
}

static void everybody_runs_once_in_each_pass_of_a_round(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(20);
    uint32_t rounds;
    assert_int_equal(run(&schedule, 1, &rounds), HT_END_ROUNDS);
    assert_int_equal(rounds, 20);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t who = 0; who <= 4; who++) {
            assert_int_equal(turns_of(round, who, HT_PASS_FLAT), 1);
            assert_int_equal(turns_of(round, who, HT_PASS_TIMED), 1);
            assert_int_equal(turns_of(round, who, HT_PASS_MEMORY), 1);
        }
    }
    assert_int_equal(mock.count, 4 + 20 * 3 * 5);  // the warm-up leaves the control out
    assert_int_equal(mock.interims_count, 0);
}

static void the_null_replayer_comes_first_and_the_rest_in_changing_order(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(200);
    uint32_t rounds;
    int second[5] = {0};
    run(&schedule, 2, &rounds);
    for (size_t i = 4; i < mock.count; i += 5) {
        assert_int_equal(mock.turns[i].who, HT_WHO_NULL);
        if (mock.turns[i].pass == HT_PASS_FLAT) second[mock.turns[i + 1].who]++;
        // All passes of a round keep its order.
        if (mock.turns[i].pass != HT_PASS_FLAT) {
            for (size_t k = 0; k < 5; k++) assert_int_equal(mock.turns[i + k].who, mock.turns[i + k - 5].who);
        }
    }
    for (int who = 1; who <= 4; who++) assert_in_range(second[who], 30, 70);
}

static void a_seed_repeats_its_schedule(void **state) {
    (void)state;
    static struct ht_turn first[TURNS_MAX];
    struct ht_schedule schedule = both_passes(10);
    uint32_t rounds;
    run(&schedule, 3, &rounds);
    size_t count = mock.count;
    memcpy(first, mock.turns, count * sizeof *first);
    clear(NULL);
    run(&schedule, 3, &rounds);
    assert_int_equal(mock.count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(mock.turns[i].who, first[i].who);
}

static void a_round_is_pinned_to_one_of_the_processors(void **state) {
    (void)state;
    const int cpus[] = {3, 7};
    struct ht_schedule schedule = both_passes(100);
    uint32_t rounds, on_3 = 0;
    schedule.cpus = cpus;
    schedule.cpus_count = 2;
    run(&schedule, 4, &rounds);
    for (size_t i = 4; i < mock.count; i++) {
        const struct ht_turn *turn = &mock.turns[i], *first = &mock.turns[i - (i - 4) % 15];
        if (turn->pass == HT_PASS_MEMORY) {
            assert_int_equal(turn->cpu, -1);
            continue;
        }
        assert_true(turn->cpu == 3 || turn->cpu == 7);
        assert_int_equal(turn->cpu, first->cpu);
        on_3 += turn == first && turn->cpu == 3;
    }
    assert_in_range(on_3, 30, 70);
    clear(NULL);
    schedule.cpus_count = 0;
    run(&schedule, 4, &rounds);
    assert_int_equal(mock.turns[0].cpu, -1);
}

static void interim_analyses_are_far_between_and_end_it(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(0);
    uint32_t rounds;
    mock.time_resolved_at = mock.memory_resolved_at = 20;
    assert_int_equal(run(&schedule, 5, &rounds), HT_END_RESOLVED);
    assert_int_equal(rounds, 27);
    const uint32_t expected[] = {8, 12, 18, 27};
    assert_int_equal(mock.interims_count, 4);
    assert_memory_equal(mock.interims, expected, sizeof expected);
}

static void a_resolved_pass_runs_no_more(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(0);
    uint32_t rounds;
    mock.time_resolved_at = 30;
    mock.memory_resolved_at = 8;
    assert_int_equal(run(&schedule, 6, &rounds), HT_END_RESOLVED);
    assert_int_equal(rounds, 40);
    assert_int_equal(turns_of(7, 1, HT_PASS_MEMORY), 1);
    assert_int_equal(turns_of(8, 1, HT_PASS_MEMORY), 0);
    assert_int_equal(turns_of(39, 1, HT_PASS_FLAT), 1);
    // The timed pass decides nothing and ends, too.
    assert_int_equal(turns_of(HT_ROUNDS_TIMED - 1, 1, HT_PASS_TIMED), 1);
    assert_int_equal(turns_of(HT_ROUNDS_TIMED, 1, HT_PASS_TIMED), 0);
}

static void the_budget_ends_between_rounds(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(0);
    uint32_t rounds;
    // 15 turns a round, later 10, and 4 of the warm-up: what would end too late is not begun.
    schedule.budget_ns = 1000 * 200;
    assert_int_equal(run(&schedule, 7, &rounds), HT_END_BUDGET);
    assert_int_equal(rounds, 8 + (200 - 4 - 8 * 15) / 10);
    assert_true(mock.clock_ns <= schedule.budget_ns);
    assert_int_equal(mock.count, 4 + 8 * 15 + (rounds - 8) * 10);
}

static void some_rounds_always_run(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(0);
    uint32_t rounds;
    schedule.budget_ns = 1;
    assert_int_equal(run(&schedule, 8, &rounds), HT_END_BUDGET);
    assert_int_equal(rounds, HT_ROUNDS_MIN);
    clear(NULL);
    schedule.rounds = 2;
    assert_int_equal(run(&schedule, 8, &rounds), HT_END_ROUNDS);
    assert_int_equal(rounds, 2);
    clear(NULL);
    schedule.rounds = 50;
    assert_int_equal(run(&schedule, 8, &rounds), HT_END_BUDGET);
    assert_int_equal(rounds, HT_ROUNDS_MIN);
}

static void it_ends_where_the_executor_wants(void **state) {
    (void)state;
    struct ht_schedule schedule = both_passes(10);
    uint32_t rounds;
    mock.fail_at = 4 + 2 * 15 + 3;
    assert_int_equal(run(&schedule, 9, &rounds), HT_END_EARLY);
    assert_int_equal(rounds, 2);
    assert_int_equal(mock.count, mock.fail_at);
    clear(NULL);
    mock.fail_at = 1;
    assert_int_equal(run(&schedule, 9, &rounds), HT_END_EARLY);
    assert_int_equal(rounds, 0);
}

static void one_pass_alone(void **state) {
    (void)state;
    struct ht_schedule schedule = {.rounds = 2, .memory_pass = true};
    uint32_t rounds;
    run(&schedule, 10, &rounds);
    assert_int_equal(mock.count, 3);
    for (size_t i = 0; i < mock.count; i++) assert_int_equal(mock.turns[i].pass, HT_PASS_MEMORY);
    clear(NULL);
    schedule = (struct ht_schedule){.choices = 1, .rounds = 2, .time_pass = true};
    run(&schedule, 10, &rounds);
    assert_int_equal(mock.count, 2 + 2 * 2 * 2);
    assert_int_equal(mock.turns[2].timed_follows, true);
    assert_int_equal(turns_of(0, 1, HT_PASS_TIMED), 1);
}

#define TEST(name) cmocka_unit_test_setup(name, clear)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(everybody_runs_once_in_each_pass_of_a_round),
        TEST(the_null_replayer_comes_first_and_the_rest_in_changing_order),
        TEST(a_seed_repeats_its_schedule),
        TEST(a_round_is_pinned_to_one_of_the_processors),
        TEST(interim_analyses_are_far_between_and_end_it),
        TEST(a_resolved_pass_runs_no_more),
        TEST(the_budget_ends_between_rounds),
        TEST(some_rounds_always_run),
        TEST(it_ends_where_the_executor_wants),
        TEST(one_pass_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
