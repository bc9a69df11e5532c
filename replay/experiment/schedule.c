// SPDX-License-Identifier: Apache-2.0
#include "schedule.h"

#include <assert.h>

#include "allocator_choice.h"

enum { PARTICIPANTS_MAX = HT_CHOICES_MAX + 2 };

struct rounds {
    const struct ht_schedule *schedule;
    const struct ht_executor *executor;
    struct ht_random *random;
    uint32_t order[PARTICIPANTS_MAX], participants;  // of the round that runs, the null replayer first
    bool time_open, memory_open;
    uint64_t begun_ns, round_ns;  // of the whole, of the last round
};

// After how many rounds the next interim analysis is, when one was made after `rounds`: half as many again.
static uint32_t next_interim_after(uint32_t rounds) {
    return rounds < HT_ROUNDS_INTERIM ? HT_ROUNDS_INTERIM : rounds + rounds / 2;
}

static void draw_order(struct rounds *rounds, bool control) {
    uint32_t others = rounds->schedule->choices + control;
    assert(others + 1 <= PARTICIPANTS_MAX);
    ht_random_order(rounds->random, rounds->order + 1, others);
    for (uint32_t i = 1; i <= others; i++) rounds->order[i]++;
    rounds->order[0] = HT_WHO_NULL;
    rounds->participants = others + 1;
}

static bool run_pass(const struct rounds *rounds, struct ht_turn turn, enum ht_pass pass) {
    turn.pass = pass;
    for (uint32_t i = 0; i < rounds->participants; i++) {
        turn.who = rounds->order[i];
        if (!rounds->executor->turn(rounds->executor->context, &turn)) return false;
    }
    return true;
}

static int draw_cpu(const struct rounds *rounds) {
    uint32_t count = rounds->schedule->cpus_count;
    return count ? rounds->schedule->cpus[ht_random_below(rounds->random, count)] : -1;
}

// What is on disk and the clock of the processor are as they will be; how long a run takes becomes known.
static bool warm_up(struct rounds *rounds) {
    struct ht_turn turn = {.warm_up = true, .cpu = draw_cpu(rounds)};
    draw_order(rounds, false);
    return run_pass(rounds, turn, rounds->schedule->time_pass ? HT_PASS_FLAT : HT_PASS_MEMORY);
}

static bool run_round(struct rounds *rounds, uint32_t round) {
    const struct ht_schedule *schedule = rounds->schedule;
    bool timed = schedule->rounds || schedule->timed_always || round < HT_ROUNDS_TIMED;
    struct ht_turn turn = {.round = round, .cpu = draw_cpu(rounds)};
    draw_order(rounds, schedule->control);
    if (rounds->time_open) {
        turn.timed_follows = timed;
        if (!run_pass(rounds, turn, HT_PASS_FLAT)) return false;
        turn.timed_follows = false;
        if (timed && !run_pass(rounds, turn, HT_PASS_TIMED)) return false;
    }
    turn.cpu = -1;  // where memory comes to lie does not hang on the processor, but threads of the
                    // allocator's own may
    return !rounds->memory_open || run_pass(rounds, turn, HT_PASS_MEMORY);
}

// A round that would not end within the budget is not begun.
static bool budget_spent(const struct rounds *rounds, uint32_t done) {
    uint64_t budget_ns = rounds->schedule->budget_ns;
    if (!budget_ns || done < HT_ROUNDS_MIN) return false;
    uint64_t spent_ns = rounds->executor->now_ns(rounds->executor->context) - rounds->begun_ns;
    return spent_ns + rounds->round_ns > budget_ns;
}

// A pass whose figures are resolved is not run again.
static void analyse_interim(struct rounds *rounds, uint32_t done) {
    bool time_open = false, memory_open = false;
    rounds->executor->interim(rounds->executor->context, done, &time_open, &memory_open);
    rounds->time_open = rounds->time_open && time_open;
    rounds->memory_open = rounds->memory_open && memory_open;
}

enum ht_schedule_end ht_schedule_run(const struct ht_schedule *schedule, struct ht_random *random,
                                     const struct ht_executor *executor, uint32_t *done) {
    struct rounds rounds = {.schedule = schedule,
                            .executor = executor,
                            .random = random,
                            .time_open = schedule->time_pass,
                            .memory_open = schedule->memory_pass,
                            .begun_ns = executor->now_ns(executor->context)};
    uint32_t next_interim = HT_ROUNDS_INTERIM;
    *done = 0;
    if (!warm_up(&rounds)) return HT_END_EARLY;
    for (;;) {
        uint64_t begun_ns = executor->now_ns(executor->context);
        if (!run_round(&rounds, *done)) return HT_END_EARLY;
        ++*done;
        rounds.round_ns = executor->now_ns(executor->context) - begun_ns;
        if (schedule->rounds && *done == schedule->rounds) return HT_END_ROUNDS;
        if (!schedule->rounds && *done == next_interim) {
            analyse_interim(&rounds, *done);
            if (!rounds.time_open && !rounds.memory_open) return HT_END_RESOLVED;
            next_interim = next_interim_after(*done);
        }
        if (budget_spent(&rounds, *done)) return HT_END_BUDGET;
    }
}
