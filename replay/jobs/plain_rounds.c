// SPDX-License-Identifier: Apache-2.0
#include "plain_rounds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "now.h"
#include "print.h"
#include "text_table.h"
#include "turns.h"

enum { ROUNDS = 3, CELL_BYTES = 64 };

// What one allocator showed, over all rounds. low is NaN before the first.
struct range {
    double low, high;
};

struct plain_figures {
    struct range time_ns, peak_bytes, end_bytes;
    json_t *calls;  // of the first round's time pass, as results have it
};

static void widen(struct range *range, const json_t *value) {
    if (!json_is_number(value)) return;
    range->low = fmin(range->low, json_number_value(value));
    range->high = fmax(range->high, json_number_value(value));
}

static void take(struct plain_figures *figures, const json_t *line) {
    widen(&figures->time_ns, json_object_get(line, "alloc_time_ns"));
    widen(&figures->peak_bytes, json_object_get(line, "rss_peak_bytes"));
    widen(&figures->end_bytes, json_object_get(line, "rss_end_bytes"));
    if (!figures->calls && !strcmp(json_string_value(json_object_get(line, "pass")), "time"))
        figures->calls = json_incref(json_object_get(line, "calls"));
}

// False: it failed, or somebody wants an end.
static bool run_turn(struct ht_runner *r, const struct ht_turn *turn, struct plain_figures *figures) {
    json_t *answer = json_object();
    const json_t *problem;
    ht_turn_run(r, turn, answer);
    problem = json_object_get(answer, "problem");
    bool done = !json_is_string(problem) && !ht_child_interrupted() && !r->channel.cut_short;
    if (json_is_string(problem) && !ht_child_interrupted() && !r->channel.cut_short)
        ht_print(stderr, "heaptape replay: %s, round %u: %s\n", ht_turn_choice(r, turn)->name,
                 turn->round + 1, json_string_value(problem));
    if (done && turn->who && json_is_object(json_object_get(answer, "line")))
        take(&figures[turn->who - 1], json_object_get(answer, "line"));
    json_decref(answer);
    return done;
}

static size_t run_pass(struct ht_runner *r, struct ht_turn turn, enum ht_pass pass,
                       struct plain_figures *figures) {
    size_t failed = 0;
    turn.pass = pass;
    for (turn.who = HT_WHO_NULL; turn.who <= r->plan->choices.count && !ht_child_interrupted(); turn.who++) {
        if (!run_turn(r, &turn, figures)) failed++;
        if (failed && (turn.who == HT_WHO_NULL || r->channel.cut_short)) break;
    }
    return failed;
}

// Returns how many runs failed.
static size_t run_round(struct ht_runner *r, uint32_t number, struct plain_figures *figures) {
    static const enum ht_pass passes[] = {HT_PASS_FLAT, HT_PASS_TIMED, HT_PASS_MEMORY};
    size_t failed = 0;
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !r->channel.cut_short; i++) {
        const struct ht_turn turn = {.round = number, .cpu = -1, .timed_follows = passes[i] == HT_PASS_FLAT};
        if (passes[i] == HT_PASS_MEMORY ? r->plan->memory_pass : r->plan->time_pass)
            failed += run_pass(r, turn, passes[i], figures);
    }
    return failed;
}

static const char *range_text(const struct range *range, double unit, const char *format,
                              char text[CELL_BYTES]) {
    if (isnan(range->low)) return "-";
    snprintf(text, CELL_BYTES, format, range->low / unit, range->high / unit);
    return text;
}

static void print_ranges(const struct ht_runner *r, const struct plain_figures *figures) {
    static struct ht_text_table table;
    char text[3][CELL_BYTES];
    ht_table_begin(&table, "lrrr", (const char *[]){"allocator", "time", "peak RSS", "RSS at end"});
    for (size_t i = 0; i < r->plan->choices.count; i++)
        ht_table_add(&table,
                     (const char *[]){r->plan->choices.list[i].name,
                                      range_text(&figures[i].time_ns, 1e6, "%.1f to %.1f ms", text[0]),
                                      range_text(&figures[i].peak_bytes, 1e6, "%.1f to %.1f MB", text[1]),
                                      range_text(&figures[i].end_bytes, 1e6, "%.1f to %.1f MB", text[2])});
    ht_table_print(stdout, &table);
}

