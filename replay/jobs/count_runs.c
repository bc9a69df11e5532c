// SPDX-License-Identifier: Apache-2.0
#include "count_runs.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost_model.h"
#include "now.h"
#include "print.h"
#include "simulation.h"
#include "talk.h"
#include "text_table.h"

enum { FUNCTIONS_SHOWN = 6 };
static const double share_shown_min = 0.01;

struct function {
    const char *name;
    json_int_t own, with_callees;  // samples
};

static void add_samples(json_t *sums, const char *name, json_int_t samples) {
    json_object_set_new(sums, name, json_integer(json_integer_value(json_object_get(sums, name)) + samples));
}

// A function that calls itself counts once.
static bool stands_below(const json_t *frames, size_t depth) {
    const char *name = json_string_value(json_array_get(frames, depth));
    for (size_t i = depth + 1; i < json_array_size(frames); i++)
        if (!strcmp(name, json_string_value(json_array_get(frames, i)))) return true;
    return false;
}

static void sum_up(const json_t *profile, json_t *own, json_t *with_callees) {
    const json_t *stack;
    size_t i;
    json_array_foreach(json_object_get(profile, "stacks"), i, stack) {
        const json_t *frames = json_object_get(stack, "frames");
        json_int_t samples = json_integer_value(json_object_get(stack, "samples"));
        size_t depth = json_array_size(frames);
        for (size_t at = 0; at < depth; at++) {
            const char *name = json_string_value(json_array_get(frames, at));
            if (!stands_below(frames, at)) add_samples(with_callees, name, samples);
            if (at + 1 == depth) add_samples(own, name, samples);
        }
    }
}

static int by_own(const void *a, const void *b) {
    const struct function *one = a, *other = b;
    if (one->own != other->own) return one->own < other->own ? 1 : -1;
    return strcmp(one->name, other->name);
}

static void add_row(struct ht_text_table *table, const char *allocator, const struct function *function,
                    double samples, double instructions) {
    char own[32], count[32], with[32];
    snprintf(own, sizeof own, "%.1f %%", 100 * (double)function->own / samples);
    snprintf(with, sizeof with, "%.1f %%", 100 * (double)function->with_callees / samples);
    ht_grouped(count, (uint64_t)(instructions * (double)function->own / samples));
    ht_table_add(table, (const char *const[]){allocator, function->name, own, count, with});
}

static void add_allocator(struct ht_text_table *table, const char *allocator, const json_t *counts) {
    const json_t *profile = json_object_get(counts, "profile");
    double samples = (double)json_integer_value(json_object_get(profile, "samples"));
    double instructions =
        (double)json_integer_value(json_object_get(json_object_get(counts, "allocator"), "instructions"));
    json_t *own = json_object(), *with_callees = json_object(), *value;
    sum_up(profile, own, with_callees);
    struct function *functions = calloc(json_object_size(own) + 1, sizeof *functions);
    const char *name;
    size_t count = 0;
    json_object_foreach(own, name, value) {
        if (!functions) break;
        functions[count++] = (struct function){name, json_integer_value(value),
                                               json_integer_value(json_object_get(with_callees, name))};
    }
    if (functions) qsort(functions, count, sizeof *functions, by_own);
    for (size_t i = 0; i < count && i < FUNCTIONS_SHOWN; i++)
        if (!i || (double)functions[i].own >= share_shown_min * samples)
            add_row(table, i ? "" : allocator, &functions[i], samples, instructions);
    free(functions);
    json_decref(own);
    json_decref(with_callees);
}

void ht_profile_print(FILE *out, const json_t *all) {
    static struct ht_text_table table;
    static const char *const heading[] = {"instructions in", "function", "own share", "own", "with callees"};
    const char *name;
    json_t *counts;
    ht_table_begin(&table, "llrrr", heading);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null") && json_object_get(counts, "profile")) add_allocator(&table, name, counts);
    }
    if (table.rows < 2) return;
    fputc('\n', out);
    ht_table_print(out, &table);
}

// In ns, by kind of cost.
struct program_time {
    struct ht_modelled_time allocator, program;
};

static double square(double value) { return value * value; }

static double total(const struct ht_modelled_time *time) {
    double sum = 0;
    for (int i = 0; i < HT_COSTS; i++) sum += time->ns[i];
    return sum;
}

