#include "experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "results_line.h"

enum { PROBLEM_BYTES = 512 };
static const uint64_t time_window_ns = 10000000, memory_window_ns = 1000000;

// The null replayer's answers of this round.
struct control {
    struct ht_outcome flat, memory;
    struct ht_timed_readings timed;
    uint64_t *rss_bytes;
};

struct progress {
    bool shown;
    uint64_t begun_ns, drawn_ns, runs, runs_done;
};

static uint64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// On a terminal only, after the first second, six times a second at most.
static void draw(const struct ht_experiment *x, struct progress *progress, uint32_t round, const char *name) {
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (x->options->quiet || !isatty(STDERR_FILENO)) return;
    if (now - progress->begun_ns < 1000000000u || now - progress->drawn_ns < 160000000u) return;
    fprintf(stderr, "\r\033[Kround %u of %u, %.0f %%: %s", round + 1, x->options->rounds,
            100.0 * (double)progress->runs_done / (double)progress->runs, name);
    progress->drawn_ns = now;
    progress->shown = true;
}

static void wipe(struct progress *progress) {
    if (progress->shown) fprintf(stderr, "\r\033[K");
    progress->shown = false;
}

static struct ht_job make_job(const struct ht_experiment *x, enum ht_pass pass) {
    const struct ht_pace *pace = pass == HT_PASS_MEMORY ? &x->options->paces.memory : &x->options->paces.time;
    uint64_t usual = pass == HT_PASS_MEMORY ? memory_window_ns : time_window_ns;
    return (struct ht_job){
        .pass = pass,
        .touch = x->options->touch,
        .touch_free = x->options->touch_free,
        .pollution_bytes = x->options->pollution_bytes,
        .virtual_time = pace->virtual_time,
        .real_ns_per_trace_ns = pace->real_ns_per_trace_ns,
        .end_ns = x->end_ns,
        .scale = pass == HT_PASS_DESCRIBE ? 1 : x->built->side_by_side,
        .repeats = 1,
        .window_ns = x->options->window_ns ? x->options->window_ns : usual,
    };
}

bool ht_experiment_describe(struct ht_experiment *x, struct ht_choice *choice, char *problem, size_t room) {
    struct ht_job job = make_job(x, HT_PASS_DESCRIBE);
    if (!ht_child_run(&x->channel, choice, &job, &x->random, problem, room)) return false;
    const struct ht_outcome *said = &x->channel.exchange->outcome;
    char *path = realpath(said->path, NULL);
    snprintf(choice->path, sizeof choice->path, "%s", path ? path : said->path);
    snprintf(choice->version, sizeof choice->version, "%s", said->version);
    snprintf(choice->build_id, sizeof choice->build_id, "%s", said->build_id);
    free(path);
    return true;
}

static bool run_pass(struct ht_experiment *x, const struct ht_choice *choice, enum ht_pass pass,
                     struct ht_outcome *outcome, char *problem) {
    struct ht_job job = make_job(x, pass);
    bool done = ht_child_run(&x->channel, choice, &job, &x->random, problem, PROBLEM_BYTES);
    *outcome = x->channel.exchange->outcome;
    if (!done) return false;
    uint64_t expected = x->built->form->operations * x->built->side_by_side * job.repeats;
    if (outcome->operations != expected) {
        snprintf(problem, PROBLEM_BYTES, "%llu operations replayed, %llu expected",
                 (unsigned long long)outcome->operations, (unsigned long long)expected);
        return false;
    }
    if (pass == HT_PASS_MEMORY && outcome->samples_taken != x->built->form->samples) {
        snprintf(problem, PROBLEM_BYTES, "RSS was read %llu times, %u expected",
                 (unsigned long long)outcome->samples_taken, x->built->form->samples);
        return false;
    }
    return true;
}

// Keeps a result, and says in one line what went wrong with it.
static void keep(struct ht_experiment *x, struct ht_results_line *line, struct progress *progress) {
    if (line->problem && !ht_child_interrupted()) {
        wipe(progress);
        x->failed_runs++;
        fprintf(stderr, "replay: %s, round %u, %s pass: %s\n", line->choice->name, line->round + 1,
                line->memory_pass ? "memory" : "time", line->problem);
    }
    if (x->results_fd < 0 || ht_child_interrupted()) return;
    line->options = x->options;
    line->built = x->built;
    line->machine = &x->machine;
    line->trace_sha256 = x->trace_sha256;
    if (ht_results_line_write(x->results_fd, line) && !x->results_failed) {
        wipe(progress);
        fprintf(stderr, "replay: %s: a result can't be written: %s\n", x->options->results_path,
                strerror(errno));
        x->results_failed = true;
    }
}

// Both children of a time pass. control is the null replayer's of this round; for its own run, what to fill.
static void time_pass(struct ht_experiment *x, const struct ht_choice *choice, uint32_t round,
                      struct control *control, struct ht_cell *cell, struct progress *progress) {
    char problem[PROBLEM_BYTES] = "";
    bool own = choice == x->null_choice;
    struct ht_outcome flat = {0}, timed = {0};
    struct ht_timed_readings sum;
    struct ht_results_line line = {.choice = choice,
                                   .round = round,
                                   .load = ht_machine_load(),
                                   .started_realtime_ns = now_ns(CLOCK_REALTIME)};
    cell->time_ok = run_pass(x, choice, HT_PASS_FLAT, &flat, problem);
    if (cell->time_ok) cell->time_ok = run_pass(x, choice, HT_PASS_TIMED, &timed, problem);
    if (cell->time_ok) {
        ht_timed_readings_sum(x->built, x->channel.readings, &timed, &sum);
        if (own) {
            control->flat = flat;
            control->timed = sum;
        }
        ht_time_figures(x->built, own ? &control->flat : &flat, own ? &control->timed : &sum, &control->flat,
                        &control->timed, x->options->pollution_bytes > 0, &cell->time);
        cell->faults = (double)(flat.minor_faults + flat.major_faults);
        line.time = &cell->time;
    } else {
        line.problem = problem;
    }
    line.outcome = flat.failures || !timed.state ? &flat : &timed;
    if (cell->time_ok) line.outcome = &flat;
    keep(x, &line, progress);
}

