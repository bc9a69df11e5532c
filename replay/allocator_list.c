// SPDX-License-Identifier: Apache-2.0
#include "allocator_list.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "json_values.h"
#include "knob_choice.h"
#include "print.h"
#include "recorded_program.h"
#include "results_line.h"
#include "talk.h"

// One allocator of the list.
struct listed {
    const struct ht_allocator *entry;  // the catalogue's, which may be another build of the kind
    const struct ht_allocator *kind;   // NULL: not known, of a library given by its path
    const struct ht_choice *choice;    // NULL: not built
    const struct ht_added *added;      // NULL: the user has not added it
    char problem[512];                 // why it cannot be asked who it is; empty: it was asked
};

enum { SETTING_BYTES = 256 };

// How a knob is set by hand: NAME=VALUE of the environment.
static void knob_setting(const struct ht_allocator *kind, const struct ht_knob *knob,
                         char setting[SETTING_BYTES]) {
    char one[SETTING_BYTES / 2] = "VALUE", name[HT_KNOB_NAME_BYTES];
    if (!kind->knobs_prefix)
        snprintf(one, sizeof one, kind->knobs_format, knob->spelled ? knob->spelled : knob->name, "VALUE");
    snprintf(setting, SETTING_BYTES, "%s=%s", ht_knob_variable(kind, knob, name), one);
}

// The value in force, as the allocator reported it; NULL if it did not.
static const char *listed_value(const struct listed *listed, size_t knob) {
    const struct ht_choice *choice = listed->choice;
    bool reported =
        choice && choice->kind == listed->kind && choice->reported[knob].state == HT_KNOB_REPORTED;
    return reported ? choice->reported[knob].value : NULL;
}

// "": not known.
static const char *listed_version(const struct listed *listed) {
    const struct ht_choice *choice = listed->choice;
    return choice && choice->kind == listed->kind ? choice->version : "";
}

// Whether that version has the knob; true where neither it nor the allocator says.
static bool listed_heeds(const struct listed *listed, size_t knob) {
    const char *version = listed_version(listed);
    enum ht_knob_state told = *version ? listed->choice->reported[knob].state : HT_KNOB_UNREPORTED;
    return ht_knob_is_had(&listed->kind->knobs[knob], version, told);
}

static void print_between(const char *since, const char *last) {
    if (since && last) printf(" (versions %s to %s)", since, last);
    else if (since) printf(" (since version %s)", since);
    else if (last) printf(" (up to version %s)", last);
}

static void print_knob(const struct listed *listed, size_t number) {
    const struct ht_knob *knob = &listed->kind->knobs[number];
    const char *value = listed_value(listed, number);
    char setting[SETTING_BYTES];
    const char *version = listed_version(listed);
    struct ht_knob_range range = ht_knob_range_in(knob, version);
    knob_setting(listed->kind, knob, setting);
    printf("    %s: %s", knob->name, knob->help);
    print_between(knob->since, knob->last);
    if (!listed_heeds(listed, number)) printf("; this version ignores it");
    printf("\n      ");
    if (knob->words) printf("one of %s", knob->words);
    else if (ht_knob_is_integer(knob)) printf("%" PRId64 " to %" PRId64, range.lowest, range.highest);
    else printf("0 or 1");
    printf("; default: %s; set by %s", ht_knob_standard_in(knob, version), setting);
    if (value) printf("; in force: %s", value);
    if (knob->also) printf("; also called %s", knob->also);
    printf("%s\n", knob->rounded ? "; the allocator may round it" : "");
}

static void print_fault(const struct ht_fault *fault) {
    printf("    %s", fault->help);
    print_between(fault->since, fault->last);
    if (fault->alignment_lowest) {
        printf(" [alignments from %" PRIu64 " to %" PRIu64 "]", fault->alignment_lowest,
               fault->alignment_highest);
    }
    printf("\n");
}