static double whole(const struct program_time *time) {
    return total(&time->allocator) + total(&time->program);
}

static struct program_time time_of(const struct ht_cost_model *model, const json_t *counts) {
    struct program_time time;
    ht_model_time(model, json_object_get(counts, "allocator"), &time.allocator);
    ht_model_time(model, json_object_get(counts, "program"), &time.program);
    return time;
}

// The ratio where one kind of event has another cost.
static double ratio_at(const struct program_time *one, const struct program_time *base, int kind,
                       double factor) {
    double more = (one->allocator.ns[kind] + one->program.ns[kind]) * (factor - 1);
    double base_more = (base->allocator.ns[kind] + base->program.ns[kind]) * (factor - 1);
    return (whole(one) + more) / (whole(base) + base_more);
}

// Of sampled accesses, as the tool leaves them: what each group of bursts adds to the modelled time, instead of its misses.
static void model_groups(const struct ht_cost_model *model, const json_t *counts) {
    json_t *groups = json_object_get(json_object_get(counts, "sampled"), "groups"), *group;
    size_t i;
    json_array_foreach(groups, i, group) {
        struct program_time time = time_of(model, group);
        json_object_set_new(group, "ns", json_real(whole(&time)));
        json_object_del(group, "program");
        json_object_del(group, "allocator");
    }
}

struct sampled_group {
    double accesses, ns;
};

static struct sampled_group group_of(const json_t *groups, size_t i) {
    const json_t *group = json_array_get(groups, i);
    return (struct sampled_group){json_number_value(json_object_get(group, "accesses")),
                                  json_number_value(json_object_get(group, "ns"))};
}

// How far the ratio can be off because only bursts were simulated: by how much the groups of bursts differ from one another in
// it. The bursts are the same under both allocators.
static double sampling_error(const json_t *counts, const json_t *base_counts, double ratio, double base_ns) {
    const json_t *groups = json_object_get(json_object_get(counts, "sampled"), "groups");
    const json_t *base_groups = json_object_get(json_object_get(base_counts, "sampled"), "groups");
    size_t count = json_array_size(groups);
    double accesses = 0, sum = 0, squares = 0;
    if (count < 2 || json_array_size(base_groups) != count) return 0;
    for (size_t i = 0; i < count; i++) {
        struct sampled_group group = group_of(groups, i);
        accesses += group.accesses;
        sum += group.ns - ratio * group_of(base_groups, i).ns;
    }
    for (size_t i = 0; i < count; i++) {
        struct sampled_group group = group_of(groups, i);
        squares += square(group.ns - ratio * group_of(base_groups, i).ns - sum * group.accesses / accesses);
    }
    return HT_SAMPLING_QUANTILE * sqrt(squares * (double)count / (double)(count - 1)) / base_ns;
}

// By the intervals of the costs, each by itself, by what the model is off in the time of each allocator and in
// the program's own difference, and by the sample; all added in quadrature.
static void add_ratio(json_t *made, const struct ht_cost_model *model, const struct program_time *one,
                      const struct program_time *base, double sampled) {
    double ratio = whole(one) / whole(base);
    double off = square(total(&one->allocator)) + square(ratio * total(&base->allocator)) +
                 square(total(&one->program) - total(&base->program));
    double below = off * square(HT_MODEL_RESIDUAL / whole(base)) + square(sampled), above = below;
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_median *cost = &model->calibration.cost[i];
        if (cost->ns <= 0) continue;
        double ends[] = {ratio_at(one, base, i, cost->low_ns / cost->ns) - ratio,
                         ratio_at(one, base, i, cost->high_ns / cost->ns) - ratio};
        below += square(fmin(0, fmin(ends[0], ends[1])));
        above += square(fmax(0, fmax(ends[0], ends[1])));
    }
    json_object_set_new(made, "ratio", json_real(ratio));
    json_object_set_new(made, "ratio_low", json_real(fmax(0, ratio - sqrt(below))));
    json_object_set_new(made, "ratio_high", json_real(ratio + sqrt(above)));
}