// Trace time reaches the cycle counter only where its readings are caught, which is too dear where time is
// taken.
static void warn_of_cycle_counter(const struct ht_experiment *x, const struct ht_choice *choice,
                                  const struct ht_outcome *outcome, uint32_t round,
                                  struct progress *progress) {
    if (round > 0 || !outcome->cycle_counter_reader[0]) return;
    if (!x->options->time_pass || !x->options->paces.time.virtual_time) return;
    wipe(progress);
    fprintf(stderr,
            "replay: %s reads the cycle counter (in %s): virtual time reaches it in the memory pass only; "
            "for the "
            "time pass use --pace time=real\n",
            choice->name, outcome->cycle_counter_reader);
}

static void memory_pass(struct ht_experiment *x, const struct ht_choice *choice, uint32_t round,
                        struct control *control, struct ht_cell *cell, struct progress *progress) {
    char problem[PROBLEM_BYTES] = "";
    bool own = choice == x->null_choice;
    struct ht_outcome outcome = {0};
    struct ht_results_line line = {.choice = choice,
                                   .round = round,
                                   .memory_pass = true,
                                   .outcome = &outcome,
                                   .load = ht_machine_load(),
                                   .started_realtime_ns = now_ns(CLOCK_REALTIME)};
    cell->memory_ok = run_pass(x, choice, HT_PASS_MEMORY, &outcome, problem);
    if (cell->memory_ok &&
        !ht_memory_figures(x->built, &outcome, x->channel.rss_bytes, own ? NULL : &control->memory,
                           own ? NULL : control->rss_bytes, &cell->memory)) {
        snprintf(problem, sizeof problem, "no memory for its figures");
        cell->memory_ok = false;
    }
    if (cell->memory_ok && own) {
        control->memory = outcome;
        memcpy(control->rss_bytes, x->channel.rss_bytes, x->built->form->samples * sizeof(uint64_t));
    }
    if (cell->memory_ok) {
        warn_of_cycle_counter(x, choice, &outcome, round, progress);
        line.memory = &cell->memory;
        if (!x->options->time_pass) cell->faults = (double)(outcome.minor_faults + outcome.major_faults);
    } else {
        line.problem = problem;
    }
    keep(x, &line, progress);
    free(cell->memory.rss_bytes);
    cell->memory.rss_bytes = NULL;
}

// All passes of one allocator in one round. False if it can't go on.
static bool run_allocator(struct ht_experiment *x, const struct ht_choice *choice, uint32_t round,
                          struct control *control, struct ht_cell *cell, struct progress *progress) {
    draw(x, progress, round, choice->name);
    cell->faults = NAN;
    if (x->options->time_pass) time_pass(x, choice, round, control, cell, progress);
    if (x->options->memory_pass && !ht_child_interrupted()) {
        memory_pass(x, choice, round, control, cell, progress);
    }
    progress->runs_done++;
    return !ht_child_interrupted();
}

static bool run_round(struct ht_experiment *x, uint32_t round, struct control *control,
                      struct progress *progress) {
    struct ht_measurements *m = &x->measurements;
    struct ht_cell *cells = realloc(m->cells, (round + 1) * (m->choices + 1) * sizeof *cells);
    if (!cells) {
        fprintf(stderr, "replay: no memory for another round\n");
        return false;
    }
    m->cells = cells;
    memset(&cells[round * (m->choices + 1)], 0, (m->choices + 1) * sizeof *cells);
    m->rounds = round + 1;
    uint32_t order[HT_CHOICES_MAX];
    ht_random_order(&x->random, order, (uint32_t)m->choices);
    struct ht_cell *null_cell = ht_null_cell(m, round);
    if (!run_allocator(x, x->null_choice, round, control, null_cell, progress)) return false;
    if ((x->options->time_pass && !null_cell->time_ok) ||
        (x->options->memory_pass && !null_cell->memory_ok)) {
        fprintf(stderr, "replay: without the null replayer there is nothing to compare with\n");
        return false;
    }
    for (size_t i = 0; i < m->choices; i++) {
        const struct ht_choice *choice = &x->options->choices.list[order[i]];
        if (!run_allocator(x, choice, round, control, ht_cell(m, round, order[i]), progress)) return false;
    }
    return true;
}

int ht_experiment_run(struct ht_experiment *x) {
    size_t choices = x->options->choices.count;
    x->measurements = (struct ht_measurements){.choices = choices};
    struct control control = {.rss_bytes = malloc((x->built->form->samples + 1) * sizeof(uint64_t))};
    struct progress progress = {.begun_ns = now_ns(CLOCK_MONOTONIC),
                                .runs = x->options->rounds * (choices + 1)};
    int early = control.rss_bytes ? 0 : -1;
    for (uint32_t round = 0; round < x->options->rounds && !early; round++) {
        if (!run_round(x, round, &control, &progress)) early = -1;
    }
    wipe(&progress);
    free(control.rss_bytes);
    return early;
}

void ht_experiment_free(struct ht_experiment *x) {
    free(x->measurements.cells);
    ht_child_channel_close(&x->channel);
}
