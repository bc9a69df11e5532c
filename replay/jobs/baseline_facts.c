// SPDX-License-Identifier: Apache-2.0
#include "baseline_facts.h"

#include <unistd.h>

#include "geometry.h"
#include "json_values.h"
#include "replay_job.h"

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

static json_t *machine_json(const struct ht_baseline_subject *subject) {
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

json_t *ht_baseline_facts(const struct ht_baseline_subject *subject) {
    return json_pack("{s:{s:s, s:I}, s:o, s:o}", "trace", "sha256", subject->trace_sha256, "calls",
                     (json_int_t)subject->calls, "settings", settings_json(subject), "machine",
                     machine_json(subject));
}
