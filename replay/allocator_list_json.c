// SPDX-License-Identifier: Apache-2.0
// An allocator of the list as JSON: what the catalogue knows is there whether it is built or not.
#include <jansson.h>
#include <string.h>

#include "allocator_list.h"
#include "json_values.h"
#include "results_line.h"

// Whether and where to search: null, or for integers the least and the greatest value, else true.
static json_t *search_json(const struct ht_listed *listed, const struct ht_knob *knob) {
    struct ht_knob_range range = ht_knob_range_in(knob, ht_listed_version(listed)), search = knob->search;
    if (knob->unsearched || !ht_listed_heeds(listed, (size_t)(knob - listed->kind->knobs)))
        return json_null();
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

static json_t *knob_json(const struct ht_listed *listed, size_t number) {
    const struct ht_allocator *kind = listed->kind;
    const struct ht_knob *knob = &kind->knobs[number];
    const char *version = ht_listed_version(listed);
    struct ht_knob_range range = ht_knob_range_in(knob, version);
    bool whole = ht_knob_is_integer(knob);
    char setting[HT_SETTING_BYTES], name[HT_KNOB_NAME_BYTES];
    ht_knob_setting(kind, knob, setting);
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
    json_object_set_new(made, "heeded", json_boolean(ht_listed_heeds(listed, number)));
    json_object_set_new(made, "rounded", json_boolean(knob->rounded));
    json_object_set_new(made, "search", search_json(listed, knob));
    json_set_known_text(made, "says", knob->help);
    json_set_known_text(made, "value", ht_listed_value(listed, number));
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

static void add_kind(json_t *made, const struct ht_listed *listed) {
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
        json_array_append_new(faults, fault_json(&kind->faults[i], ht_listed_version(listed)));
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

json_t *ht_listed_json(const struct ht_listed *listed) {
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
