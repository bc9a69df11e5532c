// SPDX-License-Identifier: Apache-2.0
#include "experiment.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "figure_passes.h"
#include "known_faults.h"
#include "now.h"
#include "print.h"
#include "results_line.h"
#include "round_time.h"
#include "talk.h"

// A hundred times what reading the clock costs. Not more: repeats find the heap warm, which is not what the
// program paid, and of two runs of 5 ms one learns more than of one of 100 ms (docs/method/experiment.md).
static const uint64_t run_cpu_ns = 100000;

static uint64_t schedule_now_ns(void *context) {
    (void)context;
    return ht_now_ns(CLOCK_MONOTONIC);
}

static bool is_control(const struct ht_experiment *x, uint32_t who) {
    return who == x->plan->choices.count + 1;
}

static const struct ht_choice *choice_of(const struct ht_experiment *x, uint32_t who) {
    if (who == HT_WHO_NULL) return x->null_choice;
    return &x->plan->choices.list[is_control(x, who) ? x->baseline : who - 1];
}

static bool knobs_heeded(const struct ht_choice *choice, char *problem, size_t room) {
    char mismatch[HT_KNOB_PROBLEM_BYTES];
    if (choice->knobs.count && choice->kind != choice->knobs.kind) {
        snprintf(problem, room, "unknown knobs: it is not %s, though its file name says so",
                 choice->knobs.kind->name);
        return false;
    }
    if (ht_knob_choices_heeded(&choice->knobs, choice->version, choice->reported, mismatch)) return true;
    snprintf(problem, room, "%s", mismatch);
    return false;
}

static bool describe(struct ht_experiment *x, struct ht_choice *choice, char *problem, size_t room) {
    struct ht_job job = ht_experiment_job(x, HT_PASS_DESCRIBE);
    if (!ht_child_run(&x->channel, choice, &job, -1, &x->random, problem, room)) return false;
    const struct ht_outcome *outcome = &x->channel.exchange->outcome;
    char *path = realpath(outcome->path, NULL);
    snprintf(choice->path, sizeof choice->path, "%s", path ? path : outcome->path);
    snprintf(choice->version, sizeof choice->version, "%s", outcome->version);
    choice->skips_queries = outcome->skips_queries;
    choice->lacks_operators = outcome->lacks_operators;
    choice->refused = outcome->refused;
    snprintf(choice->build_id, sizeof choice->build_id, "%s", outcome->build_id);
    free(path);
    choice->kind = ht_allocator_named(outcome->kind);
    memcpy(choice->reported, x->channel.exchange->figures.knobs, sizeof choice->reported);
    return knobs_heeded(choice, problem, room);
}

// Which kind a library is of may only be known once it runs.
bool ht_experiment_describe(struct ht_experiment *x, struct ht_choice *choice, char *problem, size_t room) {
    const struct ht_allocator *before = choice->kind;
    if (x->settings) ht_choice_take_settings(choice, x->settings);
    if (!describe(x, choice, problem, room)) return false;
    if (!x->settings || choice->kind == before || !ht_choice_take_settings(choice, x->settings)) return true;
    return describe(x, choice, problem, room);
}

// Memory does not depend on where the replay's own code lies.
static uint32_t layout_of(const struct ht_experiment *x, const struct ht_turn *turn) {
    return turn->warm_up || turn->pass == HT_PASS_MEMORY ? 0 : x->runs[turn->who].layout;
}

// Memory in the first round is always that of the same addresses, so that an experiment of one round repeats.
static bool addresses_fixed(const struct ht_experiment *x, const struct ht_turn *turn) {
    return x->plan->layout_fixed || (turn->pass == HT_PASS_MEMORY && turn->round == 0);
}

// Whether its warm-up hung, and so would the first round. A later round tries again.
static bool known_to_hang(struct ht_experiment *x, const struct ht_turn *turn, char *problem, size_t room) {
    const char *hung = ht_choice_figures_of(x, choice_of(x, turn->who))->hung;
    if (turn->warm_up || turn->round > 0 || !hung[0]) return false;
    snprintf(problem, room, "%s", hung);
    memset(&x->channel.exchange->outcome, 0, sizeof x->channel.exchange->outcome);
    memset(&x->channel.exchange->figures, 0, sizeof x->channel.exchange->figures);
    return true;
}

