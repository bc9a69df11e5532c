// SPDX-License-Identifier: Apache-2.0
#include "judge_context.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "baseline_facts.h"
#include "control_report.h"
#include "heap_share.h"
#include "json_values.h"
#include "now.h"
#include "results_line.h"

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

json_t *ht_judge_context(const struct ht_runner *r) {
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
                     ht_baseline_facts(&subject));
}
