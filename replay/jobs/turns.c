// SPDX-License-Identifier: Apache-2.0
#include "turns.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child_run.h"
#include "json_values.h"
#include "now.h"
#include "older_libc.h"
#include "replay_warnings.h"
#include "talk.h"

// A replay whose system calls are counted is given so long: nobody waits for hours for a count.
enum { COUNTING_NS_PER_OPERATION = 1000 };
static const uint64_t counting_ns = 10000000000u;

static struct ht_choice_figures *choice_figures_of(struct ht_runner *r, const struct ht_choice *choice) {
    struct ht_choice_figures *all = r->of_choices;
    return choice == r->null_choice ? &all[0] : &all[1 + (choice - r->plan->choices.list)];
}

// What a turn that has just run shows besides time and RSS: of the flat and the memory pass into its cell, of
// the timed pass into latencies, and, except the control's, added to those of its choice. False: there is no
// memory for them.
static void figures_of_flat(struct ht_runner *r, const struct ht_turn *turn) {
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_child_figures *null = &r->of_choices[0].flat;
    bool own = turn->who == HT_WHO_NULL;
    if (own) *null = r->channel.exchange->figures;
    ht_counter_figures(&r->channel.exchange->figures, own ? NULL : null, &cell->counters);
}

static bool figures_of_timed(struct ht_runner *r, const struct ht_turn *turn,
                             struct ht_latencies *latencies) {
    const struct ht_outcome *outcome = &r->channel.exchange->outcome;
    bool control = turn->who > r->plan->choices.count;
    if (ht_latencies_add(latencies, r->built, r->channel.readings, outcome)) return false;
    return control || !ht_latencies_merge(&r->of_choices[turn->who].latencies, latencies);
}

// True: it could be taken apart, too, for which the accounting pass of its choice must have run.
static bool figures_of_memory(struct ht_runner *r, const struct ht_turn *turn) {
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_child_figures *null = &r->of_choices[0].memory;
    bool own = turn->who == HT_WHO_NULL;
    if (own) *null = r->channel.exchange->figures;
    ht_leftover_figures(&r->channel.exchange->figures, own ? NULL : null, &cell->leftovers);
    if (own) return false;
    size_t choice = turn->who > r->plan->choices.count ? r->baseline : turn->who - 1;
    const struct ht_accounting_figures *accounting = &r->of_choices[1 + choice].accounting;
    ht_decompose(r->built, &cell->memory, &cell->leftovers, accounting, &cell->decomposition);
    return accounting->child != NULL;
}

static void take_off(struct ht_syscall_counts *counts, const struct ht_syscall_counts *null) {
    for (int i = 0; i < HT_SYSCALLS; i++) {
        counts->calls[i] -= null->calls[i] < counts->calls[i] ? null->calls[i] : counts->calls[i];
        counts->bytes[i] -= null->bytes[i] < counts->bytes[i] ? null->bytes[i] : counts->bytes[i];
    }
}

// After a run of the warm-up that failed: if it hung, nobody waits for that again in the first round.
static void note_hung(struct ht_runner *r, const struct ht_choice *choice, const char *problem) {
    struct ht_choice_figures *figures = choice_figures_of(r, choice);
    if (r->channel.hung) snprintf(figures->hung, sizeof figures->hung, "in the warm-up it %.200s", problem);
}