// Runs the turn's child. What it reported is in the channel until the next one runs.
static bool run_child(struct ht_experiment *x, const struct ht_turn *turn, char *problem, size_t room) {
    char text[HT_NUMBER_OF_BYTES];
    if (known_to_hang(x, turn, problem, room)) return false;
    struct ht_job job = ht_experiment_job(x, turn->pass);
    job.layout = layout_of(x, turn);
    job.fixed_addresses = addresses_fixed(x, turn);
    struct ht_random same = {1}, *padding = job.fixed_addresses ? &same : &x->random;
    if (!ht_child_run(&x->channel, choice_of(x, turn->who), &job, turn->cpu, padding, problem, room)) {
        return false;
    }
    const struct ht_outcome *outcome = &x->channel.exchange->outcome;
    uint64_t expected = x->built->form->operations * x->built->side_by_side * job.repeats;
    if (outcome->operations != expected) {
        snprintf(problem, room, "replayed %llu of %s", (unsigned long long)outcome->operations,
                 ht_number_of(text, expected, "operation"));
        return false;
    }
    if (turn->pass == HT_PASS_MEMORY && outcome->samples_taken != x->built->form->samples) {
        snprintf(problem, room, "read RSS at %llu of %s", (unsigned long long)outcome->samples_taken,
                 ht_number_of(text, x->built->form->samples, "moment"));
        return false;
    }
    ht_known_faults_warn(&x->warnings, choice_of(x, turn->who), outcome->known_failures);
    return true;
}

// The control's failures are the baseline's.
static struct ht_failing_runs *failing_of(struct ht_experiment *x, uint32_t who) {
    if (who == HT_WHO_NULL) return &x->null_failing;
    return &x->failing[is_control(x, who) ? x->baseline : who - 1];
}

static void print_problem(struct ht_experiment *x, const struct ht_run_result *line, bool given_up) {
    ht_progress_end(&x->progress);
    x->failed_runs++;
    if (line->choice->refused_calls) return;  // that was said before the first round
    ht_print(stderr, "heaptape replay: %s, round %u, %s pass: %s\n", line->choice->name, line->round + 1,
             line->memory_pass ? "memory" : "time", line->problem);
    if (!given_up || x->plan->rounds == line->round + 1) return;
    ht_print(stderr, "heaptape replay: %s failed in %d rounds in a row: no more runs of it\n",
             line->choice->name, HT_FAILING_ROUNDS_MAX);
}

void ht_experiment_keep(struct ht_experiment *x, struct ht_run_result *line) {
    line->plan = x->plan;
    line->built = x->built;
    line->machine = &x->machine;
    line->thp = x->huge_pages.mode;
    line->trace_sha256 = x->trace_sha256;
    line->program = x->program;
    line->own_bytes = x->own_bytes;
    if (x->results_fd < 0 || ht_child_interrupted()) return;
    if (ht_results_line_write(x->results_fd, line) && !x->results_failed) {
        ht_progress_end(&x->progress);
        ht_print(stderr, "heaptape replay: %s: a result cannot be written: %s\n", x->plan->results_path,
                 strerror(errno));
        x->results_failed = true;
    }
}

// Keeps a result, and says in one line what went wrong with it.
static void keep(struct ht_experiment *x, struct ht_run_result *line, const struct ht_turn *turn) {
    line->choice = choice_of(x, turn->who);
    line->control = is_control(x, turn->who);
    line->round = turn->round;
    if (turn->round == 0 && !line->control) line->of_choice = ht_choice_figures_of(x, line->choice);
    line->cpu = turn->cpu;
    line->layout = layout_of(x, turn);
    line->fixed_addresses = addresses_fixed(x, turn);
    line->memory_pass = turn->pass == HT_PASS_MEMORY;
    if (!ht_child_interrupted()) {
        bool given_up = ht_failing_runs_note(failing_of(x, turn->who), line->round, line->problem);
        if (line->problem) print_problem(x, line, given_up);
    }
    ht_experiment_keep(x, line);
}

// From here on one repeat stands for all.
static void divide_by_repeats(struct ht_outcome *flat, uint64_t repeats) {
    flat->cpu_ns /= repeats;
    flat->wait_ns /= repeats;
    flat->wall_ns /= repeats;
    flat->background_cpu_ns /= repeats;
    flat->minor_faults /= repeats;
    flat->major_faults /= repeats;
}