// counts: a process's counts by allocator, as the tool leaves them; each gets "program_time": the modelled "ns" of the
// program with its allocator, of that the "allocator_ns" and what the program's "misses_ns" are, the "ratio" to the
// baseline's, and its interval of some 90 % by what the costs can be off, and the sample ("ratio_low", "ratio_high").
static void program_time_add(json_t *counts, const struct ht_cost_model *model, const char *baseline) {
    const json_t *base = json_object_get(counts, baseline);
    const char *name;
    json_t *one;
    json_object_foreach(counts, name, one) model_groups(model, one);
    json_object_foreach(counts, name, one) {
        struct program_time time = time_of(model, one), base_time = time_of(model, base);
        const double *program = time.program.ns;
        double misses = total(&time.program) - program[HT_COST_INSTRUCTION] - program[HT_COST_FAULT];
        json_t *made = json_pack("{s:f, s:f, s:f}", "ns", whole(&time), "allocator_ns",
                                 total(&time.allocator), "misses_ns", misses);
        if (base) {
            double off = sampling_error(one, base, whole(&time) / whole(&base_time), whole(&base_time));
            add_ratio(made, model, &time, &base_time, off);
        }
        json_object_set_new(one, "program_time", made);
    }
}

static double real_of(const json_t *object, const char *key) {
    return json_real_value(json_object_get(object, key));
}

static void program_time_print(FILE *out, const json_t *counts, const char *baseline) {
    static struct ht_text_table table;
    const char *name;
    json_t *one;
    char versus[300];
    const json_t *sampled = json_object_get(json_object_get(counts, baseline), "sampled");
    snprintf(versus, sizeof versus, "vs %s", baseline);
    table = (struct ht_text_table){.alignments = "lrrrl"};
    ht_table_add(&table, (const char *const[]){sampled ? "your program's time (modelled, sampled)"
                                                       : "your program's time (modelled)",
                                               "ms", "in the allocator", "program's misses", versus});
    json_object_foreach((json_t *)counts, name, one) {
        const json_t *time = json_object_get(one, "program_time");
        char ms[32], allocator[32], misses[32], text[64] = "";
        snprintf(ms, sizeof ms, "%.2f", real_of(time, "ns") / 1e6);
        snprintf(allocator, sizeof allocator, "%.2f", real_of(time, "allocator_ns") / 1e6);
        snprintf(misses, sizeof misses, "%.2f", real_of(time, "misses_ns") / 1e6);
        if (json_object_get(time, "ratio") && strcmp(name, baseline))
            snprintf(text, sizeof text, "%.3f [%.3f, %.3f]", real_of(time, "ratio"),
                     real_of(time, "ratio_low"), real_of(time, "ratio_high"));
        ht_table_add(&table, (const char *const[]){name, ms, allocator, misses, text});
    }
    ht_table_print(out, &table);
    ht_print(out, "In brackets: the error of the costs, from their calibration and the model's residual");
    if (!sampled) ht_print(out, "; counts are exact.\n");
    else
        ht_print(
            out,
            ", and the sample: misses are extrapolated from %d bursts; instructions and page faults are exact.\n",
            (int)json_integer_value(json_object_get(sampled, "bursts")));
}

enum { PROBLEM_BYTES = 512 };

// With accesses, the program's own touch memory, not the replay.
static struct ht_job count_job(const struct ht_runner *r) {
    struct ht_job job = ht_runner_job(r, HT_PASS_FLAT);
    job.repeats = 1;
    job.by_turns = 1;
    if (r->plan->splice_path) {
        // What the C library allocates for a thread is in the trace already, as the program's.
        job.all_first = 1;
        job.touch = HT_TOUCH_NONE;
        job.touch_free = HT_TOUCH_FREE_NONE;
    }
    return job;
}

// What the one process of a run left, or NULL with a problem.
static json_t *counts_of(json_t *processes, const struct ht_plan *plan, char problem[PROBLEM_BYTES]) {
    json_t *counts = json_incref(json_array_get(processes, 0));
    const char *spliced = json_string_value(json_object_get(counts, "splice_problem"));
    json_decref(processes);
    if (!counts) {
        snprintf(problem, PROBLEM_BYTES, "the simulation left no counts");
    } else if (spliced) {
        snprintf(problem, PROBLEM_BYTES, "%s: %s", plan->splice_path, spliced);
    } else if (!json_integer_value(json_object_get(counts, "instructions"))) {
        snprintf(problem, PROBLEM_BYTES, "the simulation counted nothing: it did not find ht_engine_run");
    } else {
        return counts;
    }
    json_decref(counts);
    return NULL;
}