static void print_kind(const struct listed *listed) {
    const struct ht_allocator *kind = listed->kind;
    printf("  %s\n", listed->entry->title);
    if (listed->added)
        ht_print(stdout, "  added from %s; its version by %s\n", listed->added->source,
                 listed->added->evidence);
    if (listed->entry != kind) printf("  knobs and statistics below: as of %s\n", kind->name);
    printf("  known by: %s; purge call: %s; clock: %s\n", kind->known_by,
           kind->purge_call ? kind->purge_call : "none", kind->clock ? kind->clock : "none");
    if (kind->by_processors) printf("  makes of the number of processors: %s\n", kind->by_processors);
    if (kind->knobs) printf("  knobs:\n");
    for (size_t i = 0; kind->knobs && kind->knobs[i].name; i++) print_knob(listed, i);
    if (kind->statistics) printf("  statistics:\n");
    for (size_t i = 0; kind->statistics && kind->statistics[i].name; i++) {
        printf("    %s: %s\n", kind->statistics[i].name, kind->statistics[i].help);
    }
    if (kind->faults) printf("  known faults:\n");
    for (size_t i = 0; kind->faults && kind->faults[i].help; i++) print_fault(&kind->faults[i]);
}

static void print_verbose(const struct listed *listed, bool first) {
    const struct ht_choice *choice = listed->choice;
    printf("%s", first ? "" : "\n");
    if (!choice) {
        const struct ht_allocator *entry = listed->entry;
        printf("%s  not built%s%s\n", entry->name,
               entry->debian                    ? ": Debian package "
               : entry->crate || entry->archive ? ": option EXTRA_ALLOCATORS"
                                                : "",
               entry->debian ? entry->debian : "");
    } else {
        char shown[sizeof choice->name + HT_SETTINGS_TEXT_BYTES];
        printf("%s%s%s  %s\n", ht_choice_shown(choice, shown), choice->version[0] ? " " : "", choice->version,
               listed->problem[0] ? listed->problem : choice->path);
    }
    if (listed->kind) print_kind(listed);
    else printf("  an allocator of unknown kind\n");
}

static void print_short(const struct listed *listed) {
    const struct ht_choice *choice = listed->choice;
    if (!choice || listed->problem[0]) return;
    char shown[sizeof choice->name + HT_SETTINGS_TEXT_BYTES];
    ht_print(stdout, "%-12s %-10s %s", ht_choice_shown(choice, shown), choice->version, choice->path);
    if (listed->added) ht_print(stdout, "  from %s", listed->added->source);
    putchar('\n');
}

// Whether and where to search: null, or for integers the least and the greatest value, else true.
static json_t *search_json(const struct listed *listed, const struct ht_knob *knob) {
    struct ht_knob_range range = ht_knob_range_in(knob, listed_version(listed)), search = knob->search;
    if (knob->unsearched || !listed_heeds(listed, (size_t)(knob - listed->kind->knobs))) return json_null();
    if (!ht_knob_is_integer(knob)) return json_true();
    if (!search.lowest && !search.highest) search = range;
    if (search.highest > range.highest) search.highest = range.highest;
    return json_pack("[I, I]", (json_int_t)search.lowest, (json_int_t)search.highest);
}

// From which version on, beginning with the first, its range and default are those. Empty where they are always the same.
static json_t *versions_json(const struct ht_knob *knob) {
    json_t *list = json_array();
    const char *since = knob->since;
    for (const struct ht_knob_change *at = knob->changes; at; since = at++->since) {
        struct ht_knob_range range = ht_knob_range_in(knob, since);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "since", since, "lowest",
                                              (json_int_t)range.lowest, "highest", (json_int_t)range.highest,
                                              "default", ht_knob_standard_in(knob, since)));
        if (!at->since) break;
    }
    return list;
}

static json_t *knob_json(const struct listed *listed, size_t number) {
    const struct ht_allocator *kind = listed->kind;
    const struct ht_knob *knob = &kind->knobs[number];
    const char *version = listed_version(listed);
    struct ht_knob_range range = ht_knob_range_in(knob, version);
    bool whole = ht_knob_is_integer(knob);
    char setting[SETTING_BYTES], name[HT_KNOB_NAME_BYTES];
    knob_setting(kind, knob, setting);
    json_t *made = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "name", json_known_text(knob->name), "type",
                             whole         ? "integer"
                             : knob->words ? "word"
                                           : "boolean",
                             "lowest", whole ? json_integer(range.lowest) : json_null(), "highest",
                             whole ? json_integer(range.highest) : json_null(), "words",
                             knob->words ? json_words(knob->words, '|') : json_null(), "default",
                             json_known_text(ht_knob_standard_in(knob, version)));
    json_set_known_text(made, "variable", ht_knob_variable(kind, knob, name));
    json_set_known_text(made, "setting", setting);
    json_t *also = json_words(knob->also, '|');
    json_array_append_new(also, json_known_text(ht_knob_full_name(kind, knob, name)));
    json_object_set_new(made, "also", also);
    json_set_known_text(made, "since", knob->since);
    json_set_known_text(made, "last", knob->last);
    json_object_set_new(made, "by_version", versions_json(knob));
    json_object_set_new(made, "heeded", json_boolean(listed_heeds(listed, number)));
    json_object_set_new(made, "rounded", json_boolean(knob->rounded));
    json_object_set_new(made, "search", search_json(listed, knob));
    json_set_known_text(made, "says", knob->help);
    json_set_known_text(made, "value", listed_value(listed, number));
    return made;
}