// Runs the pass, with its system calls counted if that can be had. False if the count took too long.
static bool run_counted(struct ht_runner *r, const struct ht_choice *choice, struct ht_random *random,
                        bool *replayed, struct ht_choice_figures *figures) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_ACCOUNT);
    uint64_t limit_ns = counting_ns + r->built->form->operations * COUNTING_NS_PER_OPERATION;
    bool over_limit = false;
    // Where the child is shown other processors, that filter has the only listener that a process can have.
    struct ht_syscall_counter *counter =
        ht_syscall_count_start(limit_ns, !job.processors, &job.syscall_socket, figures->syscalls_problem,
                               sizeof figures->syscalls_problem);
    job.counted = counter && job.processors;
    r->channel.counter = counter;
    *replayed =
        ht_child_run(&r->channel, choice, &job, -1, random, figures->problem, sizeof figures->problem);
    r->channel.counter = NULL;
    if (!counter) return true;
    figures->syscalls_counted = ht_syscall_count_stop(counter, &figures->syscalls, &over_limit);
    int refusal = r->channel.exchange->figures.filter_refusal;
    if (over_limit) {
        snprintf(figures->syscalls_problem, sizeof figures->syscalls_problem,
                 "the counted replay took more than %llu s", (unsigned long long)(limit_ns / 1000000000u));
    } else if (!figures->syscalls_counted) {
        snprintf(figures->syscalls_problem, sizeof figures->syscalls_problem, "%s",
                 refusal ? strerrordesc_np(refusal) : "the counted replay did not start");
    }
    return !over_limit;
}

static void account(struct ht_runner *r, const struct ht_choice *choice, struct ht_random *random,
                    struct ht_choice_figures *figures) {
    const struct ht_choice_figures *null = &r->of_choices[0];
    bool replayed;
    if (!run_counted(r, choice, random, &replayed, figures) && !ht_child_interrupted()) {
        struct ht_job job = ht_runner_job_at_once(r, HT_PASS_ACCOUNT);
        job.syscall_socket = -1;
        replayed =
            ht_child_run(&r->channel, choice, &job, -1, random, figures->problem, sizeof figures->problem);
    }
    if (!replayed) {
        note_hung(r, choice, figures->problem);
        figures->syscalls_counted = false;
        return;
    }
    figures->problem[0] = 0;
    if (figures != null && figures->syscalls_counted) take_off(&figures->syscalls, &null->syscalls);
    if (!ht_accounting_figures(r->built, &r->channel.exchange->figures, r->channel.rss_bytes,
                               r->channel.untouched_bytes, &figures->accounting)) {
        snprintf(figures->problem, sizeof figures->problem, "no memory for its figures");
    }
}

// Without any of these nobody gets to see what the pass shows, which takes as long as a replay.
static bool figures_are_shown(const struct ht_plan *plan) {
    return plan->results_path || plan->json || plan->verbose;
}

// Runs the untimed accounting pass of this choice, the first time that it is asked to; the null replayer's
// must come first. What goes wrong is reported with the figures, and is no failed run.
static void figure_passes(struct ht_runner *r, const struct ht_choice *choice) {
    struct ht_choice_figures *figures = choice_figures_of(r, choice);
    if (figures->tried || ht_child_interrupted()) return;
    figures->tried = true;
    struct ht_random random = r->random;
    ht_random_next(&r->random);  // what is drawn later is the same whether the pass runs or not
    if (figures_are_shown(r->plan)) account(r, choice, &random, figures);
}

static bool is_control(const struct ht_runner *r, uint32_t who) { return who == r->plan->choices.count + 1; }

static const struct ht_choice *choice_of(const struct ht_runner *r, uint32_t who) {
    if (who == HT_WHO_NULL) return r->null_choice;
    return &r->plan->choices.list[is_control(r, who) ? r->baseline : who - 1];
}

// Memory does not depend on where the replay's own code lies.
static uint32_t layout_of(const struct ht_runner *r, const struct ht_turn *turn) {
    return turn->warm_up || turn->pass == HT_PASS_MEMORY || r->plan->layout_fixed ? 0 : turn->layout;
}

// Memory in the first round is always that of the same addresses, so that a replay of one round repeats.
static bool addresses_fixed(const struct ht_runner *r, const struct ht_turn *turn) {
    return r->plan->layout_fixed || (turn->pass == HT_PASS_MEMORY && turn->round == 0);
}

// Whether its warm-up hung, and so would the first round. A later round tries again.
static bool known_to_hang(struct ht_runner *r, const struct ht_turn *turn, char *problem, size_t room) {
    const char *hung = choice_figures_of(r, choice_of(r, turn->who))->hung;
    if (turn->warm_up || turn->round > 0 || !hung[0]) return false;
    snprintf(problem, room, "%s", hung);
    memset(&r->channel.exchange->outcome, 0, sizeof r->channel.exchange->outcome);
    memset(&r->channel.exchange->figures, 0, sizeof r->channel.exchange->figures);
    return true;
}

