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

// Of one allocator, over all rounds. low is NaN before the first.
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
    bool done = !json_is_string(problem) && !ht_child_interrupted();
    if (json_is_string(problem) && !ht_child_interrupted())
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
        if (failed && turn.who == HT_WHO_NULL) break;
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

// Whether the round is to be run; the least number of them is, whatever the budget.
static bool has_time(const struct ht_plan *plan, uint32_t round, uint64_t begun_ns) {
    return round < ROUNDS || !plan->budget_ns || ht_now_ns(CLOCK_MONOTONIC) - begun_ns < plan->budget_ns;
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
    uint64_t begun_ns = ht_now_ns(CLOCK_MONOTONIC);
    size_t failed = 0;
    r->repeats = plan->repeats ? plan->repeats : 1;
    for (size_t i = 0; i < HT_CHOICES_MAX; i++)
        figures[i] = (struct plain_figures){{NAN, NAN}, {NAN, NAN}, {NAN, NAN}, NULL};
    for (; round < rounds && !failed && !ht_child_interrupted() && has_time(plan, round, begun_ns); round++) {
        const struct ht_turn turn = {.round = round, .cpu = -1};
        if (plan->time_pass) {
            struct ht_turn flat = turn;
            flat.timed_follows = true;
            failed += run_pass(r, flat, HT_PASS_FLAT, figures);
            failed += run_pass(r, turn, HT_PASS_TIMED, figures);
        }
        if (plan->memory_pass) failed += run_pass(r, turn, HT_PASS_MEMORY, figures);
    }
    if (ht_child_interrupted()) say_stopped(plan, round);
    else print_ranges(r, figures);
    for (size_t i = 0; i < plan->choices.count; i++) {
        if (figures[i].calls && !ht_child_interrupted())
            print_calls(&plan->choices.list[i], figures[i].calls);
        json_decref(figures[i].calls);
    }
    return failed;
}