// version: of the library; corrupts: whether it has the fault.
static json_t *fault_json(const struct ht_fault *fault, const char *version) {
    bool of_alignment = fault->alignment_lowest != 0;
    bool corrupts = fault->corrupts && version && ht_version_within(version, fault->since, fault->last);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "since", json_known_text(fault->since), "last",
        json_known_text(fault->last), "alignment_lowest",
        of_alignment ? json_integer((json_int_t)fault->alignment_lowest) : json_null(), "alignment_highest",
        of_alignment ? json_integer((json_int_t)fault->alignment_highest) : json_null(), "not_counted",
        fault->unsimulated, "corrupts", corrupts, "says", json_known_text(fault->help));
}

static void add_kind(json_t *made, const struct listed *listed) {
    const struct ht_allocator *kind = listed->kind, *entry = listed->entry;
    json_t *knobs = json_array(), *statistics = json_array(), *faults = json_array();
    for (size_t i = 0; kind && kind->knobs && kind->knobs[i].name; i++) {
        json_array_append_new(knobs, knob_json(listed, i));
    }
    for (size_t i = 0; kind && kind->statistics && kind->statistics[i].name; i++) {
        const struct ht_statistic *statistic = &kind->statistics[i];
        json_array_append_new(statistics, json_pack("{s:o, s:o}", "name", json_known_text(statistic->name),
                                                    "says", json_known_text(statistic->help)));
    }
    for (size_t i = 0; kind && kind->faults && kind->faults[i].help; i++) {
        json_array_append_new(faults, fault_json(&kind->faults[i], listed_version(listed)));
    }
    json_object_set_new(made, "knobs", knobs);
    json_object_set_new(made, "statistics", statistics);
    json_object_set_new(made, "faults", faults);
    json_set_known_text(made, "purge_call", kind ? kind->purge_call : NULL);
    json_set_known_text(made, "clock", kind ? kind->clock : NULL);
    json_set_known_text(made, "by_processors", kind ? kind->by_processors : NULL);
    json_set_known_text(made, "known_by", kind ? kind->known_by : NULL);
    json_set_known_text(made, "debian", entry ? entry->debian : NULL);
    json_set_known_text(made, "package", listed->choice ? ht_package_of_choice(listed->choice) : NULL);
    json_set_known_text(made, "crate", entry ? entry->crate : NULL);
    json_set_known_text(made, "archive", entry ? entry->archive : NULL);
    json_set_known_text(made, "option", entry ? entry->build_switch : NULL);
}

// What the catalogue knows is there whether it is built or not.
static json_t *listed_json(const struct listed *listed) {
    const struct ht_choice *choice = listed->choice;
    const struct ht_allocator *kind = listed->kind, *entry = listed->entry;
    json_t *made = json_pack(
        "{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "name",
        json_known_text(choice ? choice->name : entry->name), "kind",
        json_known_text(kind ? kind->name : NULL), "title", json_known_text(entry ? entry->title : NULL),
        "built", choice != NULL, "version", json_known_text(choice ? choice->version : NULL), "path",
        json_known_text(choice ? choice->path : NULL), "build_id",
        json_known_text(choice ? choice->build_id : NULL), "problem", json_known_text(listed->problem));
    json_object_set_new(made, "environment", choice ? ht_environment_json(choice) : json_null());
    json_object_set_new(made, "settings", choice ? ht_settings_json(choice) : json_null());
    json_object_set_new(made, "left_out", choice ? ht_left_out_json(choice) : json_null());
    json_object_set_new(made, "variables", json_words(kind ? kind->variables : NULL, '|'));
    add_kind(made, listed);
    const struct ht_added *added = listed->added;
    json_object_set_new(made, "added",
                        added ? json_pack("{s:o, s:o, s:o}", "source", json_known_text(added->source),
                                          "sha256", json_known_text(added->sha256), "evidence",
                                          json_known_text(added->evidence))
                              : json_null());
    return made;
}

