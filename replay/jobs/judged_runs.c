// SPDX-License-Identifier: Apache-2.0
#include "judged_runs.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count_runs.h"
#include "error.h"
#include "heap_share.h"
#include "json_values.h"
#include "limit_report.h"
#include "machine_facts.h"
#include "now.h"
#include "print.h"
#include "replay_job.h"
#include "results_line.h"
#include "simulation.h"
#include "turns.h"

struct ht_baseline_subject {
    const struct ht_plan *plan;
    const struct ht_machine *machine;
    const char *trace_sha256;
    const char *thp;  // of the runs
    uint64_t calls;
    const char *extended;  // in words, or empty
};

// What libraries choose their code by, as far as valgrind shows it to them.
static const char *instruction_set(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? "x86-64-v3" : "x86-64-v2";
#else
    return "other";
#endif
}

static bool has_misses(const struct ht_plan *plan) { return plan->count_pass && !plan->instructions; }

// What the recorded program's allocator was set to, where one of that kind takes part: older files have its figures without.
static void put_settings(json_t *settings, const struct ht_baseline_subject *subject) {
    const struct ht_choices *choices = &subject->plan->choices;
    char text[HT_SETTINGS_TEXT_BYTES];
    for (size_t i = 0; i < choices->count; i++) {
        const struct ht_knob_choices *knobs = &choices->list[i].knobs;
        ht_settings_text(knobs->settings, knobs->settings_count, HT_SETTING_TAKEN, text);
        if (*text) return json_set_text(settings, "allocator_settings", text);
    }
}

static json_t *settings_json(const struct ht_baseline_subject *subject) {
    const struct ht_plan *plan = subject->plan;
    json_t *made =
        json_pack("{s:s, s:s, s:s, s:i, s:f, s:f}", "threads", plan->one_thread ? "1" : "trace", "touch",
                  ht_touch_names[plan->touch], "touch_free", ht_touch_free_names[plan->touch_free], "scale",
                  (int)plan->scale, "age_occupancy", plan->age_occupancy, "age_multiple", plan->age_multiple);
    json_set_known_text(made, "extended", subject->extended);
    json_set_known_text(made, "splice", plan->splice_path);
    if (plan->memory_pass) {
        json_set_text(made, "memory_pace", plan->paces.memory.name);
        json_set_number(made, "purge_ns", plan->purge_ns);
        json_set_number(made, "window_ns", plan->window_ns);
    }
    put_settings(made, subject);
    return made;
}

static json_t *baseline_machine_json(const struct ht_baseline_subject *subject) {
    const struct ht_plan *plan = subject->plan;
    json_t *made = json_pack("{s:i, s:i, s:o, s:s}", "page_bytes", (int)sysconf(_SC_PAGESIZE), "processors",
                             plan->processors ? (int)plan->processors : subject->machine->cores, "libc",
                             json_known_text(subject->machine->libc), "instruction_set", instruction_set());
    json_set_known_text(made, "thp", subject->thp);
    if (has_misses(plan)) {
        struct ht_geometry geometry;
        char text[HT_GEOMETRY_TEXT_BYTES];
        ht_geometry_read(&geometry);
        json_set_text(made, "caches", ht_geometry_text(text, &geometry.size));
    }
    return made;
}

// What figures depend on beside the allocator: trace, settings, machine. An object.
static json_t *baseline_facts_json(const struct ht_baseline_subject *subject) {
    return json_pack("{s:{s:s, s:I}, s:o, s:o}", "trace", "sha256", subject->trace_sha256, "calls",
                     (json_int_t)subject->calls, "settings", settings_json(subject), "machine",
                     baseline_machine_json(subject));
}

// What need not be UTF-8, such as a path, has its bytes as characters then.
static json_t *bytes_json(const char *text) {
    json_t *made = text ? json_string(text) : json_null();
    if (made) return made;
    size_t length = strlen(text), used = 0;
    char *characters = malloc(2 * length + 1);
    for (size_t i = 0; characters && i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x80) characters[used++] = (char)(0xc0 | byte >> 6);
        characters[used++] = (char)(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
    }
    made = json_pack("{s:o}", "latin1", characters ? json_stringn(characters, used) : json_null());
    free(characters);
    return made;
}

