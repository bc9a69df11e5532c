// SPDX-License-Identifier: Apache-2.0
#include "baseline_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counted_figure.h"
#include "geometry.h"
#include "json_values.h"
#include "output_file.h"
#include "replay_job.h"

#define FORMAT "heaptape-baseline"
enum { VERSION = 1, TEXT_BYTES = 128, ROUNDS_MAX = 4096, APART_MAX = 4 };

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

static const char *value_text(const json_t *value, char text[TEXT_BYTES]) {
    char *made = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, TEXT_BYTES, "%.100s", made ? made : "nothing");
    free(made);
    return text;
}

static int refuse(struct ht_error *error, const char *path, const char *what, const char *expected,
                  const char *found) {
    snprintf(error->message, sizeof error->message, "%s: %s: expected %s, found %s", path, what, expected,
             found);
    error->status = HT_EXIT_INPUT;
    return -1;
}

// What has to be equal, in words that say what to do where it is not.
static int check_facts(const char *path, const json_t *root, const json_t *facts, struct ht_error *error) {
    static const char *const parts[] = {"trace", "settings", "machine"};
    const char *key;
    json_t *expected;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = json_object_get(root, parts[i]);
        json_object_foreach(json_object_get(facts, parts[i]), key, expected) {
            const json_t *found = json_object_get(part, key);
            char what[TEXT_BYTES], mine[2 * TEXT_BYTES], other[TEXT_BYTES];
            if (json_equal(expected, found)) continue;
            snprintf(what, sizeof what, "%s.%s", parts[i], key);
            strcat(strcpy(mine, value_text(expected, other)), ", as this run has");
            return refuse(error, path, what, mine, value_text(found, other));
        }
    }
    return 0;
}

static int check_condition(const char *path, const char *name, const json_t *entry,
                           const struct ht_condition *condition, struct ht_error *error) {
    char what[3 * TEXT_BYTES];
    bool known = condition->counted
                     ? !isnan(ht_counted_figure(json_object_get(entry, "counts"), condition))
                     : json_array_size(json_object_get(entry, ht_figure_words[condition->figure].key)) > 0;
    if (known) return 0;
    snprintf(what, sizeof what, "allocators.%.100s: --fail-if %s", name, condition->text);
    return refuse(error, path, what, "figures for it", "none");
}

// Rounds of one run are within percents of each other: one that is far off was not measured.
static int check_median(const char *path, const char *what, const json_t *list, struct ht_error *error) {
    static double sorted[ROUNDS_MAX];
    char expected[TEXT_BYTES], found[TEXT_BYTES];
    const json_t *value;
    size_t i, count = json_array_size(list) < ROUNDS_MAX ? json_array_size(list) : ROUNDS_MAX;
    for (i = 0; i < count; i++) sorted[i] = json_number_value(json_array_get(list, i));
    double median = count ? ht_median(sorted, count) : 0;
    snprintf(expected, sizeof expected, "rounds within %d times of their median, %.0f", APART_MAX, median);
    json_array_foreach(list, i, value) {
        double bytes = json_number_value(value);
        if (bytes > median * APART_MAX || bytes * APART_MAX < median)
            return refuse(error, path, what, expected, value_text(value, found));
    }
    return 0;
}

// What is less the null replayer's ("time") may be below 0, all else is counted.
static int check_counts(const char *path, const char *what, const json_t *value, struct ht_error *error) {
    char inner[2 * TEXT_BYTES], found[TEXT_BYTES];
    const char *key;
    const json_t *item;
    size_t i;
    if (json_is_number(value) && json_number_value(value) < 0)
        return refuse(error, path, what, "a count", value_text(value, found));
    json_object_foreach((json_t *)value, key, item) {
        snprintf(inner, sizeof inner, "%.150s.%.80s", what, key);
        if (strcmp(key, "time") && check_counts(path, inner, item, error)) return -1;
    }
    json_array_foreach(value, i, item) {
        snprintf(inner, sizeof inner, "%.150s.%zu", what, i);
        if (check_counts(path, inner, item, error)) return -1;
    }
    return 0;
}

// Of no use or a trap otherwise: a text would count as 0, and halve a median.
static int check_rounds(const char *path, const char *name, const json_t *entry, struct ht_error *error) {
    char what[2 * TEXT_BYTES], found[TEXT_BYTES];
    for (int figure = HT_FIGURE_PEAK; figure < HT_FIGURES; figure++) {
        const char *key = ht_figure_words[figure].key;
        const json_t *list = json_object_get(entry, key), *value;
        size_t i;
        snprintf(what, sizeof what, "allocators.%.100s.%s", name, key);
        if (list && !json_is_array(list)) return refuse(error, path, what, "a list", value_text(list, found));
        json_array_foreach(list, i, value) if (!json_is_number(value) ||
                                               json_number_value(value) <
                                                   0) return refuse(error, path, what, "numbers of bytes",
                                                                    value_text(value, found));
        if (check_median(path, what, list, error)) return -1;
    }
    snprintf(what, sizeof what, "allocators.%.100s.counts", name);
    return check_counts(path, what, json_object_get(entry, "counts"), error);
}

