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

json_t *ht_controls_json(const struct ht_control_counts *counts, const struct ht_choices *choices) {
    json_t *list = json_array();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        char name[HT_CONTROL_TEXT_BYTES];
        json_t *who = json_array();
        for (size_t k = 0; k < choices->count; k++)
            if (obeys(&choices->list[k], &counts->count[i]))
                json_array_append_new(who, json_text(choices->list[k].name));
        json_array_append_new(list, json_pack("{s:o, s:I, s:b, s:b, s:o}", "name",
                                              json_text(ht_control_name(&call, name)), "calls",
                                              (json_int_t)counts->count[i].calls, "changes",
                                              (int)ht_control_changes(&call), "is_kernels",
                                              (int)(call.number == HT_CTL_MADVISE), "obeyed_by", who));
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
