// SPDX-License-Identifier: Apache-2.0
#include "group_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "group_draw.h"
#include "group_meetings.h"
#include "json_values.h"
#include "now.h"
#include "print.h"
#include "results_line.h"
#include "talk.h"
#include "text_table.h"

struct ht_group_result {
    const struct ht_group_program *program;
    const struct ht_choice *choice;
    const struct ht_group_look *meeting,
        *null_meeting;                             // by meeting; of the null replayer the harness itself
    const struct ht_group_look *part, *null_part;  // by moment and part
    enum ht_drawn drawn;
    uint32_t round;
    uint64_t seed, parts_written, started_realtime_ns;
    const char *problem;  // NULL: none
};

static uint64_t without(uint64_t bytes, uint64_t harness_bytes) {
    return bytes > harness_bytes ? bytes - harness_bytes : 0;
}

// What is not malloc's is known at moments. Between two it is taken to have grown evenly.
static double own_bytes_at(const struct ht_group_program *program, uint64_t time_ns) {
    const struct ht_group_moment *before = NULL;
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        const struct ht_group_moment *moment = ht_group_moment(program->trace, i);
        double own = (double)moment->own_bytes;
        if (time_ns <= moment->time_ns && !before) return own;
        if (time_ns <= moment->time_ns) {
            double part = (double)(time_ns - before->time_ns) / (double)(moment->time_ns - before->time_ns);
            return (double)before->own_bytes + part * (own - (double)before->own_bytes);
        }
        before = moment;
    }
    return before ? (double)before->own_bytes : 0;
}

// Anonymous memory of all processes, each page once, with what is not malloc's: at a meeting.
static double ht_group_bytes(const struct ht_group_result *result, uint32_t meeting) {
    uint64_t heap =
        without(result->meeting[meeting].pss_anon_bytes, result->null_meeting[meeting].pss_anon_bytes);
    return (double)heap + own_bytes_at(result->program, result->program->meeting[meeting].time_ns);
}

// The highest of all meetings; and at the recording's last moment, or at the end where it knows none.
static double ht_group_peak_bytes(const struct ht_group_result *result) {
    double most = 0;
    for (uint32_t i = 0; i < result->program->meetings; i++) most = fmax(most, ht_group_bytes(result, i));
    return most;
}

static uint32_t meeting_of(const struct ht_group_program *program, uint32_t moment) {
    uint32_t i = program->meetings;
    while (i-- > 0)
        if (program->meeting[i].moment == moment && program->meeting[i].written) return i;
    return program->meetings - 1;
}

// The processes that the snapshot has count: one that began or ended meanwhile is not in it.
static double bytes_at_moment(const struct ht_group_result *result, uint32_t moment) {
    const struct ht_group_program *program = result->program;
    double sum = (double)ht_group_moment(program->trace, moment)->own_bytes;
    for (uint32_t i = 0; i < program->parts; i++) {
        size_t at = (size_t)moment * program->parts + i;
        if (ht_group_presence(program->trace, i, moment)->there)
            sum += (double)without(result->part[at].pss_anon_bytes, result->null_part[at].pss_anon_bytes);
    }
    return sum;
}

static double ht_group_end_bytes(const struct ht_group_result *result) {
    uint32_t moments = ht_group_moments(result->program->trace);
    return moments ? bytes_at_moment(result, moments - 1)
                   : ht_group_bytes(result, result->program->meetings - 1);
}

// The moment with the most memory; HT_GROUP_NO_MOMENT: none is known.
static uint32_t group_highest_moment(const struct ht_group_program *program) {
    uint32_t highest = HT_GROUP_NO_MOMENT;
    uint64_t most = 0;
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        uint64_t bytes = ht_group_moment(program->trace, i)->anonymous_bytes;
        if (bytes > most) highest = i;
        if (bytes > most) most = bytes;
    }
    return highest;
}

// At the recording's highest moment, which is to be held against what was recorded then. NaN: it knows none.
static double ht_group_moment_bytes(const struct ht_group_result *result) {
    uint32_t moment = group_highest_moment(result->program);
    return moment == HT_GROUP_NO_MOMENT ? NAN : bytes_at_moment(result, moment);
}