// Runs the turn's child. What it reported is in the channel until the next one runs.
static bool run_child(struct ht_runner *r, const struct ht_turn *turn, char *problem, size_t room) {
    char text[HT_NUMBER_OF_BYTES];
    if (known_to_hang(r, turn, problem, room)) return false;
    struct ht_job job = ht_runner_job(r, turn->pass);
    job.layout = layout_of(r, turn);
    job.fixed_addresses = addresses_fixed(r, turn);
    struct ht_random same = {1}, *padding = job.fixed_addresses ? &same : &r->random;
    if (!ht_child_run(&r->channel, choice_of(r, turn->who), &job, turn->cpu, padding, problem, room)) {
        return false;
    }
    const struct ht_outcome *outcome = &r->channel.exchange->outcome;
    uint64_t expected = r->built->form->operations * r->built->side_by_side * job.repeats;
    if (outcome->operations != expected) {
        snprintf(problem, room, "replayed %llu of %s", (unsigned long long)outcome->operations,
                 ht_number_of(text, expected, "operation"));
        return false;
    }
    if (turn->pass == HT_PASS_MEMORY && outcome->samples_taken != r->built->form->samples) {
        snprintf(problem, room, "read RSS at %llu of %s", (unsigned long long)outcome->samples_taken,
                 ht_number_of(text, r->built->form->samples, "moment"));
        return false;
    }
    ht_known_faults_warn(&r->warnings, choice_of(r, turn->who), outcome->known_failures);
    return true;
}

static json_t *exact_times(const struct ht_round_cell *cell, const struct ht_timed_readings *timed) {
    const struct ht_time_figures *time = &cell->time;
    const struct ht_counter_figures *counters = &cell->counters;
    json_t *functions = json_object(), *perf = json_object();
    for (int i = 0; i < HT_PERF_EVENTS; i++) json_set_figure(perf, ht_perf_names[i], counters->perf[i]);
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (!time->functions[i].count) continue;
        json_object_set_new(functions, ht_functions[i].name,
                            json_pack("{s:o, s:o}", "time_ns", json_figure(time->functions[i].time_ns),
                                      "touch_ns", json_figure(time->functions[i].touch_ns)));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "alloc_time_ns",
                     json_figure(time->alloc_time_ns), "harness_time_ns", json_figure(time->harness_time_ns),
                     "touch_time_ns", json_figure(time->touch_time_ns), "wait_time_ns",
                     json_figure(time->wait_time_ns), "timed_calls", (json_int_t)time->timed_calls,
                     "readings_taken", (json_int_t)timed->taken, "readings_dropped",
                     (json_int_t)timed->dropped, "functions", functions, "perf", perf, "voluntary_switches",
                     json_figure(counters->voluntary_switches), "involuntary_switches",
                     json_figure(counters->involuntary_switches));
}

// Why RSS was not read within calls, in words; null: it was.
static json_t *unwatched_json(const struct ht_memory_figures *memory) {
    if (memory->watched) return json_null();
    return json_string(memory->watch_refusal == EBUSY ? "SIGSYS is blocked or taken"
                       : memory->watch_refusal        ? strerrordesc_np(memory->watch_refusal)
                                                      : "a thread blocks SIGSYS");
}

static json_t *exact_memory(const struct ht_memory_figures *memory) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "rss_peak_bytes", json_figure(memory->rss_peak_bytes),
                     "rss_between_calls_peak_bytes", json_figure(memory->rss_between_calls_peak_bytes),
                     "rss_mean_bytes", json_figure(memory->rss_mean_bytes), "rss_end_bytes",
                     json_figure(memory->rss_end_bytes), "process_rss_peak_bytes",
                     json_figure(memory->process_rss_peak_bytes), "unwatched", unwatched_json(memory));
}