static json_t *plan_json(const struct ht_plan *plan) {
    json_t *made =
        json_pack("{s:o, s:o, s:o, s:o}", "trace_path", bytes_json(plan->trace_path), "results_path",
                  bytes_json(plan->results_path), "baseline_file", bytes_json(plan->baseline_file),
                  "write_baseline", bytes_json(plan->write_baseline));
    json_set_number(made, "rounds", plan->rounds);
    json_set_number(made, "budget_ns", plan->budget_ns);
    json_set_number(made, "latest_ns", plan->latest_ns);
    json_set_number(made, "loading_ns", ht_now_ns(CLOCK_MONOTONIC) - plan->begun_ns);
    json_set_number(made, "repeats", plan->repeats);
    json_set_number(made, "repeats_max", HT_REPEATS_MAX);
    json_set_number(made, "seed", plan->seed);
    json_set_number(made, "layouts", HT_LAYOUTS);
    json_set_number(made, "scale", plan->scale);
    json_set_number(made, "processors", plan->processors);
    const struct {
        const char *key;
        bool value;
    } flags[] = {{"budget_given", plan->budget_given},
                 {"layout_fixed", plan->layout_fixed},
                 {"time_pass", plan->time_pass},
                 {"memory_pass", plan->memory_pass},
                 {"count_pass", plan->count_pass},
                 {"instructions", plan->instructions},
                 {"verbose", plan->verbose},
                 {"quiet", plan->quiet},
                 {"json", plan->json},
                 {"pollutes", ht_pollutes(&plan->pollution)}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        json_object_set_new(made, flags[i].key, json_boolean(flags[i].value));
    json_set_text(made, "thp", plan->thp == HT_THP_AS_IS ? NULL : ht_thp_names[plan->thp]);
    json_set_text(made, "touch", ht_touch_names[plan->touch]);
    json_set_figure(made, "time_real", plan->paces.time.real_ns_per_trace_ns);
    json_set_figure(made, "memory_real", plan->paces.memory.real_ns_per_trace_ns);
    json_set_figure(made, "age_occupancy", plan->age_occupancy);
    json_set_number(made, "aged_blocks", plan->aging.blocks);
    json_set_number(made, "aged_kept_bytes", plan->aging.kept_bytes);
    return made;
}

static json_t *trace_json(const struct ht_built_form *built) {
    json_t *made = json_object();
    json_set_number(made, "calls", built->calls_total);
    json_set_number(made, "usable_size_calls", built->calls[HT_USABLE_SIZE]);
    json_set_number(made, "inherited_objects", built->inherited_objects);
    json_object_set_new(made, "has_prelude", json_boolean(built->before));
    json_object_set_new(made, "streamed", json_boolean(built->form->streamed));
    json_set_number(made, "threads", (uint64_t)built->form->streams * built->side_by_side);
    json_set_number(made, "fresh_objects", ht_form_fresh_objects(built));
    json_set_number(made, "touched_peak_bytes", built->touched_peak_bytes);
    json_set_number(made, "zeroed_peak_bytes", built->zeroed_peak_bytes);
    json_set_number(made, "unmeasured_peak_bytes", built->unmeasured_peak_bytes);
    return made;
}

static json_t *program_json(const struct ht_recorded_program *program) {
    char words[HT_HEAP_SHARE_TEXT_BYTES];
    bool is_small = ht_heap_share_is_small(&program->share);
    json_t *made = json_pack("{s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "command", bytes_json(program->command),
                             "allocator", bytes_json(program->allocator), "allocator_version",
                             bytes_json(program->allocator_version), "linked", program->linked, "forked",
                             program->forked, "has_samples", program->has_samples, "sliced", program->sliced);
    json_set_figure(made, "rss_peak_bytes", program->rss_peak_bytes);
    json_set_figure(made, "heap_peak_bytes", program->heap_peak_bytes);
    json_set_figure(made, "heap_low_bytes", program->heap_low_bytes);
    json_set_figure(made, "heap_high_bytes", program->heap_high_bytes);
    json_set_figure(made, "cpu_ns", program->cpu_ns);
    json_object_set_new(made, "thp", bytes_json(program->thp));
    json_set_number(made, "lost_calls", program->lost_calls);
    json_set_number(made, "anomalies", program->anomalies);
    json_set_number(made, "foreign_frees", program->foreign_frees);
    json_set_number(made, "repairs", program->repairs);
    json_object_set_new(made, "extended_words", bytes_json(program->extended.words));
    json_object_set_new(made, "share_words",
                        bytes_json(is_small ? ht_heap_share_words(words, &program->share) : ""));
    json_set_number(made, "share_anon_bytes", program->share.anon_bytes);
    json_set_number(made, "share_explained_bytes", program->share.explained_bytes);
    json_set_number(made, "share_own_bytes", program->share.own_bytes);
    return made;
}

static json_t *choice_json(const struct ht_recorded_program *program, const struct ht_choice *choice) {
    const struct ht_allocator *kind = choice->kind;
    char shown[sizeof choice->name + HT_SETTINGS_TEXT_BYTES];
    json_t *made = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b}", "name", bytes_json(choice->name), "shown",
        bytes_json(ht_choice_shown(choice, shown)), "version", bytes_json(choice->version), "path",
        bytes_json(choice->path), "build_id", bytes_json(choice->build_id), "settings",
        ht_settings_json(choice), "serves", ht_recorded_served(program, choice->name, choice->version),
        "purges_soon", kind && kind->purges_soon, "is_floor", kind && kind->is_floor, "lacks_operators",
        choice->lacks_operators, "skips_queries", choice->skips_queries);
    json_set_known_text(made, "by_processors", kind ? kind->by_processors : NULL);
    json_object_set_new(made, "refusal", bytes_json(choice->refusal));
    json_set_number(made, "refused_calls", choice->refused_calls);
    return made;
}

