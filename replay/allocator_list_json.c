// An allocator of the list as JSON: what the catalogue knows is there whether it is built or not.
#include <jansson.h>
#include <string.h>

#include "allocator_list.h"

static json_t *text(const char *text) {
    json_t *made = text && *text ? json_string(text) : NULL;
    return made ? made : json_null();
}

static json_t *words_json(const char *words) {
    json_t *list = json_array();
    for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        json_array_append_new(list, json_stringn(at, strcspn(at, "|")));
    }
    return list;
}

// Whether and where to search: null, or for integers the least and the greatest value, else true.
static json_t *search_json(const struct ht_listed *listed, const struct ht_knob *knob) {
    const struct ht_knob_range *range =
        knob->search.lowest || knob->search.highest ? &knob->search : &knob->range;
    bool here = !listed->choice || ht_version_within(listed->choice->version, knob->since, knob->last);
    if (knob->unsearched || !here) return json_null();
    if (!ht_knob_is_integer(knob)) return json_true();
    return json_pack("[I, I]", (json_int_t)range->lowest, (json_int_t)range->highest);
}

static json_t *knob_json(const struct ht_listed *listed, size_t number) {
    const struct ht_allocator *kind = listed->kind;
    const struct ht_knob *knob = &kind->knobs[number];
    bool whole = ht_knob_is_integer(knob);
    char setting[HT_SETTING_BYTES], name[HT_KNOB_NAME_BYTES];
    ht_knob_setting(kind, knob, setting);
    json_t *made =
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "name", text(knob->name), "type",
                  whole         ? "integer"
                  : knob->words ? "word"
                                : "boolean",
                  "lowest", whole ? json_integer(knob->range.lowest) : json_null(), "highest",
                  whole ? json_integer(knob->range.highest) : json_null(), "words",
                  knob->words ? words_json(knob->words) : json_null(), "default", text(knob->standard));
    json_object_set_new(made, "variable", text(ht_knob_variable(kind, knob, name)));
    json_object_set_new(made, "setting", text(setting));
    json_t *also = words_json(knob->also);
    json_array_append_new(also, text(ht_knob_full_name(kind, knob, name)));
    json_object_set_new(made, "also", also);
    json_object_set_new(made, "since", text(knob->since));
    json_object_set_new(made, "last", text(knob->last));
    json_object_set_new(made, "rounded", json_boolean(knob->rounded));
    json_object_set_new(made, "search", search_json(listed, knob));
    json_object_set_new(made, "says", text(knob->help));
    json_object_set_new(made, "value", text(ht_listed_value(listed, number)));
    return made;
}

static json_t *fault_json(const struct ht_fault *fault) {
    bool of_alignment = fault->alignment_lowest != 0;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o}", "since", text(fault->since), "last", text(fault->last),
        "alignment_lowest", of_alignment ? json_integer((json_int_t)fault->alignment_lowest) : json_null(),
        "alignment_highest", of_alignment ? json_integer((json_int_t)fault->alignment_highest) : json_null(),
        "says", text(fault->help));
}

static void add_kind(json_t *made, const struct ht_listed *listed) {
    const struct ht_allocator *kind = listed->kind, *entry = listed->entry;
    json_t *knobs = json_array(), *statistics = json_array(), *faults = json_array();
    for (size_t i = 0; kind && kind->knobs && kind->knobs[i].name; i++) {
        json_array_append_new(knobs, knob_json(listed, i));
    }
    for (size_t i = 0; kind && kind->statistics && kind->statistics[i].name; i++) {
        const struct ht_statistic *statistic = &kind->statistics[i];
        json_array_append_new(statistics, json_pack("{s:o, s:o}", "name", text(statistic->name), "says",
                                                    text(statistic->help)));
    }
    for (size_t i = 0; kind && kind->faults && kind->faults[i].help; i++) {
        json_array_append_new(faults, fault_json(&kind->faults[i]));
    }
    json_object_set_new(made, "knobs", knobs);
    json_object_set_new(made, "statistics", statistics);
    json_object_set_new(made, "faults", faults);
    json_object_set_new(made, "purge_call", text(kind ? kind->purge_call : NULL));
    json_object_set_new(made, "clock", text(kind ? kind->clock : NULL));
    json_object_set_new(made, "known_by", text(kind ? kind->known_by : NULL));
    json_object_set_new(made, "debian", text(entry ? entry->debian : NULL));
    json_object_set_new(made, "crate", text(entry ? entry->crate : NULL));
    json_object_set_new(made, "option", text(entry ? entry->crate_switch : NULL));
}

json_t *ht_listed_json(const struct ht_listed *listed) {
    const struct ht_choice *choice = listed->choice;
    const struct ht_allocator *kind = listed->kind, *entry = listed->entry;
    json_t *made = json_pack(
        "{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "name", text(choice ? choice->name : entry->name), "kind",
        text(kind ? kind->name : NULL), "title", text(entry ? entry->title : NULL), "built", choice != NULL,
        "version", text(choice ? choice->version : NULL), "path", text(choice ? choice->path : NULL),
        "build_id", text(choice ? choice->build_id : NULL), "problem", text(listed->problem));
    add_kind(made, listed);
    return made;
}