// ---- as JSON ----

static json_t *trace_json(const struct ht_runner *r, const struct ht_group_program *program) {
    json_t *trace = json_object();
    char *absolute = realpath(r->plan->trace_path, NULL);
    json_object_set_new(trace, "path", json_known_text(absolute ? absolute : r->plan->trace_path));
    free(absolute);
    json_object_set_new(trace, "sha256", json_known_text(r->trace_sha256));
    json_set_number(trace, "processes", program->parts);
    json_object_set_new(trace, "recorded_allocator",
                        json_pack("{s:o, s:o}", "name", json_known_text(r->program->allocator), "version",
                                  json_known_text(r->program->allocator_version)));
    return trace;
}

static json_t *processes_json(const struct ht_group_result *result, uint32_t moment) {
    const struct ht_group_program *program = result->program;
    json_t *list = json_array();
    for (uint32_t i = 0; i < program->parts; i++) {
        const struct ht_group_process *process = ht_group_process(program->trace, i);
        const struct ht_group_presence *presence = ht_group_presence(program->trace, i, moment);
        size_t at = (size_t)moment * program->parts + i;
        if (!presence->there) continue;
        json_t *one = json_object();
        json_set_number(one, "pid", process->pid);
        json_set_known_text(one, "name", process->name);
        json_set_number(one, "rss_anon_bytes",
                        without(result->part[at].rss_anon_bytes, result->null_part[at].rss_anon_bytes) +
                            presence->own_bytes);
        json_set_number(one, "pss_anon_bytes",
                        without(result->part[at].pss_anon_bytes, result->null_part[at].pss_anon_bytes) +
                            presence->own_bytes);
        json_set_number(one, "recorded_rss_anon_bytes", presence->rss_anon_bytes);
        json_set_number(one, "recorded_pss_anon_bytes", presence->pss_anon_bytes);
        json_array_append_new(list, one);
    }
    return list;
}