// All of the time pass has run, or failed.
static void finish_time(struct ht_experiment *x, const struct ht_turn *turn) {
    struct ht_round_run *run = &x->runs[turn->who], *null_run = &x->runs[HT_WHO_NULL];
    struct ht_cell *cell = ht_cell_of(&x->measurements, turn->round, turn->who);
    struct ht_run_result line = {
        .outcome = &run->flat,
        .repeats = x->repeats,
        .instructions = turn->who ? x->instructions[choice_of(x, turn->who) - x->plan->choices.list] : NAN,
        .load = run->load,
        .started_realtime_ns = run->started_realtime_ns};
    cell->time_ok = !run->failed;
    if (cell->time_ok) {
        ht_time_figures(x->built, &run->flat, &run->timed, &null_run->flat, &null_run->timed,
                        ht_pollutes(&x->plan->pollution), &cell->time);
        cell->faults = (double)(run->flat.minor_faults + run->flat.major_faults);
        x->readings_taken += run->timed.taken;
        x->readings_dropped += run->timed.dropped;
        line.time = &cell->time;
        line.counters = &cell->counters;
        line.latencies = run->latencies;
    } else {
        line.problem = run->problem;
    }
    keep(x, &line, turn);
}

static void flat_turn(struct ht_experiment *x, const struct ht_turn *turn) {
    struct ht_round_run *run = &x->runs[turn->who];
    memset(run, 0, sizeof *run);
    run->timed.ns_per_tick = NAN;
    run->layout = x->plan->layout_fixed ? 0 : ht_random_below(&x->random, HT_LAYOUTS);
    run->load = ht_machine_load();
    run->started_realtime_ns = ht_now_ns(CLOCK_REALTIME);
    run->failed = !run_child(x, turn, run->problem, sizeof run->problem);
    run->flat = x->channel.exchange->outcome;
    divide_by_repeats(&run->flat, x->repeats);
    ht_figures_of_flat(x, turn);
    if (!turn->timed_follows) finish_time(x, turn);
}

static void timed_turn(struct ht_experiment *x, const struct ht_turn *turn) {
    struct ht_round_run *run = &x->runs[turn->who];
    struct ht_latencies latencies = {0};
    if (!run->failed) {
        run->failed = !run_child(x, turn, run->problem, sizeof run->problem);
        if (run->failed) run->flat = x->channel.exchange->outcome;  // whose failures are reported
        else ht_timed_readings_sum(x->built, x->channel.readings, &x->channel.exchange->outcome, &run->timed);
    }
    if (!run->failed && ht_figures_of_timed(x, turn, &latencies)) run->latencies = &latencies;
    finish_time(x, turn);
    run->latencies = NULL;
    ht_latencies_free(&latencies);
}

// Trace time reaches the cycle counter only where its readings are caught, which is too dear where time is
// taken.
static void warn_of_cycle_counter(struct ht_experiment *x, const struct ht_turn *turn,
                                  const struct ht_outcome *outcome) {
    if (turn->round > 0 || is_control(x, turn->who) || !outcome->cycle_counter_reader[0]) return;
    if (!x->plan->time_pass || !x->plan->paces.time.virtual_time) return;
    ht_warn(&x->warnings, HT_WARNING_CYCLE_COUNTER, "for the time pass use --pace time=real",
            "%s reads the cycle counter (in %s): virtual time reaches it in the memory pass only",
            choice_of(x, turn->who)->name, outcome->cycle_counter_reader);
}

static double known_count(uint64_t count) { return count == HT_FIGURE_UNKNOWN ? NAN : (double)count; }

static void take_arenas(const struct ht_experiment *x, struct ht_cell *cell) {
    const struct ht_arena_counts *counts = &x->channel.exchange->figures.arenas;
    cell->arenas = (struct ht_arena_figures){known_count(counts->used), known_count(counts->most)};
    cell->processors_asked = x->channel.processors_asked;
}

// Is a replay by this plan the program as it was recorded, under the allocator that served it?
static bool is_as_recorded(const struct ht_experiment *x, uint32_t who) {
    return who != HT_WHO_NULL && !is_control(x, who) && x->plan->touch == HT_TOUCH_RECORDED &&
           !x->plan->purge_ns &&
           ht_recorded_served(x->program, choice_of(x, who)->name, choice_of(x, who)->version);
}