// Keeps a line of results, which becomes part of the answer, too.
static void keep(struct ht_runner *r, struct ht_run_result *line, const struct ht_turn *turn,
                 json_t *answer) {
    line->choice = choice_of(r, turn->who);
    line->control = is_control(r, turn->who);
    line->round = turn->round;
    if (turn->round == 0 && !line->control) line->of_choice = choice_figures_of(r, line->choice);
    line->cpu = turn->cpu;
    line->layout = layout_of(r, turn);
    line->fixed_addresses = addresses_fixed(r, turn);
    line->memory_pass = turn->pass == HT_PASS_MEMORY;
    if (line->problem) ht_progress_end(&r->progress);  // before it is said
    json_object_set_new(answer, "problem", json_text(line->problem));
    json_object_set_new(answer, "line", ht_runner_keep(r, line));
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
static void finish_time(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    struct ht_participant *run = &r->participants[turn->who], *null_run = &r->participants[HT_WHO_NULL];
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_run_result line = {
        .outcome = &run->flat,
        .repeats = r->repeats,
        .instructions = turn->who ? r->instructions[choice_of(r, turn->who) - r->plan->choices.list] : NAN,
        .load = run->load,
        .started_realtime_ns = run->started_realtime_ns};
    if (!run->failed) {
        ht_time_figures(r->built, &run->flat, &run->timed, &null_run->flat, &null_run->timed,
                        ht_pollutes(&r->plan->pollution), &cell->time);
        line.time = &cell->time;
        line.counters = &cell->counters;
        line.latencies = run->latencies;
    } else {
        line.problem = run->problem;
    }
    keep(r, &line, turn, answer);
    if (!run->failed) json_object_set_new(answer, "exact", exact_times(cell, &run->timed));
}

static void flat_turn(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    struct ht_participant *run = &r->participants[turn->who];
    memset(run, 0, sizeof *run);
    run->timed.ns_per_tick = NAN;
    run->load = ht_machine_load();
    run->started_realtime_ns = ht_now_ns(CLOCK_REALTIME);
    run->failed = !run_child(r, turn, run->problem, sizeof run->problem);
    run->flat = r->channel.exchange->outcome;
    divide_by_repeats(&run->flat, r->repeats);
    figures_of_flat(r, turn);
    if (turn->timed_follows) json_object_set_new(answer, "failed", json_boolean(run->failed));
    else finish_time(r, turn, answer);
}

static void timed_turn(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    struct ht_participant *run = &r->participants[turn->who];
    struct ht_latencies latencies = {0};
    if (!run->failed) {
        run->failed = !run_child(r, turn, run->problem, sizeof run->problem);
        if (run->failed) run->flat = r->channel.exchange->outcome;  // whose failures are reported
        else ht_timed_readings_sum(r->built, r->channel.readings, &r->channel.exchange->outcome, &run->timed);
    }
    if (!run->failed && figures_of_timed(r, turn, &latencies)) run->latencies = &latencies;
    finish_time(r, turn, answer);
    run->latencies = NULL;
    ht_latencies_free(&latencies);
}

// Trace time reaches the cycle counter only where its readings are caught, which is too dear where time is
// taken.
static void warn_of_cycle_counter(struct ht_runner *r, const struct ht_turn *turn,
                                  const struct ht_outcome *outcome) {
    if (turn->round > 0 || is_control(r, turn->who) || !outcome->cycle_counter_reader[0]) return;
    if (!r->plan->time_pass || !r->plan->paces.time.virtual_time) return;
    ht_warn(&r->warnings, HT_WARNING_CYCLE_COUNTER, "for the time pass use --pace time=real",
            "%s reads the cycle counter (in %s): virtual time reaches it in the memory pass only",
            choice_of(r, turn->who)->name, outcome->cycle_counter_reader);
}

static double known_count(uint64_t count) { return count == HT_FIGURE_UNKNOWN ? NAN : (double)count; }

static void take_arenas(const struct ht_runner *r, struct ht_round_cell *cell) {
    const struct ht_arena_counts *counts = &r->channel.exchange->figures.arenas;
    cell->arenas = (struct ht_arena_figures){known_count(counts->used), known_count(counts->most)};
    cell->processors_asked = r->channel.processors_asked;
}

// Is a replay by this plan the program as it was recorded, under the allocator that served it?
static bool is_as_recorded(const struct ht_runner *r, uint32_t who) {
    return who != HT_WHO_NULL && !is_control(r, who) && r->plan->touch == HT_TOUCH_RECORDED &&
           !r->plan->purge_ns &&
           ht_recorded_served(r->program, choice_of(r, who)->name, choice_of(r, who)->version);
}

static void memory_turn(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    char problem[512] = "";
    bool own = turn->who == HT_WHO_NULL;
    struct ht_round_cell *cell = &r->participants[turn->who].cell;
    struct ht_run_result line = {.repeats = 1,
                                 .instructions = NAN,
                                 .load = ht_machine_load(),
                                 .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
    bool done = run_child(r, turn, problem, sizeof problem);
    struct ht_outcome outcome = r->channel.exchange->outcome;
    line.outcome = &outcome;
    const struct ht_rss_samples rss = {r->channel.rss_bytes, r->channel.high_bytes};
    if (done &&
        !ht_memory_figures(r->built, &outcome, rss, own ? NULL : &r->null_memory,
                           own ? NULL : r->null_rss_bytes, own ? NULL : r->own_bytes, &cell->memory)) {
        snprintf(problem, sizeof problem, "no memory for its figures");
        done = false;
    }
    if (done && own) {
        r->null_memory = outcome;
        memcpy(r->null_rss_bytes, r->channel.rss_bytes, r->built->form->samples * sizeof(uint64_t));
    }
    cell->check = ht_baseline_unchecked;
    if (done && is_as_recorded(r, turn->who)) {
        cell->check =
            ht_baseline_check(r->program, r->built, cell->memory.rss_bytes,
                              cell->memory.rss_between_calls_peak_bytes, cell->memory.rss_end_bytes);
        line.check = &cell->check;
    }
    if (done) {
        warn_of_cycle_counter(r, turn, &outcome);
        cell->memory.watched = r->channel.exchange->figures.watched;
        cell->memory.watch_refusal = r->channel.exchange->figures.watch_refusal;
        line.memory = &cell->memory;
        take_arenas(r, cell);
        line.leftovers = &cell->leftovers;
        line.arenas = &cell->arenas;
        line.processors_asked = cell->processors_asked;
        line.memory_figures = &r->channel.exchange->figures;
        if (figures_of_memory(r, turn)) line.decomposition = &cell->decomposition;
    } else {
        line.problem = problem;
    }
    keep(r, &line, turn, answer);
    if (done) json_object_set_new(answer, "exact", exact_memory(&cell->memory));
    free(cell->memory.rss_bytes);
    cell->memory.rss_bytes = cell->memory.high_bytes = NULL;
}

// What fails here fails again in the first round, and is reported there.
static void warm_up_turn(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    char problem[512];
    const char *wrap = r->channel.wrap;
    r->channel.wrap = NULL;  // who counts or profiles wants the runs that count
    // RSS does not hang on what is warm: without a time pass the figure passes, which are whole replays, are all.
    bool flat = turn->pass == HT_PASS_FLAT, done = !flat || run_child(r, turn, problem, sizeof problem);
    if (!done) {
        note_hung(r, choice_of(r, turn->who), problem);
        // What failed once is not run for figures.
        choice_figures_of(r, choice_of(r, turn->who))->tried = true;
    }
    if (done && flat) json_set_number(answer, "cpu_ns", r->channel.exchange->outcome.cpu_ns);
    if (done) figure_passes(r, choice_of(r, turn->who));
    r->channel.wrap = wrap;
}

void ht_turn_run(struct ht_runner *r, const struct ht_turn *turn, json_t *answer) {
    if (turn->warm_up) warm_up_turn(r, turn, answer);
    else if (turn->pass == HT_PASS_FLAT) flat_turn(r, turn, answer);
    else if (turn->pass == HT_PASS_TIMED) timed_turn(r, turn, answer);
    else memory_turn(r, turn, answer);
}

const struct ht_choice *ht_turn_choice(const struct ht_runner *r, const struct ht_turn *turn) {
    return choice_of(r, turn->who);
}