static int check_allocators(const char *path, const struct ht_earlier *earlier, const struct ht_plan *plan,
                            struct ht_error *error) {
    for (size_t i = 0; i < plan->choices.count; i++) {
        const char *name = plan->choices.list[i].name;
        const json_t *entry = ht_earlier_of(earlier, name);
        char what[2 * TEXT_BYTES];
        snprintf(what, sizeof what, "an entry %.100s, or a single one", name);
        if (!json_is_object(entry)) return refuse(error, path, "allocators", what, "neither");
        if (check_rounds(path, name, entry, error)) return -1;
        for (size_t k = 0; k < plan->conditions.count; k++)
            if (check_condition(path, name, entry, &plan->conditions.list[k], error)) return -1;
    }
    return 0;
}

static int check_root(const char *path, const json_t *root, struct ht_error *error) {
    char found[TEXT_BYTES];
    const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version");
    if (!json_is_string(format) || strcmp(json_string_value(format), FORMAT))
        return refuse(error, path, "format", "\"" FORMAT "\"", value_text(format, found));
    if (json_integer_value(version) != VERSION)
        return refuse(error, path, "version", "1", value_text(version, found));
    if (!json_is_object(json_object_get(root, "allocators")))
        return refuse(error, path, "allocators", "an object", "none");
    return 0;
}

// Of a file that is no JSON: the parser's words only where it begins as such.
static void refuse_text(const char *path, const json_error_t *wrong, struct ht_error *error) {
    FILE *file = fopen(path, "re");
    int first = EOF;
    while (file && (first = getc(file)) != EOF && strchr(" \t\r\n", first) && first) continue;
    if (file) fclose(file);
    if (first == '{')
        ht_error_input(error, path, (uint64_t)wrong->position, "line %d: expected JSON, found: %s",
                       wrong->line, wrong->text);
    else
        ht_error_input(error, path, 0, "expected a baseline, as --write-baseline writes it, found %s",
                       first == EOF ? "an empty file" : "another file");
}

json_t *ht_baseline_file_read(const char *path, const json_t *facts, const struct ht_plan *plan,
                              struct ht_error *error) {
    json_error_t wrong;
    errno = 0;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (!root && wrong.line < 0) {
        error->status = HT_EXIT_INPUT;
        snprintf(error->message, sizeof error->message, "%s: cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    if (!root) {
        refuse_text(path, &wrong, error);
        return NULL;
    }
    struct ht_earlier earlier = {.path = path, .allocators = json_object_get(root, "allocators")};
    json_t *made = NULL;
    if (!check_root(path, root, error) && !check_facts(path, root, facts, error) &&
        !check_allocators(path, &earlier, plan, error))
        made = json_incref(earlier.allocators);
    json_decref(root);
    return made;
}

static json_t *rounds_json(const struct ht_comparison *c, enum ht_figure figure, size_t choice) {
    size_t room = c->measurements ? c->measurements->rounds : 0;
    double *values = calloc(room + 1, sizeof *values);
    json_t *list = json_array();
    size_t count = values && room ? ht_compared_values(c->measurements, figure, choice, values) : 0;
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_whole(values[i]));
    free(values);
    return list;
}

static json_t *counts_json(const json_t *counts) {
    static const char *const kept[] = {"allocator", "program", "time", "calls_by_size"};
    if (!counts) return json_null();
    json_t *made = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *part = json_object_get(counts, kept[i]);
        if (!part) continue;
        part = json_copy(part);
        if (json_is_object(part)) json_object_del(part, "modelled_ns");  // of this machine
        json_object_set_new(made, kept[i], part);
    }
    return made;
}

static json_t *allocator_json(const struct ht_comparison *c, size_t i) {
    const struct ht_choice *choice = &c->plan->choices.list[i];
    json_t *made = json_object();
    json_set_known_text(made, "version", choice->version);
    json_set_known_text(made, "build_id", choice->build_id);
    for (int figure = HT_FIGURE_PEAK; figure < HT_FIGURES; figure++)
        json_object_set_new(made, ht_figure_words[figure].key, rounds_json(c, (enum ht_figure)figure, i));
    json_object_set_new(made, "counts", counts_json(json_object_get(c->counts, choice->name)));
    return made;
}

int ht_baseline_file_write(const char *path, const struct ht_comparison *c, const json_t *facts,
                           struct ht_error *error) {
    json_t *root =
        json_pack("{s:s, s:i, s:s}", "format", FORMAT, "version", VERSION, "heaptape", HEAPTAPE_VERSION);
    json_t *allocators = json_object();
    struct output_file file;
    json_object_update(root, (json_t *)facts);
    for (size_t i = 0; i < c->count; i++)
        json_object_set_new(allocators, c->plan->choices.list[i].name, allocator_json(c, i));
    json_object_set_new(root, "allocators", allocators);
    const char *failed = output_file_open(&file, path) ? "cannot be created" : NULL;
    if (!failed && (json_dumpfd(root, file.fd, JSON_INDENT(1)) || write(file.fd, "\n", 1) != 1))
        failed = "cannot be written";
    if (!failed) failed = output_file_finish(&file);
    if (failed) ht_error_system(error, path, "%s", failed);
    output_file_abandon(&file);
    json_decref(root);
    return failed ? -1 : 0;
}