struct list {
    struct ht_runner *r;
    struct ht_replay_options *options;
    json_t *json;  // NULL: as text
    size_t count;
    int status;
};

static void put(struct list *list, const struct listed *listed) {
    if (list->json) json_array_append_new(list->json, listed_json(listed));
    else if (list->options->plan.verbose) print_verbose(listed, list->count == 0);
    else print_short(listed);
    list->count++;
}

static void add(struct list *list, struct ht_choice *choice, const struct ht_allocator *entry) {
    const struct ht_allocator *kind = entry && entry->build_of ? entry->build_of : entry;
    struct listed listed = {.kind = kind, .entry = entry, .choice = choice};
    if (choice && !ht_runner_describe(list->r, choice, listed.problem, sizeof listed.problem)) {
        fprintf(stderr, "heaptape replay: %s: %s\n", choice->name, listed.problem);
        list->status = HT_EXIT_FAILED;
    }
    if (choice && choice->kind) listed.kind = choice->kind;
    if (!listed.entry) listed.entry = listed.kind;
    static struct ht_added added;
    char problem[HT_ADDED_PROBLEM_BYTES];
    if (choice && *choice->added && ht_added_find(choice->added, &added, problem)) listed.added = &added;
    put(list, &listed);
}

// What the user has added is a stranger's, and a list is no reason to run it.
static void add_added(struct list *list, const char *name) {
    static struct ht_choices one;
    static struct ht_added added;
    char problem[HT_ADDED_PROBLEM_BYTES];
    struct ht_error error = {0};
    one.count = 0;
    bool found = ht_added_find(name, &added, problem);
    if (!found || ht_choices_add_name(&one, name, &error)) {
        ht_print(stderr, "heaptape replay: %s\n", found ? error.message : problem);
        list->status = HT_EXIT_FAILED;
        return;
    }
    struct ht_choice *choice = &one.list[0];
    snprintf(choice->version, sizeof choice->version, "%s", added.version);
    snprintf(choice->path, sizeof choice->path, "%s", added.library);
    put(list, &(struct listed){.entry = added.kind, .kind = added.kind, .choice = choice, .added = &added});
}

static void add_all_added(struct list *list) {
    static char names[HT_ADDED_MAX][HT_ADDED_NAME_BYTES];
    size_t count = ht_added_names(names);
    for (size_t i = 0; i < count; i++) add_added(list, names[i]);
}

static void add_named(struct list *list, const struct ht_allocator *kind) {
    static struct ht_choices one;  // too large for a small stack
    struct ht_error error = {0};
    one.count = 0;
    bool built = ht_choices_add_name(&one, kind->name, &error) == 0;
    add(list, built ? &one.list[0] : NULL, kind);
}

static void add_all(struct list *list) {
    struct ht_choices *choices = &list->options->plan.choices;
    bool all = !ht_option_given(&list->options->given, "alloc");
    if (all && (list->options->plan.verbose || list->options->plan.json)) {
        for (size_t i = 0; ht_allocators[i]; i++) add_named(list, ht_allocators[i]);
        add_all_added(list);
        return;
    }
    if (choices->null_only) add_named(list, ht_allocator_named("null"));
    for (size_t i = 0; i < choices->count; i++) add(list, &choices->list[i], NULL);
    for (size_t i = 0; ht_allocators[i] && all; i++) {
        if (ht_allocators[i]->is_floor && !ht_allocators[i]->is_null) add_named(list, ht_allocators[i]);
    }
    if (all) add_all_added(list);
}

int ht_allocator_list(struct ht_runner *r, struct ht_replay_options *options) {
    struct list list = {.r = r, .options = options, .status = HT_EXIT_DONE};
    static struct ht_recorded_settings settings;
    struct ht_error error = {0};
    if (options->plan.trace_path) {
        if (ht_recorded_settings_read(options->plan.trace_path, &settings, &error)) {
            fprintf(stderr, "heaptape replay: %s\n", error.message);
            return error.status ? error.status : HT_EXIT_FAILED;
        }
        r->settings = &settings;
    }
    if (ht_child_channel_open(&r->channel, NULL, 0, &error)) {
        fprintf(stderr, "heaptape replay: %s\n", error.message);
        return HT_EXIT_FAILED;
    }
    if (options->plan.json) list.json = json_array();
    add_all(&list);
    ht_child_channel_close(&r->channel);
    if (list.json) json_print(list.json);
    return ht_stdout_status("heaptape replay", list.status);
}