// At each moment: what was recorded, what was replayed, and what the program's writes alone have copied since the moment before.
static json_t *moments_json(const struct ht_group_result *result) {
    const struct ht_group_program *program = result->program;
    json_t *list = json_array();
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        const struct ht_group_moment *moment = ht_group_moment(program->trace, i);
        uint32_t written = meeting_of(program, i);
        json_t *one = json_object();
        double bytes = ht_group_bytes(result, written),
               before = written ? ht_group_bytes(result, written - 1) : 0;
        json_set_number(one, "time_ns", moment->time_ns);
        json_object_set_new(one, "reason", json_string(moment->reason == HT_SNAPSHOT_PEAK ? "peak" : "last"));
        json_set_whole(one, "bytes", bytes_at_moment(result, i));
        json_set_whole(one, "copied_by_program_bytes", bytes > before ? bytes - before : 0);
        json_set_number(one, "own_bytes", moment->own_bytes);
        json_set_number(one, "recorded_bytes", moment->anonymous_bytes);
        json_set_number(
            one, "rss_anon_sum_bytes",
            without(result->meeting[written].rss_anon_bytes, result->null_meeting[written].rss_anon_bytes));
        json_set_number(one, "recorded_rss_anon_sum_bytes", moment->rss_anon_sum_bytes);
        json_object_set_new(one, "processes", processes_json(result, i));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *timeline_json(const struct ht_group_result *result) {
    json_t *time = json_array(), *bytes = json_array();
    for (uint32_t i = 0; i < result->program->meetings; i++) {
        json_array_append_new(time, json_number(result->program->meeting[i].time_ns));
        json_array_append_new(bytes, json_whole(ht_group_bytes(result, i)));
    }
    return json_pack("{s:o, s:o}", "time_ns", time, "group_bytes", bytes);
}

static json_t *group_result_json(struct ht_runner *r, const struct ht_group_result *result) {
    const struct ht_plan *plan = r->plan;
    json_t *run = ht_results_head(r->plan, result->choice, trace_json(r, result->program), "group",
                                  result->round, result->seed, plan->paces.memory.name);
    bool done = !result->problem;
    bool purges = plan->purge_at_fork && result->choice->kind && result->choice->kind->purge;
    json_object_set_new(run, "purged_at_fork", json_boolean(purges));
    json_object_set_new(run, "drawn", json_string(ht_drawn_names[result->drawn]));
    json_set_number(run, "parts_written", result->parts_written);
    json_set_whole(run, "group_peak_bytes", done ? ht_group_peak_bytes(result) : NAN);
    json_set_whole(run, "group_end_bytes", done ? ht_group_end_bytes(result) : NAN);
    json_set_whole(run, "group_moment_bytes", done ? ht_group_moment_bytes(result) : NAN);
    json_object_set_new(run, "moments", done ? moments_json(result) : json_null());
    json_object_set_new(run, "timeline", done ? timeline_json(result) : json_null());
    json_set_text(run, "problem", result->problem);
    json_set_number(run, "failures", done ? 0 : 1);
    ht_results_machine(run, &r->machine, result->started_realtime_ns);
    return run;
}

enum { ROUNDS = 2, PROBLEM_BYTES = 1024, CELL_BYTES = 64 };

struct range {
    double low, high;
};

struct group_runs {
    struct ht_runner *r;
    const struct ht_group_program *program;
    int launcher_pipe[2];  // processes have the first end, and see it hang up when this process is gone
    struct ht_group_look *null_meeting, *null_part, *meeting, *part;
    struct range moment[HT_CHOICES_MAX], end[HT_CHOICES_MAX], peak[HT_CHOICES_MAX];
    json_t *lines;  // with --json, else NULL
};

static size_t part_looks(const struct ht_group_program *program) {
    return (size_t)program->parts * (ht_group_moments(program->trace) + 1);
}

// ---- one run ----

// A root and its descendants.
static bool run_family(struct group_runs *runs, const struct ht_choice *choice, uint32_t root,
                       const struct ht_group_writes *writes, struct ht_group_watch *watch,
                       char problem[PROBLEM_BYTES]) {
    struct ht_runner *r = runs->r;
    struct ht_error error;
    struct ht_random same = {1};
    int fd;
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_GROUP);
    watch->plan = ht_group_plan_make(runs->program, root, writes, runs->launcher_pipe[0], &fd, &error);
    if (!watch->plan) {
        snprintf(problem, PROBLEM_BYTES, "%s", error.message);
        return false;
    }
    job.group_plan_fd = fd;
    job.by_turns = 1;
    job.end_ns = ht_group_process(runs->program->trace, root)->end_ns;
    r->channel.built = &runs->program->part[root].built;
    bool done = ht_group_watch_start(watch);
    if (!done) snprintf(problem, PROBLEM_BYTES, "no thread to look at it: %s", strerror(errno));
    if (done) {
        done = ht_child_run(&r->channel, choice, &job, -1, &same, problem, PROBLEM_BYTES);
        bool watched = ht_group_watch_stop(watch);
        if (!watched) snprintf(problem, PROBLEM_BYTES, "%s", watch->problem);
        done = done && watched;
    }
    for (uint32_t i = 0; done && i < runs->program->parts; i++) {
        const struct ht_group_part *part = &ht_group_parts(watch->plan)[i];
        if (!part->failures) continue;
        snprintf(problem, PROBLEM_BYTES, "a call of process %u failed, but not when recorded: %s",
                 ht_group_process(runs->program->trace, i)->pid, part->message);
        done = false;
    }
    munmap(watch->plan, watch->plan->bytes);
    close(fd);
    return done;
}

static bool calls(const struct ht_group_program_part *part) {
    return part->built.fd >= 0 && part->built.form->operations;
}