// Why it cannot be simulated, or NULL.
static const char *unsimulated(const struct ht_choice *choice) {
    const struct ht_fault *fault = choice->kind ? choice->kind->faults : NULL;
    while (fault && fault->help &&
           !(fault->unsimulated && ht_version_within(choice->version, fault->since, fault->last)))
        fault++;
    return fault ? fault->help : NULL;
}

// Addresses count: the padding of the environment is the same in each run.
static json_t *count_one(struct ht_runner *r, const struct ht_choice *choice, char problem[PROBLEM_BYTES]) {
    static struct ht_simulation_words words;
    struct ht_random same = {1};
    char *folder = ht_counts_folder(), *pattern = folder ? ht_counts_pattern(folder) : NULL;
    struct ht_simulation simulation = {.caches = !r->plan->instructions,
                                       .profile = r->plan->profile,
                                       .out = pattern,
                                       .within = "ht_engine_run",
                                       .splice = r->plan->splice_path};
    struct ht_job job = count_job(r);
    const char *why;
    if (!pattern) {
        snprintf(problem, PROBLEM_BYTES, "cannot create a temporary folder");
        return NULL;
    }
    bool done = ht_simulation_prepare(&words, &simulation, &why);
    if (!done) snprintf(problem, PROBLEM_BYTES, "%s", why);
    else ht_simulation_set_environment(&words);
    r->channel.simulation = &words;
    done = done && ht_child_run(&r->channel, choice, &job, -1, &same, problem, PROBLEM_BYTES);
    r->channel.simulation = NULL;
    json_t *processes = ht_counts_collect(folder, pattern);
    if (done) return counts_of(processes, r->plan, problem);
    json_decref(processes);
    return NULL;
}

static void print_part(const json_t *all, const char *title, const char *part) {
    static struct ht_text_table table;
    const char *name;
    json_t *counts;
    ht_counts_table_begin(&table, title);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null")) ht_counts_table_add(&table, name, json_object_get(counts, part));
    }
    ht_table_print(stdout, &table);
}

// What the time pass measures: calls and first touches, less the null replayer's.
static json_t *less_null(const json_t *counts, const json_t *null_counts) {
    static const char *const parts[] = {"allocator", "program"};
    json_t *made = json_object(), *value;
    const char *key;
    json_object_foreach(json_object_get(counts, "allocator"), key, value) {
        json_int_t sum = 0;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            sum += json_integer_value(json_object_get(json_object_get(counts, parts[i]), key)) -
                   json_integer_value(json_object_get(json_object_get(null_counts, parts[i]), key));
        json_object_set_new(made, key, json_integer(sum));
    }
    return made;
}

// "time" of each allocator, and what each of its parts takes by the model.
static void add_times(json_t *all, const struct ht_cost_model *model) {
    const json_t *null_counts = json_object_get(all, "null");
    const char *name;
    json_t *counts;
    json_object_foreach(all, name, counts) {
        if (null_counts) json_object_set_new(counts, "time", less_null(counts, null_counts));
        ht_add_modelled(model, json_object_get(counts, "allocator"));
        ht_add_modelled(model, json_object_get(counts, "program"));
        ht_add_modelled(model, json_object_get(counts, "time"));
    }
}

static void print_times(const json_t *all, const char *part, const struct ht_cost_model *model) {
    static struct ht_text_table table;
    const char *name;
    json_t *counts;
    ht_cost_table_begin(&table);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null")) ht_cost_table_add(&table, name, json_object_get(counts, part));
    }
    putchar('\n');
    ht_cost_table_print(stdout, &table, model);
    if (!strcmp(part, "time"))
        puts("modelled: the calls and the first touches of what they return, less the null replayer's");
}

static void print_program(const json_t *all, const char *baseline) {
    putchar('\n');
    print_part(all, "the program under", "program");
    putchar('\n');
    program_time_print(stdout, all, baseline);
}

static void print_all(const struct ht_runner *r, const struct ht_cost_model *model) {
    const json_t *all = r->counts;
    print_part(all, "in calls of", "allocator");
    print_times(all, r->plan->splice_path ? "allocator" : "time", model);
    if (r->plan->splice_path) print_program(all, r->plan->choices.list[r->baseline].name);
    ht_profile_print(stdout, all);
    fflush(stdout);
}