static json_t *choices_json(const struct ht_runner *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->plan->choices.count; i++)
        json_array_append_new(list, choice_json(r->program, &r->plan->choices.list[i]));
    return list;
}

static json_t *machine_json(const struct ht_runner *r) {
    const struct ht_machine *machine = &r->machine;
    struct ht_huge_pages chosen;
    char problem[256];
    json_t *modes = json_array();
    for (int i = HT_THP_NEVER; i < HT_THPS; i++)
        if (ht_huge_pages_here((enum ht_thp)i, machine->thp, &chosen, problem, sizeof problem))
            json_array_append_new(modes, json_string(ht_thp_names[i]));
    return json_pack("{s:i, s:o, s:o, s:s?, s:o, s:o}", "cores", machine->cores, "governor",
                     bytes_json(machine->governor), "turbo",
                     machine->turbo < 0 ? json_null() : json_boolean(machine->turbo), "turbo_off",
                     machine->turbo_off, "thp", bytes_json(r->huge_pages.mode), "thp_choices", modes);
}

// One replay thread runs on one processor, the same for all runs of a round.
static json_t *processors_json(const struct ht_runner *r) {
    cpu_set_t set;
    json_t *list = json_array();
    if (r->built->form->streams * r->built->side_by_side > 1 || sched_getaffinity(0, sizeof set, &set))
        return list;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((unsigned)i, &set)) json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *conditions_json(const struct ht_conditions *conditions) {
    json_t *list = json_array();
    for (size_t i = 0; i < conditions->count; i++) {
        const struct ht_condition *condition = &conditions->list[i];
        const struct ht_counted *counted = condition->counted;
        json_t *made = json_pack("{s:s, s:s?, s:s?, s:b, s:s, s:b, s:b, s:f}", "text", condition->text,
                                 "figure", counted ? NULL : ht_figure_names[condition->figure], "counted",
                                 counted ? counted->name : NULL, "of_calls", counted && counted->of_calls,
                                 "function", condition->function, "above", condition->above, "inclusive",
                                 condition->inclusive, "limit", condition->limit);
        json_set_count(made, "size_bytes", condition->size_bytes);
        json_array_append_new(list, made);
    }
    return list;
}

static json_t *judge_context(const struct ht_runner *r) {
    const struct ht_baseline_subject subject = {.plan = r->plan,
                                                .machine = &r->machine,
                                                .trace_sha256 = r->trace_sha256,
                                                .thp = r->huge_pages.mode,
                                                .calls = r->built->calls_total,
                                                .extended = r->program->extended.words};
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "version", HEAPTAPE_VERSION,
                     "plan", plan_json(r->plan), "trace", trace_json(r->built), "program",
                     program_json(r->program), "choices", choices_json(r), "baseline",
                     (json_int_t)r->baseline, "machine", machine_json(r), "cpus", processors_json(r),
                     "conditions", conditions_json(&r->plan->conditions), "control_calls",
                     ht_controls_json(&r->built->controls, &r->plan->choices), "baseline_facts",
                     baseline_facts_json(&subject));
}