static bool run_group(struct group_runs *runs, const struct ht_choice *choice,
                      const struct ht_group_writes *writes, struct ht_group_look *meeting,
                      struct ht_group_look *part, char problem[PROBLEM_BYTES]) {
    const struct ht_group_program *program = runs->program;
    struct ht_group_watch watch = {.program = program, .meeting = meeting, .part = part};
    memset(meeting, 0, program->meetings * sizeof *meeting);
    memset(part, 0, part_looks(program) * sizeof *part);
    for (uint32_t i = 0; i < program->parts; i++) {
        if (ht_group_process(program->trace, i)->parent != HT_GROUP_NO_PARENT || !calls(&program->part[i]))
            continue;
        if (!run_family(runs, choice, i, writes, &watch, problem)) return false;
    }
    return true;
}

// ---- all runs ----

static void widen(struct range *range, double value) {
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static void keep(struct group_runs *runs, const struct ht_group_result *result) {
    struct ht_runner *r = runs->r;
    json_t *line = group_result_json(r, result);
    if (r->results_fd >= 0 && ht_results_line_write(r->results_fd, line) && !r->results_failed) {
        ht_print(stderr, "heaptape replay: %s: a result cannot be written: %s\n", r->plan->results_path,
                 strerror(errno));
        r->results_failed = true;
    }
    if (runs->lines) json_array_append(runs->lines, line);
    json_decref(line);
}

static bool run_one(struct group_runs *runs, size_t number, uint32_t round, enum ht_drawn drawn) {
    struct ht_runner *r = runs->r;
    const struct ht_choice *choice = &r->plan->choices.list[number];
    char problem[PROBLEM_BYTES] = "";
    struct ht_group_writes writes;
    struct ht_error error;
    struct ht_group_result result = {.program = runs->program,
                                     .choice = choice,
                                     .meeting = runs->meeting,
                                     .null_meeting = runs->null_meeting,
                                     .part = runs->part,
                                     .null_part = runs->null_part,
                                     .drawn = drawn,
                                     .round = round,
                                     .seed = r->plan->seed + round,
                                     .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
    if (!r->plan->quiet && ht_progress_due(&r->progress))
        ht_progress_draw(&r->progress, "%s: round %u", choice->name, round + 1);
    bool done = !ht_group_draw(runs->program, drawn, result.seed, &writes, &error);
    if (!done) snprintf(problem, sizeof problem, "%s", error.message);
    result.parts_written = writes.parts_written;
    done = done && run_group(runs, choice, &writes, runs->meeting, runs->part, problem);
    ht_group_writes_free(runs->program, &writes);
    ht_progress_end(&r->progress);
    if (ht_child_interrupted()) return false;
    if (!done) result.problem = problem;
    if (!done) ht_print(stderr, "heaptape replay: %s, round %u: %s\n", choice->name, round + 1, problem);
    keep(runs, &result);
    if (!done) return false;
    widen(&runs->moment[number], ht_group_moment_bytes(&result));
    widen(&runs->end[number], ht_group_end_bytes(&result));
    widen(&runs->peak[number], ht_group_peak_bytes(&result));
    return true;
}

static size_t run_rounds(struct group_runs *runs) {
    const struct ht_plan *plan = runs->r->plan;
    uint32_t rounds = plan->rounds ? plan->rounds : ROUNDS;
    enum ht_drawn first = runs->program->model ? HT_DRAWN_APART : HT_DRAWN_NOTHING;
    enum ht_drawn last = runs->program->model ? HT_DRAWN_TOGETHER : HT_DRAWN_NOTHING;
    if (ht_group_given()) first = last = HT_DRAWN_GIVEN;
    size_t failed = 0;
    uint32_t round = 0;
    for (; round < rounds && !failed && !ht_child_interrupted(); round++)
        for (enum ht_drawn drawn = first; drawn <= last; drawn++)
            for (size_t i = 0; i < plan->choices.count && !ht_child_interrupted(); i++)
                failed += !run_one(runs, i, round, drawn);
    if (ht_child_interrupted())
        ht_print(stderr, "heaptape replay: stopped in round %u%s%s\n", round,
                 plan->results_path ? "; finished runs are in " : "",
                 plan->results_path ? plan->results_path : "");
    return failed;
}

// ---- what came of it ----

static const char *range_text(const struct range *range, char text[CELL_BYTES]) {
    if (isnan(range->low)) return "-";
    if (range->high - range->low < 0.05e6) snprintf(text, CELL_BYTES, "%.1f MB", range->low / 1e6);
    else snprintf(text, CELL_BYTES, "%.1f to %.1f MB", range->low / 1e6, range->high / 1e6);
    return text;
}

static void print_ranges(const struct group_runs *runs) {
    static struct ht_text_table table;
    const struct ht_plan *plan = runs->r->plan;
    uint32_t highest = group_highest_moment(runs->program);
    char text[3][CELL_BYTES];
    ht_table_begin(&table, "lrrr",
                   (const char *[]){"allocator", "at the recorded peak", "at the end", "highest replayed"});
    for (size_t i = 0; i < plan->choices.count; i++)
        ht_table_add(&table, (const char *[]){
                                 plan->choices.list[i].name, range_text(&runs->moment[i], text[0]),
                                 range_text(&runs->end[i], text[1]), range_text(&runs->peak[i], text[2])});
    printf("anonymous memory of %u processes, each page counted once\n", runs->program->parts);
    ht_table_print(stdout, &table);
    if (highest == HT_GROUP_NO_MOMENT)
        printf("what the program itself wrote is unknown: no snapshot was recorded\n");
    else
        printf("recorded: %.1f MB\n",
               (double)ht_group_moment(runs->program->trace, highest)->anonymous_bytes / 1e6);
}

static void report(struct group_runs *runs) {
    if (!runs->r->plan->json) {
        print_ranges(runs);
        return;
    }
    json_dumpf(runs->lines, stdout, JSON_INDENT(1) | HT_JSON_REALS);
    putchar('\n');
}

static bool prepare(struct group_runs *runs) {
    const struct ht_group_program *program = runs->program;
    size_t meeting_bytes = program->meetings * sizeof *runs->meeting,
           part_bytes = part_looks(program) * sizeof *runs->part;
    runs->null_meeting = malloc(meeting_bytes);
    runs->meeting = malloc(meeting_bytes);
    runs->null_part = malloc(part_bytes);
    runs->part = malloc(part_bytes);
    for (size_t i = 0; i < HT_CHOICES_MAX; i++)
        runs->moment[i] = runs->end[i] = runs->peak[i] = (struct range){NAN, NAN};
    if (runs->r->plan->json) runs->lines = json_array();
    bool made = runs->null_meeting && runs->meeting && runs->null_part && runs->part;
    if (!made) errno = ENOMEM;
    return made && !pipe(runs->launcher_pipe) && !fcntl(runs->launcher_pipe[1], F_SETFD, FD_CLOEXEC);
}

size_t ht_group_runs(struct ht_runner *r, const struct ht_group_program *program) {
    static struct group_runs runs;
    char problem[PROBLEM_BYTES] = "";
    struct ht_group_writes none;
    struct ht_error error;
    runs = (struct group_runs){.r = r, .program = program, .launcher_pipe = {-1, -1}};
    size_t failed = 1;
    if (!prepare(&runs)) {
        ht_print(stderr, "heaptape replay: no memory to look at a group: %s\n", strerror(errno));
    } else if (ht_group_draw(program, HT_DRAWN_NOTHING, 0, &none, &error)) {
        ht_print(stderr, "heaptape replay: %s\n", error.message);
    } else {
        bool done = run_group(&runs, r->null_choice, &none, runs.null_meeting, runs.null_part, problem);
        if (ht_child_interrupted()) ht_print(stderr, "heaptape replay: stopped during the warm-up\n");
        else if (!done) ht_print(stderr, "heaptape replay: null: %s\n", problem);
        if (done) failed = run_rounds(&runs);
        if (done && !ht_child_interrupted()) report(&runs);
        ht_group_writes_free(program, &none);
    }
    for (int i = 0; i < 2; i++)
        if (runs.launcher_pipe[i] >= 0) close(runs.launcher_pipe[i]);
    free(runs.null_meeting);
    free(runs.meeting);
    free(runs.null_part);
    free(runs.part);
    json_decref(runs.lines);
    return failed;
}