static void memory_turn(struct ht_experiment *x, const struct ht_turn *turn) {
    char problem[512] = "";
    bool own = turn->who == HT_WHO_NULL;
    struct ht_cell *cell = ht_cell_of(&x->measurements, turn->round, turn->who);
    struct ht_run_result line = {.repeats = 1,
                                 .instructions = NAN,
                                 .load = ht_machine_load(),
                                 .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
    cell->memory_ok = run_child(x, turn, problem, sizeof problem);
    struct ht_outcome outcome = x->channel.exchange->outcome;
    line.outcome = &outcome;
    const struct ht_rss_samples rss = {x->channel.rss_bytes, x->channel.high_bytes};
    if (cell->memory_ok &&
        !ht_memory_figures(x->built, &outcome, rss, own ? NULL : &x->null_memory,
                           own ? NULL : x->null_rss_bytes, own ? NULL : x->own_bytes, &cell->memory)) {
        snprintf(problem, sizeof problem, "no memory for its figures");
        cell->memory_ok = false;
    }
    if (cell->memory_ok && own) {
        x->null_memory = outcome;
        memcpy(x->null_rss_bytes, x->channel.rss_bytes, x->built->form->samples * sizeof(uint64_t));
    }
    cell->check = ht_baseline_unchecked;
    if (cell->memory_ok && is_as_recorded(x, turn->who)) {
        cell->check =
            ht_baseline_check(x->program, x->built, cell->memory.rss_bytes,
                              cell->memory.rss_between_calls_peak_bytes, cell->memory.rss_end_bytes);
        line.check = &cell->check;
    }
    if (cell->memory_ok) {
        warn_of_cycle_counter(x, turn, &outcome);
        cell->memory.watched = x->channel.exchange->figures.watched;
        cell->memory.watch_refusal = x->channel.exchange->figures.watch_refusal;
        line.memory = &cell->memory;
        take_arenas(x, cell);
        line.leftovers = &cell->leftovers;
        line.arenas = &cell->arenas;
        line.processors_asked = cell->processors_asked;
        line.memory_figures = &x->channel.exchange->figures;
        if (ht_figures_of_memory(x, turn)) line.decomposition = &cell->decomposition;
        if (!x->plan->time_pass) cell->faults = (double)(outcome.minor_faults + outcome.major_faults);
    } else {
        line.problem = problem;
    }
    keep(x, &line, turn);
    free(cell->memory.rss_bytes);
    cell->memory.rss_bytes = cell->memory.high_bytes = NULL;
}

static void note_warm_up(struct ht_experiment *x, const struct ht_turn *turn) {
    const struct ht_outcome *outcome = &x->channel.exchange->outcome;
    if (turn->who == HT_WHO_NULL && x->plan->choices.count > 0) return;
    if (!x->fastest_cpu_ns || outcome->cpu_ns < x->fastest_cpu_ns) x->fastest_cpu_ns = outcome->cpu_ns;
}

// What fails here fails again in the first round, and is reported there.
static void warm_up_turn(struct ht_experiment *x, const struct ht_turn *turn) {
    char problem[512];
    const char *wrap = x->channel.wrap;
    x->channel.wrap = NULL;  // who counts or profiles wants the runs that count
    // RSS does not hang on what is warm: without a time pass the figure passes, which are whole replays, are all.
    bool done = turn->pass != HT_PASS_FLAT || run_child(x, turn, problem, sizeof problem);
    if (!done) ht_note_hung(x, choice_of(x, turn->who), problem);
    if (done && turn->pass == HT_PASS_FLAT) note_warm_up(x, turn);
    if (done) ht_figure_passes(x, choice_of(x, turn->who));
    x->channel.wrap = wrap;
}

static uint32_t choose_repeats(struct ht_experiment *x) {
    uint32_t asked = x->plan->repeats;
    if (x->plan->paces.time.real_ns_per_trace_ns > 0 || x->built->form->streamed || x->built->before) {
        if (asked > 1) {
            ht_warn(
                &x->warnings, HT_WARNING_NO_REPEATS, "--pace virtual, or more --decoded-memory",
                "a run replays a trace only once where it waits for the clock, decodes on the way or begins with a prelude");
        }
        return 1;
    }
    if (asked || !x->fastest_cpu_ns || x->fastest_cpu_ns >= run_cpu_ns) return asked ? asked : 1;
    uint64_t repeats = (run_cpu_ns + x->fastest_cpu_ns - 1) / x->fastest_cpu_ns;
    return repeats < HT_REPEATS_MAX ? (uint32_t)repeats : HT_REPEATS_MAX;
}

// Room for the round's cells, all of them empty.
static bool begin_round(struct ht_experiment *x, uint32_t round) {
    struct ht_measurements *m = &x->measurements;
    size_t stride = m->choices + 2;
    if (round < m->rounds) return true;
    x->round_begun_ns = ht_now_ns(CLOCK_MONOTONIC);
    if (round <= 1) ht_report_if_late(x, round);
    if (!x->repeats) x->repeats = choose_repeats(x);
    struct ht_cell *cells = realloc(m->cells, (round + 1) * stride * sizeof *cells);
    if (!cells) {
        ht_print(stderr, "heaptape replay: no memory for another round\n");
        return false;
    }
    m->cells = cells;
    memset(&cells[round * stride], 0, stride * sizeof *cells);
    for (size_t i = 0; i < stride; i++) cells[round * stride + i].faults = NAN;
    m->rounds = round + 1;
    return true;
}

// seconds: how long the child has run by now.
static void draw_progress(void *context, double seconds) {
    struct ht_experiment *x = context;
    const struct ht_plan *plan = x->plan;
    const struct ht_turn *turn = x->turn;
    if (plan->quiet || !ht_progress_due(&x->progress)) return;
    char name[160];
    snprintf(name, sizeof name, seconds >= 2 ? "%s for %.0f s" : "%s", choice_of(x, turn->who)->name,
             seconds);
    if (turn->warm_up) {
        ht_progress_draw(&x->progress, "warming up: %s", name);
    } else if (plan->rounds) {
        double whole_s = ht_round_s(x, turn->round) * plan->rounds;
        double left_s = turn->round ? fmax(whole_s - ht_seconds_since(x->rounds_begun_ns), 0) : NAN;
        ht_progress_draw(&x->progress,
                         isnan(left_s) ? "round %u of %u: %s" : "round %u of %u: %s, about %.0f s left",
                         turn->round + 1, plan->rounds, name, left_s);
    } else {
        double left_s = fmax(ht_least_s(x, turn->round) - ht_seconds_since(x->begun_ns), 0);
        ht_progress_draw(&x->progress, "round %u: %s, at most about %.0f s left", turn->round + 1, name,
                         left_s);
    }
}

// Whether this round's run of the null replayer, which comes first in each pass, is missing.
static bool null_failed(const struct ht_experiment *x, const struct ht_turn *turn) {
    if (turn->pass == HT_PASS_MEMORY) return !ht_null_cell(&x->measurements, turn->round)->memory_ok;
    return x->runs[HT_WHO_NULL].failed;
}

static void run_turn(struct ht_experiment *x, const struct ht_turn *turn) {
    if (turn->warm_up) warm_up_turn(x, turn);
    else if (turn->pass == HT_PASS_FLAT) flat_turn(x, turn);
    else if (turn->pass == HT_PASS_TIMED) timed_turn(x, turn);
    else memory_turn(x, turn);
}

// One run of the null replayer that somebody killed costs what is left of a round; if it cannot run, that ends
// it all.
static bool go_on_without_null(struct ht_experiment *x, const struct ht_turn *turn) {
    if (turn->timed_follows) return true;  // that turn comes next, and says what the problem was
    if (!ht_failing_runs_given_up(&x->null_failing) && turn->round + 1 != x->plan->rounds) return true;
    ht_print(stderr, "heaptape replay: the null replayer failed: nothing can be compared\n");
    return false;
}

static bool take_turn(void *context, const struct ht_turn *turn) {
    struct ht_experiment *x = context;
    if (!turn->warm_up && !x->rounds_begun_ns) x->rounds_begun_ns = ht_now_ns(CLOCK_MONOTONIC);
    if (!turn->warm_up && !begin_round(x, turn->round)) return false;
    if (turn->who != HT_WHO_NULL && !turn->warm_up && null_failed(x, turn)) return true;
    if (ht_failing_runs_given_up(failing_of(x, turn->who))) return true;
    x->turn = turn;
    draw_progress(x, 0);
    run_turn(x, turn);
    if (ht_child_interrupted()) return false;
    if (turn->warm_up || turn->who != HT_WHO_NULL || !null_failed(x, turn)) return true;
    return go_on_without_null(x, turn);
}

// A figure is open while neither the verdict nor any of the conditions of --fail-if is settled by the
// stricter interval. Several analyses would find a difference by chance more often than one does.
static bool is_open(const struct ht_experiment *x, enum ht_figure figure) {
    const struct ht_plan *plan = x->plan;
    for (size_t i = 0; i < plan->choices.count; i++) {
        struct ht_estimate estimate = {0};
        if (i == x->baseline) continue;
        ht_compare_figure(&x->measurements, figure, i, x->baseline, ht_interim_confidence, &estimate);
        // What was never measured, because it failed, will not be by more rounds.
        if (estimate.ratio.count == 0) continue;
        if (figure <= HT_FIGURE_PEAK && estimate.verdict == HT_VERDICT_UNRESOLVED) return true;
        if (ht_fail_if_open(&plan->conditions, (int)figure, &estimate.widened)) return true;
    }
    return false;
}

static void analyse_interim(void *context, uint32_t rounds, bool *time_open, bool *memory_open) {
    const struct ht_experiment *x = context;
    assert(rounds == x->measurements.rounds);
    // A gate that leaves time alone reports it, but does not wait for it.
    *time_open = !ht_conditions_leave_time(&x->plan->conditions) && is_open(x, HT_FIGURE_TIME);
    *memory_open = false;
    for (int figure = HT_FIGURE_PEAK; figure < HT_FIGURES; figure++) {
        *memory_open = *memory_open || is_open(x, (enum ht_figure)figure);
    }
}

// One replay thread runs on one processor, the same for all runs of a round.
static uint32_t allowed_cpus(const struct ht_experiment *x, int *cpus) {
    cpu_set_t set;
    uint32_t count = 0;
    if (x->built->form->streams * x->built->side_by_side > 1 || sched_getaffinity(0, sizeof set, &set))
        return 0;
    for (unsigned i = 0; i < CPU_SETSIZE && count < HT_SCHEDULE_CPUS; i++) {
        if (CPU_ISSET(i, &set)) cpus[count++] = (int)i;
    }
    return count;
}

int ht_experiment_run(struct ht_experiment *x) {
    const struct ht_plan *plan = x->plan;
    int cpus[HT_SCHEDULE_CPUS];
    uint32_t rounds = 0;
    x->measurements = (struct ht_measurements){.choices = plan->choices.count,
                                               .of_choices = ht_choice_figures_new(plan->choices.count)};
    x->null_rss_bytes = malloc((x->built->form->samples + 1) * sizeof(uint64_t));
    if (!x->null_rss_bytes || !x->measurements.of_choices) return -1;
    struct ht_schedule schedule = {.choices = (uint32_t)plan->choices.count,
                                   .rounds = plan->rounds,
                                   .budget_ns = plan->budget_ns,
                                   .time_pass = plan->time_pass,
                                   .memory_pass = plan->memory_pass,
                                   .control = plan->choices.count > 1,
                                   .timed_always = ht_pollutes(&plan->pollution),
                                   .cpus = cpus,
                                   .cpus_count = allowed_cpus(x, cpus)};
    struct ht_executor executor = {x, take_turn, analyse_interim, schedule_now_ns};
    ht_progress_start(&x->progress);
    x->begun_ns = ht_now_ns(CLOCK_MONOTONIC);
    x->channel.watch.waiting = draw_progress;
    x->channel.watch.context = x;
    x->end = ht_schedule_run(&schedule, &x->random, &executor, &rounds);
    x->spent_s = ht_seconds_since(x->begun_ns);
    x->channel.watch.waiting = NULL;
    ht_progress_end(&x->progress);
    free(x->null_rss_bytes);
    return x->end == HT_END_EARLY ? -1 : 0;
}

void ht_experiment_free(struct ht_experiment *x) {
    free(x->measurements.cells);
    json_decref(x->counts);
    json_decref(x->facts);
    ht_choice_figures_free(x->measurements.of_choices, x->measurements.choices);
    ht_child_channel_close(&x->channel);
}