// The shape of `ltrace -c`.
static void print_calls(const struct ht_choice *choice, json_t *calls) {
    static struct ht_text_table table;
    const char *name;
    json_t *call;
    double sum = 0;
    json_object_foreach(calls, name, call) sum += json_number_value(json_object_get(call, "time_ns"));
    ht_table_begin(&table, "rrrrl", (const char *[]){"% time", "seconds", "ns/call", "calls", "function"});
    json_object_foreach(calls, name, call) {
        char text[4][CELL_BYTES];
        double ns = json_number_value(json_object_get(call, "time_ns"));
        double count = json_number_value(json_object_get(call, "count"));
        snprintf(text[0], CELL_BYTES, "%.2f", sum > 0 ? 100 * ns / sum : 0);
        snprintf(text[1], CELL_BYTES, "%.6f", ns / 1e9);
        snprintf(text[2], CELL_BYTES, "%.1f", ns / count);
        snprintf(text[3], CELL_BYTES, "%.0f", count);
        ht_table_add(&table, (const char *[]){text[0], text[1], text[2], text[3], name});
    }
    printf("\n%s\n", choice->name);
    ht_table_print(stdout, &table);
}

// Whether a round of that length ends in time, after so many. The first is begun in any case.
static bool has_time(const struct ht_plan *plan, uint32_t rounds, uint64_t round_ns) {
    uint64_t budget_ns = rounds < ROUNDS ? plan->latest_ns : plan->budget_ns;
    return !rounds || !plan->budget_ns || ht_now_ns(CLOCK_MONOTONIC) - plan->begun_ns + round_ns <= budget_ns;
}

static void say_cut_short(const struct ht_plan *plan) {
    ht_print(stderr,
             "heaptape replay: a round takes more than --budget %.0fs allows: use more, fewer allocators or "
             "one --pass\n",
             ceil((double)plan->budget_ns / 1e9));
}

static void say_stopped(const struct ht_plan *plan, uint32_t round) {
    ht_print(stderr, "heaptape replay: stopped in round %u%s%s\n", round,
             plan->results_path ? "; completed runs are in " : "",
             plan->results_path ? plan->results_path : "");
}

size_t ht_plain_rounds(struct ht_runner *r) {
    const struct ht_plan *plan = r->plan;
    static struct plain_figures figures[HT_CHOICES_MAX];
    uint32_t rounds = plan->rounds ? plan->rounds : ROUNDS, round = 0;
    uint64_t round_ns = 0;
    size_t failed = 0;
    r->repeats = plan->repeats ? plan->repeats : 1;
    for (size_t i = 0; i < HT_CHOICES_MAX; i++)
        figures[i] = (struct plain_figures){{NAN, NAN}, {NAN, NAN}, {NAN, NAN}, NULL};
    if (plan->budget_given) r->channel.watch.deadline_ns = plan->begun_ns + plan->latest_ns;
    for (; round < rounds && !failed && !ht_child_interrupted() && has_time(plan, round, round_ns); round++) {
        uint64_t begun_ns = ht_now_ns(CLOCK_MONOTONIC);
        failed += run_round(r, round, figures);
        round_ns = ht_now_ns(CLOCK_MONOTONIC) - begun_ns;
    }
    if (r->channel.cut_short && round == 1) say_cut_short(plan);
    else if (r->channel.cut_short) failed = 0;  // the rounds before hold
    if (ht_child_interrupted()) say_stopped(plan, round);
    else print_ranges(r, figures);
    for (size_t i = 0; i < plan->choices.count; i++) {
        if (figures[i].calls && !ht_child_interrupted())
            print_calls(&plan->choices.list[i], figures[i].calls);
        json_decref(figures[i].calls);
    }
    return failed;
}