// What is drawn on the terminal while a job runs: words of the judge, and between them who runs, and for how long.
struct drawing {
    struct ht_runner *runner;
    const char *before, *after, *name;
};

bool ht_judge_meet(struct ht_judge *judge, const struct ht_runner *r, char *missing, size_t room,
                   int *status) {
    json_t *hello = judge->socket >= 0 ? ht_judge_read(judge) : NULL, *ready = NULL;
    if (hello) ht_judge_write(judge, judge_context(r));
    if (hello) ready = ht_judge_read(judge);
    const char *lacks = json_string_value(json_object_get(ready, "missing"));
    bool accepts = json_is_true(json_object_get(ready, "ready"));
    *status = HT_EXIT_DONE;
    if (!ready || lacks) snprintf(missing, room, "%s", lacks ? lacks : "Python cannot be run");
    else if (!accepts) *status = (int)json_integer_value(json_object_get(ready, "status"));
    if (ready && !lacks && !accepts && !*status) *status = HT_EXIT_FAILED;
    json_decref(ready);
    json_decref(hello);
    return accepts;
}

static void draw(void *context, double seconds) {
    struct drawing *drawing = context;
    struct ht_runner *r = drawing->runner;
    char running[32] = "";
    if (r->plan->quiet || !ht_progress_due(&r->progress)) return;
    if (seconds >= 2) snprintf(running, sizeof running, " for %.0f s", seconds);
    ht_progress_draw(&r->progress, "%s%s%s%s", drawing->before, drawing->name, running, drawing->after);
}

static const char *text_of(const json_t *job, const char *key) {
    const char *text = json_string_value(json_object_get(job, key));
    return text ? text : "";
}

static uint32_t number_of(const json_t *job, const char *key) {
    return (uint32_t)json_integer_value(json_object_get(job, key));
}

static bool read_turn(const struct ht_runner *r, const json_t *job, struct ht_turn *turn) {
    const char *pass = text_of(job, "pass");
    *turn = (struct ht_turn){.round = number_of(job, "round"),
                             .who = number_of(job, "who"),
                             .warm_up = json_is_true(json_object_get(job, "warm_up")),
                             .timed_follows = json_is_true(json_object_get(job, "timed_follows")),
                             .cpu = (int)json_integer_value(json_object_get(job, "cpu")),
                             .layout = number_of(job, "layout")};
    if (!strcmp(pass, "flat")) turn->pass = HT_PASS_FLAT;
    else if (!strcmp(pass, "timed")) turn->pass = HT_PASS_TIMED;
    else if (!strcmp(pass, "memory")) turn->pass = HT_PASS_MEMORY;
    else return false;
    return turn->who <= r->plan->choices.count + 1 && turn->layout < HT_LAYOUTS;
}

// The warnings that runs have given since the last answer.
static json_t *new_warnings(struct ht_runner *r) {
    json_t *list = json_array();
    for (; r->warnings_told < r->warnings.count; r->warnings_told++) {
        const struct ht_warning *warning = &r->warnings.list[r->warnings_told];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:s}", "kind", ht_warning_names[warning->kind], "message",
                                        json_text(warning->message), "remedy", warning->remedy));
    }
    return list;
}

// Both draw from one stream of random numbers: its state goes back and forth.
static json_t *random_json(const struct ht_runner *r) {
    char text[32];
    snprintf(text, sizeof text, "%llx", (unsigned long long)r->random.state);
    return json_string(text);
}

static void run_turn(struct ht_runner *r, const json_t *job, json_t *answer) {
    struct ht_turn turn;
    struct drawing drawing = {.runner = r, .before = text_of(job, "before"), .after = text_of(job, "after")};
    if (!read_turn(r, job, &turn)) {
        json_object_set_new(answer, "problem", json_string("not a turn"));
        return;
    }
    drawing.name = ht_turn_choice(r, &turn)->name;
    r->random.state = strtoull(text_of(job, "random"), NULL, 16);
    r->repeats = number_of(job, "repeats");
    r->curves = json_is_true(json_object_get(job, "curves"));
    r->channel.watch.deadline_ns = (uint64_t)json_integer_value(json_object_get(job, "deadline_ns"));
    r->channel.watch.waiting = draw;
    r->channel.watch.context = &drawing;
    draw(&drawing, 0);
    ht_turn_run(r, &turn, answer);
    r->channel.watch.waiting = NULL;
    r->channel.watch.deadline_ns = 0;
    json_object_set_new(answer, "cut_short", json_boolean(r->channel.cut_short));
    json_object_set_new(answer, "random", random_json(r));
}

