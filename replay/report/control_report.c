// SPDX-License-Identifier: Apache-2.0
#include "control_report.h"

#include <string.h>

#include "json_values.h"
#include "print.h"
#include "talk.h"

static struct ht_control_call call_of(const struct ht_control_count *count) {
    return (struct ht_control_call){.number = count->number, .first = count->first, .second = count->second};
}

// What is advised the kernel does, whoever serves.
static bool obeys(const struct ht_choice *choice, const struct ht_control_count *count) {
    const struct ht_control_call call = call_of(count);
    if (count->number == HT_CTL_MADVISE) return true;
    return choice->kind && ht_control_changes(&call) &&
           ht_fits_any(choice->kind->obeys, ht_control_symbol(call.number));
}

static bool obey_alike(const struct ht_choices *choices, const struct ht_control_count *one,
                       const struct ht_control_count *other) {
    for (size_t i = 0; i < choices->count; i++)
        if (obeys(&choices->list[i], one) != obeys(&choices->list[i], other)) return false;
    return (one->number == HT_CTL_MADVISE) == (other->number == HT_CTL_MADVISE);
}

// "malloc_trim 6 times, mallopt(M_ARENA_MAX) once": those from `first` on that the same allocators obey.
static void print_calls(FILE *out, const struct ht_comparison *c, unsigned first) {
    const struct ht_control_counts *counts = &c->built->controls;
    char name[HT_CONTROL_TEXT_BYTES], times[HT_NUMBER_OF_BYTES];
    for (unsigned i = first; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_count *count = &counts->count[i];
        const struct ht_control_call call = call_of(count);
        if (!ht_control_changes(&call) || !obey_alike(&c->plan->choices, &counts->count[first], count))
            continue;
        ht_print(out, "%s%s %s", i == first ? "" : ", ", ht_control_name(&call, name),
                 count->calls == 1 ? "once" : ht_number_of(times, count->calls, "time"));
    }
}

static void print_who(FILE *out, const struct ht_choices *choices, const struct ht_control_count *count) {
    size_t who = 0, named = 0;
    for (size_t i = 0; i < choices->count; i++) who += obeys(&choices->list[i], count);
    if (choices->count == 1) {
        bool kernel = count->number == HT_CTL_MADVISE;
        ht_print(out, kernel ? "replayed on the same bytes\n" : "%s %s\n", choices->list[0].name,
                 who ? "obeys" : "does not obey");
    } else if (who == 0 || who == choices->count) {
        ht_print(out, "%s\n",
                 !who                              ? "none of these obeys"
                 : count->number == HT_CTL_MADVISE ? "replayed on the same bytes"
                                                   : "all obey");
    } else {
        for (size_t i = 0; i < choices->count; i++)
            if (obeys(&choices->list[i], count))
                ht_print(out, "%s%s",
                         named++ == 0   ? ""
                         : named == who ? " and "
                                        : ", ",
                         choices->list[i].name);
        ht_print(out, " alone %s\n", who == 1 ? "obeys" : "obey");
    }
}

void ht_controls_print(FILE *out, const struct ht_comparison *c) {
    const struct ht_control_counts *counts = &c->built->controls;
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        bool told = !ht_control_changes(&call);
        for (unsigned k = 0; k < i && !told; k++) {
            const struct ht_control_call before = call_of(&counts->count[k]);
            told = ht_control_changes(&before) &&
                   obey_alike(&c->plan->choices, &counts->count[k], &counts->count[i]);
        }
        if (told) continue;
        ht_print(out, "the program calls ");
        print_calls(out, c, i);
        ht_print(out, ": ");
        print_who(out, &c->plan->choices, &counts->count[i]);
    }
}

json_t *ht_controls_json(const struct ht_comparison *c) {
    const struct ht_control_counts *counts = &c->built->controls;
    const struct ht_choices *choices = &c->plan->choices;
    json_t *list = json_array();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        char name[HT_CONTROL_TEXT_BYTES];
        json_t *who = json_array();
        for (size_t k = 0; k < choices->count; k++)
            if (obeys(&choices->list[k], &counts->count[i]))
                json_array_append_new(who, json_text(choices->list[k].name));
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:o}", "name", json_text(ht_control_name(&call, name)),
                                        "calls", (json_int_t)counts->count[i].calls, "obeyed_by", who));
    }
    return list;
}

json_t *ht_run_controls_json(const struct ht_control_counts *counts, const struct ht_choice *choice) {
    json_t *calls = json_object();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        char name[HT_CONTROL_TEXT_BYTES];
        json_object_set_new(calls, ht_control_name(&call, name),
                            json_pack("{s:I, s:b}", "calls", (json_int_t)counts->count[i].calls, "obeyed",
                                      (int)obeys(choice, &counts->count[i])));
    }
    return calls;
}