static double instructions_of(const json_t *counts) {
    const json_t *found = json_object_get(json_object_get(counts, "allocator"), "instructions");
    return json_is_integer(found) ? (double)json_integer_value(found) : NAN;
}

// A line of results for each allocator: its counts, and by which costs they became times.
static void keep_all(struct ht_runner *r, const json_t *all, const struct ht_cost_model *model) {
    static const char *const kept[] = {"allocator",     "program",      "time",    "blocks",
                                       "calls_by_size", "program_time", "sampled", "profile"};
    static const struct ht_outcome nothing_measured;
    for (size_t i = 0; i < r->plan->choices.count; i++) {
        const struct ht_choice *choice = &r->plan->choices.list[i];
        json_t *counts = json_object_get(all, choice->name);
        if (!counts) continue;
        json_t *calibration = ht_calibration_json(&model->calibration);
        json_t *made = json_pack("{s:s?, s:b, s:O}", "accesses", r->plan->splice_path, "calibrated",
                                 model->measured, "costs", json_object_get(calibration, "costs"));
        for (size_t j = 0; j < sizeof kept / sizeof *kept; j++) {
            json_t *value = json_object_get(counts, kept[j]);
            json_object_set(made, kept[j], value ? value : json_null());
        }
        struct ht_run_result line = {.choice = choice,
                                     .outcome = &nothing_measured,
                                     .cpu = -1,
                                     .load = ht_machine_load(),
                                     .instructions = instructions_of(counts),
                                     .counts = made,
                                     .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
        json_decref(ht_runner_keep(r, &line));
        json_decref(made);
        json_decref(calibration);
    }
}

static bool count_into(struct ht_runner *r, const struct ht_choice *choice, json_t *all) {
    char problem[PROBLEM_BYTES] = "";
    if (!r->plan->quiet && ht_progress_due(&r->progress))
        ht_progress_draw(&r->progress, r->plan->count_pass ? "simulating: %s" : "counting instructions: %s",
                         choice->name);
    const char *why = unsimulated(choice);
    if (why) snprintf(problem, sizeof problem, "%s", why);
    json_t *counts = why ? NULL : count_one(r, choice, problem);
    if (ht_child_interrupted()) return false;
    if (counts) return !json_object_set_new(all, choice->name, counts);
    ht_progress_end(&r->progress);
    ht_print(stderr, "heaptape replay: %s: %s: %s\n", choice->name,
             r->plan->count_pass ? "--pass count" : "--instructions", problem);
    return false;
}

static size_t count_runs(struct ht_runner *r, struct ht_cost_model *model) {
    const struct ht_choices *choices = &r->plan->choices;
    size_t failed = 0;
    r->counts = json_object();
    ht_progress_start(&r->progress);
    // Instructions are those in calls of the allocator, from which nothing is taken off.
    if (r->plan->count_pass && !r->plan->splice_path) failed += !count_into(r, r->null_choice, r->counts);
    for (size_t i = 0; i < choices->count && !ht_child_interrupted(); i++)
        failed += !count_into(r, &choices->list[i], r->counts);
    ht_progress_end(&r->progress);
    ht_cost_model_read(model);
    add_times(r->counts, model);
    if (r->plan->splice_path) program_time_add(r->counts, model, choices->list[r->baseline].name);
    keep_all(r, r->counts, model);
    for (size_t i = 0; i < choices->count; i++)
        r->instructions[i] = instructions_of(json_object_get(r->counts, choices->list[i].name));
    return failed;
}

size_t ht_count_instructions(struct ht_runner *r) {
    struct ht_cost_model model;
    return count_runs(r, &model);
}

json_t *ht_count_all(struct ht_runner *r, size_t *failed) {
    struct ht_cost_model model;
    *failed = count_runs(r, &model);
    if (*failed >= r->plan->choices.count) return NULL;
    if (!r->plan->json) {
        print_all(r, &model);
        return NULL;
    }
    return json_pack("{s:i, s:s*, s:b, s:o, s:O}", "schema", 1, "accesses", r->plan->splice_path,
                     "calibrated", model.measured, "calibration", ht_calibration_json(&model.calibration),
                     "counts", r->counts);
}