// The whole count pass, with its text on stdout; "print" is what --json is to print.
static void run_counts(struct ht_runner *r, json_t *answer) {
    size_t failed;
    json_t *print = ht_count_all(r, &failed);
    json_set_number(answer, "failed", failed);
    json_object_set(answer, "counts", r->counts);
    json_object_set_new(answer, "print", print ? print : json_null());
}

static void run_instructions(struct ht_runner *r, json_t *answer) {
    r->failed_counts = ht_count_instructions(r);
    json_set_number(answer, "failed", r->failed_counts);
    json_object_set(answer, "counts", r->counts);
}

static json_t *limits_json(const struct ht_runner *r) {
    json_t *list = json_array();
    for (size_t i = 0; r->plan->limit_pass && i < r->plan->choices.count; i++)
        json_array_append_new(list, ht_limit_json(&r->limits[i], r->limit_by));
    return list;
}

static json_t *figures_json(const struct ht_runner *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->plan->choices.count; i++)
        json_array_append_new(list, ht_figures_json_choice(&r->of_choices[1 + i]));
    return list;
}

static json_t *activity_json(const struct ht_judge *judge) {
    struct ht_activity now;
    ht_activity_read(&now);
    return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o}", "wall_s", now.wall_s, "busy_s",
                     json_figure(now.busy_s), "own_s", now.own_s + ht_judge_cpu_s(judge), "stolen_s",
                     json_figure(now.stolen_s), "throttled_s", json_figure(now.throttled_s), "swapped_bytes",
                     json_figure(now.swapped_bytes));
}

static void print_profile(const struct ht_runner *r) {
    if (r->counts) ht_profile_print(stdout, r->counts);
    fflush(stdout);
}

// False: it is none of ours.
static bool run_job(const struct ht_judge *judge, struct ht_runner *r, const json_t *job, json_t *answer) {
    const char *name = text_of(job, "job");
    if (!strcmp(name, "turn")) run_turn(r, job, answer);
    else if (!strcmp(name, "counts")) run_counts(r, answer);
    else if (!strcmp(name, "instructions")) run_instructions(r, answer);
    else if (!strcmp(name, "figures")) json_object_set_new(answer, "figures", figures_json(r));
    else if (!strcmp(name, "activity")) json_object_set_new(answer, "activity", activity_json(judge));
    else if (!strcmp(name, "profile")) print_profile(r);
    else if (!strcmp(name, "progress")) ht_progress_start(&r->progress);
    else if (!strcmp(name, "quiet")) ht_progress_end(&r->progress);
    else return false;
    return true;
}

int ht_judge_serve(struct ht_judge *judge, struct ht_runner *r, size_t refused) {
    json_t *job;
    fflush(stdout);
    ht_judge_write(judge, json_pack("{s:I, s:o, s:o, s:o}", "refused", (json_int_t)refused, "limits",
                                    limits_json(r), "warnings", new_warnings(r), "random", random_json(r)));
    while ((job = ht_judge_read(judge))) {
        const json_t *status = json_object_get(job, "status");
        json_t *answer = json_object();
        if (status) {
            int judged = (int)json_integer_value(status);
            json_decref(answer);
            json_decref(job);
            return judged;
        }
        if (!run_job(judge, r, job, answer)) json_object_set_new(answer, "unknown", json_true());
        json_object_set_new(answer, "warnings", new_warnings(r));
        json_object_set_new(answer, "interrupted", json_boolean(ht_child_interrupted()));
        json_object_set_new(answer, "results_failed", json_boolean(r->results_failed));
        ht_judge_write(judge, answer);
        json_decref(job);
    }
    ht_progress_end(&r->progress);
    ht_print(stderr, "heaptape replay: %s; completed runs are %s%s\n",
             ht_child_interrupted() ? "stopped" : "what judges the runs has ended before it could",
             r->plan->results_path ? "in " : "lost", r->plan->results_path ? r->plan->results_path : "");
    return HT_EXIT_FAILED;
}
