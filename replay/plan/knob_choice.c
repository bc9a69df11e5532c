// SPDX-License-Identifier: Apache-2.0
#include "knob_choice.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"

bool ht_knob_is_integer(const struct ht_knob *knob) { return knob->range.lowest < knob->range.highest; }

bool ht_knob_is_had(const struct ht_knob *knob, const char *version, enum ht_knob_state told) {
    if (told != HT_KNOB_UNREPORTED) return told == HT_KNOB_REPORTED;
    return !*version || ht_version_within(version, knob->since, knob->last);
}

static const struct ht_knob_change *next_change(const struct ht_knob *knob,
                                                const struct ht_knob_change *change, const char *version) {
    change = change ? change + 1 : knob->changes;
    if (!change || !change->since) return NULL;
    return !*version || ht_version_within(version, change->since, NULL) ? change : NULL;
}

struct ht_knob_range ht_knob_range_in(const struct ht_knob *knob, const char *version) {
    struct ht_knob_range range = knob->range;
    for (const struct ht_knob_change *at = NULL; (at = next_change(knob, at, version));)
        if (at->range.lowest || at->range.highest) range = at->range;
    return range;
}

const char *ht_knob_standard_in(const struct ht_knob *knob, const char *version) {
    const char *standard = knob->standard;
    for (const struct ht_knob_change *at = NULL; (at = next_change(knob, at, version));)
        if (at->standard) standard = at->standard;
    return standard;
}

const char *ht_knob_variable(const struct ht_allocator *kind, const struct ht_knob *knob,
                             char text[HT_KNOB_NAME_BYTES]) {
    if (!kind->knobs_prefix) return kind->knobs_variable;
    snprintf(text, HT_KNOB_NAME_BYTES, "%s%s", kind->knobs_prefix, knob->name);
    for (char *at = text; *at; at++) *at = (char)toupper((unsigned char)*at);
    return text;
}

const char *ht_knob_full_name(const struct ht_allocator *kind, const struct ht_knob *knob,
                              char text[HT_KNOB_NAME_BYTES]) {
    const char *spelled = knob->spelled ? knob->spelled : knob->name;
    if (kind->knobs_prefix) return ht_knob_variable(kind, knob, text);
    snprintf(text, HT_KNOB_NAME_BYTES, "%.*s%s", (int)strcspn(kind->knobs_format, "%"), kind->knobs_format,
             spelled);
    return text;
}

const struct ht_knob *ht_knob_named(const struct ht_allocator *kind, const char *text) {
    char name[HT_KNOB_NAME_BYTES], full[HT_KNOB_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (const struct ht_knob *knob = kind ? kind->knobs : NULL; knob && knob->name; knob++) {
        if (!strcmp(knob->name, name) || !strcmp(ht_knob_full_name(kind, knob, full), name) ||
            ht_fits_any(knob->also, name))
            return knob;
    }
    return NULL;
}

// A number as the kinds' own readers take it: lists know hexadecimal ones, variables fractions and endings of sizes.
static bool is_number(const struct ht_allocator *kind, const struct ht_knob *knob, const char *text) {
    char *end = NULL;
    struct ht_knob_range range = ht_knob_range_in(knob, "");
    double value = kind->knobs_variable ? (double)strtoll(text, &end, 0) : strtod(text, &end);
    if (end == text || !isfinite(value)) return false;
    if (knob->ending && *end) return value >= 0 && strspn(end, "KMGTkmgtiB") == strlen(end);
    return !*end && value >= (double)range.lowest && value <= (double)range.highest;
}

static bool is_boolean(const char *text) {
    static const char *const words[] = {"0", "1", "true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i])) return true;
    return false;
}

// Whether the allocator takes the value. One that it ignored when recorded must not end a replay.
static bool is_taken(const struct ht_allocator *kind, const struct ht_setting *setting) {
    for (const char *at = setting->value; *at; at++)
        if (!isgraph((unsigned char)*at)) return false;
    if (!setting->knob) return *setting->value && ht_fits_any(kind->passed, setting->name);
    if (setting->knob->words)
        return !strchr(setting->value, '|') && ht_has_word(setting->knob->words, '|', setting->value);
    if (ht_knob_is_integer(setting->knob)) return is_number(kind, setting->knob, setting->value);
    return is_boolean(setting->value);
}

// The last word counts, and a list counts more than a variable of one knob (glibc).
static void put(struct ht_recorded_settings *settings, struct ht_setting *setting) {
    if (setting->state != HT_SETTING_OTHERS)
        setting->state = is_taken(settings->kind, setting) ? HT_SETTING_TAKEN : HT_SETTING_LEFT_OUT;
    for (size_t i = 0; i < settings->count; i++) {
        struct ht_setting *other = &settings->list[i];
        if (strcmp(other->name, setting->name)) continue;
        if (*setting->key || !*other->key) *other = *setting;
        return;
    }
    if (settings->count < HT_SETTINGS_MAX) settings->list[settings->count++] = *setting;
}

static void take_part(char *to, size_t room, const char *from, size_t length) {
    snprintf(to, room, "%.*s", (int)(length < room ? length : room - 1), from);
}

// One item of a list: its key ends at the mark that the format has between key and value.
static void add_item(struct ht_recorded_settings *settings, const char *item, size_t length) {
    const struct ht_allocator *kind = settings->kind;
    const char *format = kind->knobs_format, *percent = strchr(format, '%');
    size_t before = (size_t)(percent - format);
    char mark = percent[2];
    const char *found = memchr(item, mark, length);
    size_t key_length = found ? (size_t)(found - item) : length;
    struct ht_setting setting = {0};
    take_part(setting.key, sizeof setting.key, item, key_length);
    take_part(setting.value, sizeof setting.value, found ? found + 1 : "",
              found ? length - key_length - 1 : 0);
    strcpy(setting.variable, kind->knobs_variable);
    if (length < before || strncmp(item, format, before)) {
        setting.state = HT_SETTING_OTHERS;
        strcpy(setting.name, setting.key);
    } else {
        setting.knob = ht_knob_named(kind, setting.key);
        if (!setting.knob) setting.knob = ht_knob_named(kind, setting.key + before);
        snprintf(setting.name, sizeof setting.name, "%s",
                 setting.knob ? setting.knob->name : setting.key + before);
    }
    put(settings, &setting);
}

static void add_list(struct ht_recorded_settings *settings, const char *value) {
    const struct ht_allocator *kind = settings->kind;
    char separators[] = {kind->knobs_separator, 0};
    const char *marks = kind->knobs_separators ? kind->knobs_separators : separators;
    while (*value) {
        size_t length = strcspn(value, marks);
        if (length) add_item(settings, value, length);
        value += length;
        value += *value != 0;
    }
}

// MALLOC_CONF may have another name in an allocator that is part of the program, which then is the one that counts.
static bool is_list(const struct ht_allocator *kind, const char *variable, bool linked) {
    size_t length = strlen(variable), own = kind->knobs_variable ? strlen(kind->knobs_variable) : 0;
    if (!own || length < own || strcmp(variable + length - own, kind->knobs_variable)) return false;
    return length == own || linked;
}

void ht_recorded_settings_add(struct ht_recorded_settings *settings, const char *variable, const char *value,
                              bool linked) {
    const struct ht_allocator *kind = settings->kind;
    char assigned[HT_SETTING_NAME_BYTES + HT_SETTING_VALUE_BYTES];
    struct ht_setting setting = {0};
    if (!kind || strlen(variable) >= HT_SETTING_NAME_BYTES) return;
    snprintf(assigned, sizeof assigned, "%s=%.100s", variable, value);
    if (!ht_fits_any(kind->variables, assigned)) return;
    if (is_list(kind, variable, linked)) return add_list(settings, value);
    // The same list for another build of the allocator is none of this one.
    if (kind->knobs_variable && strstr(variable, kind->knobs_variable)) return;
    setting.knob = ht_knob_named(kind, variable);
    snprintf(setting.name, sizeof setting.name, "%s", setting.knob ? setting.knob->name : variable);
    snprintf(setting.value, sizeof setting.value, "%s", value);
    snprintf(setting.variable, sizeof setting.variable, "%s", variable);
    put(settings, &setting);
}

const char *ht_settings_text(const struct ht_setting *list, size_t count, enum ht_setting_state state,
                             char text[HT_SETTINGS_TEXT_BYTES]) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].state != state) continue;
        int more = snprintf(text + used, HT_SETTINGS_TEXT_BYTES - used, "%s%s%s%s", used ? "," : "",
                            list[i].name, *list[i].value ? "=" : "", list[i].value);
        if (more < 0 || (size_t)more >= HT_SETTINGS_TEXT_BYTES - used) {
            text[used] = 0;
            break;
        }
        used += (size_t)more;
    }
    return text;
}

enum { KNOWN_BYTES = 800 };

bool ht_knob_meant(const struct ht_allocator *kind, const char *text, char meant[HT_KNOB_NAME_BYTES]) {
    char name[HT_KNOB_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    size_t least = HT_SLIPS_MAX + 1;
    for (const struct ht_knob *knob = kind ? kind->knobs : NULL; knob && knob->name; knob++) {
        size_t slips = ht_slips(name, knob->name);
        if (knob->also && ht_slips(name, knob->also) < slips) slips = ht_slips(name, knob->also);
        if (slips >= least) continue;
        least = slips;
        snprintf(meant, HT_KNOB_NAME_BYTES, "%s:%s", kind->name, knob->name);
    }
    // What is another allocator's by its full name is meant so, and what is only like one of this one's is not.
    for (size_t i = 0; ht_allocators[i] && least; i++) {
        const struct ht_knob *knob = ht_knob_named(ht_allocators[i], name);
        if (!knob) continue;
        least = 0;
        snprintf(meant, HT_KNOB_NAME_BYTES, "%s:%s", ht_allocators[i]->name, knob->name);
    }
    return least <= HT_SLIPS_MAX;
}

// reports: of the knobs that an allocator of that version has, NULL: all of its kind.
static void list_knobs(const struct ht_allocator *kind, const char *version,
                       const struct ht_knob_report *reports, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (const struct ht_knob *knob = kind->knobs; knob && knob->name && used < room; knob++) {
        if (reports && !ht_knob_is_had(knob, version, reports[knob - kind->knobs].state)) continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", knob->name);
    }
}

static bool parse_boolean(const char *text, bool *yes) {
    static const char *const words[2][4] = {{"0", "false", "no", "off"}, {"1", "true", "yes", "on"}};
    for (int i = 0; i < 8; i++) {
        if (strcmp(text, words[i / 4][i % 4])) continue;
        *yes = i / 4;
        return true;
    }
    return false;
}

static bool parse_integer(const char *text, int64_t *value) {
    char *end = NULL;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && end != text && !*end;
}

// Value as the allocator spells it.
static bool spell(const struct ht_allocator *kind, const struct ht_knob *knob, const char *text,
                  char value[HT_KNOB_BYTES], char problem[HT_KNOB_PROBLEM_BYTES]) {
    static const char *const digits[] = {"0", "1"};
    const char *const *booleans = kind->knobs_booleans;
    bool yes;
    int64_t number;
    struct ht_knob_range range = ht_knob_range_in(knob, "");  // of any version
    if (knob->words) {
        if (ht_has_word(knob->words, '|', text)) return snprintf(value, HT_KNOB_BYTES, "%s", text) > 0;
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s=%.60s: expected one of %s", knob->name, text,
                 knob->words);
    } else if (ht_knob_is_integer(knob)) {
        if (parse_integer(text, &number) && number >= range.lowest && number <= range.highest)
            return snprintf(value, HT_KNOB_BYTES, "%" PRId64, number) > 0;
        snprintf(problem, HT_KNOB_PROBLEM_BYTES,
                 "%s=%.60s: expected a whole number from %" PRId64 " to %" PRId64, knob->name, text,
                 range.lowest, range.highest);
    } else {
        if (parse_boolean(text, &yes))
            return snprintf(value, HT_KNOB_BYTES, "%s", (booleans ? booleans : digits)[yes]) > 0;
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s=%.60s: expected 0 or 1", knob->name, text);
    }
    return false;
}

// The variable of this name.
static char *variable_of(struct ht_knob_variables *variables, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < variables->count; i++) {
        char *variable = variables->list[i];
        if (!strncmp(variable, name, length) && variable[length] == '=') return variable;
    }
    if (variables->count == HT_KNOB_VARIABLES_MAX) return NULL;
    char *made = variables->list[variables->count++];
    snprintf(made, HT_KNOB_VARIABLE_BYTES, "%s=", name);
    return made;
}

// One more word of a list, or the value of a variable of its own.
static bool append(char *variable, char separator, const char *word) {
    size_t used = variable ? strlen(variable) : HT_KNOB_VARIABLE_BYTES, room = HT_KNOB_VARIABLE_BYTES - used;
    bool begun = used > 0 && used < HT_KNOB_VARIABLE_BYTES && variable[used - 1] != '=';
    char before[2] = {begun ? separator : 0, 0};
    return used < HT_KNOB_VARIABLE_BYTES &&
           (size_t)snprintf(variable + used, room, "%s%s", before, word) < room;
}

static bool put_choice(const struct ht_allocator *kind, const struct ht_knob *knob, const char *value,
                       struct ht_knob_variables *variables) {
    const char *spelled = knob->spelled ? knob->spelled : knob->name,
               *ending = knob->ending ? knob->ending : "";
    char name[HT_KNOB_NAME_BYTES], word[256], one[200];
    char *variable = variable_of(variables, ht_knob_variable(kind, knob, name));
    if (kind->knobs_prefix) {
        snprintf(word, sizeof word, "%s%s", value, ending);
    } else {
        snprintf(one, sizeof one, kind->knobs_format, spelled, value);
        snprintf(word, sizeof word, "%s%s", one, ending);
        if (variable && kind->knobs_always && !strstr(variable, kind->knobs_always) &&
            !append(variable, kind->knobs_separator, kind->knobs_always))
            return false;
    }
    return append(variable, kind->knobs_separator, word);
}

static bool put_setting(const struct ht_allocator *kind, const struct ht_setting *setting,
                        struct ht_knob_variables *variables) {
    char word[HT_SETTING_NAME_BYTES + HT_SETTING_VALUE_BYTES];
    const char mark[] = {kind->knobs_format ? strchr(kind->knobs_format, '%')[2] : 0, 0};
    bool listed = *setting->key, valued = *setting->value;
    snprintf(word, sizeof word, "%s%s%s", setting->key, listed && valued ? mark : "", setting->value);
    return append(variable_of(variables, setting->variable), kind->knobs_separator, word);
}

bool ht_knob_variables_make(const struct ht_knob_choices *choices, bool whole,
                            struct ht_knob_variables *variables) {
    bool fits = true;
    variables->count = 0;
    for (size_t i = 0; i < choices->settings_count; i++) {
        const struct ht_setting *setting = &choices->settings[i];
        if (setting->state == HT_SETTING_TAKEN || whole)
            fits = put_setting(choices->kind, setting, variables) && fits;
    }
    for (size_t i = 0; i < choices->count; i++)
        fits = put_choice(choices->kind, choices->list[i].knob, choices->list[i].value, variables) && fits;
    return fits;
}

static bool is_changed(const struct ht_knob_choices *choices, const struct ht_knob *knob) {
    for (size_t i = 0; i < choices->count; i++)
        if (choices->list[i].knob == knob) return true;
    return false;
}

void ht_knob_choices_take(struct ht_knob_choices *choices, const struct ht_recorded_settings *settings) {
    choices->settings_count = 0;
    for (size_t i = 0; i < settings->count; i++)
        if (!settings->list[i].knob || !is_changed(choices, settings->list[i].knob))
            choices->settings[choices->settings_count++] = settings->list[i];
}

bool ht_knob_choices_add(struct ht_knob_choices *choices, const char *text,
                         char problem[HT_KNOB_PROBLEM_BYTES]) {
    const struct ht_allocator *kind = choices->kind;
    size_t length = strcspn(text, "=");
    const struct ht_knob *knob = ht_knob_named(kind, text);
    if (!kind->knobs) {
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s has no knobs", kind->name);
        return false;
    }
    if (!text[length]) {
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%.60s: expected KNOB=VALUE", *text ? text : kind->name);
        return false;
    }
    if (!knob && kind->knobs_variable && !strncmp(text, kind->knobs_variable, length) &&
        !kind->knobs_variable[length]) {
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s holds several knobs: name each, as in %s:%s=VALUE",
                 kind->knobs_variable, kind->name, kind->knobs->name);
        return false;
    }
    if (!knob) {
        char known[KNOWN_BYTES], meant[HT_KNOB_NAME_BYTES];
        list_knobs(kind, "", NULL, known, sizeof known);
        bool guessed = ht_knob_meant(kind, text, meant);
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s has no knob %.*s%s%s%s; it has %s", kind->name,
                 length < 60 ? (int)length : 60, text, guessed ? " (did you mean " : "", guessed ? meant : "",
                 guessed ? "?)" : "", known);
        return false;
    }
    for (size_t i = 0; i < choices->count; i++) {
        if (choices->list[i].knob != knob) continue;
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s is given twice", knob->name);
        return false;
    }
    if (choices->count == HT_KNOB_CHOICES_MAX) {
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "expected at most %d knobs", HT_KNOB_CHOICES_MAX);
        return false;
    }
    char *value = choices->list[choices->count].value;
    if (!spell(kind, knob, text + length + 1, value, problem)) return false;
    choices->list[choices->count++].knob = knob;
    return true;
}

static bool same(const struct ht_knob *knob, const char *asked, const char *reported) {
    bool a, b;
    int64_t m, n;
    if (knob->words) return !strcmp(asked, reported);
    if (ht_knob_is_integer(knob)) return parse_integer(asked, &m) && parse_integer(reported, &n) && m == n;
    return parse_boolean(asked, &a) && parse_boolean(reported, &b) && a == b;
}

// Whether the version has this value, and not only later ones. What is no number is the same in all.
static bool has_value(const struct ht_knob *knob, const char *version, const char *asked,
                      char problem[HT_KNOB_PROBLEM_BYTES]) {
    struct ht_knob_range range = ht_knob_range_in(knob, version);
    int64_t number;
    if (knob->words || !ht_knob_is_integer(knob) || !parse_integer(asked, &number)) return true;
    if (number >= range.lowest && number <= range.highest) return true;
    snprintf(problem, HT_KNOB_PROBLEM_BYTES,
             "%s=%s: version %.60s takes whole numbers from %" PRId64 " to %" PRId64, knob->name, asked,
             version, range.lowest, range.highest);
    return false;
}

bool ht_knob_choices_heeded(const struct ht_knob_choices *choices, const char *version,
                            const struct ht_knob_report *reports, char problem[HT_KNOB_PROBLEM_BYTES]) {
    for (size_t i = 0; i < choices->count; i++) {
        const struct ht_knob *knob = choices->list[i].knob;
        const struct ht_knob_report *report = &reports[knob - choices->kind->knobs];
        const char *asked = choices->list[i].value;
        if (!ht_knob_is_had(knob, version, report->state)) {
            char known[KNOWN_BYTES];
            list_knobs(choices->kind, version, reports, known, sizeof known);
            snprintf(problem, HT_KNOB_PROBLEM_BYTES, "version %.60s ignores the knob %s; it has %s", version,
                     knob->name, known);
            return false;
        }
        if (!has_value(knob, version, asked, problem)) return false;
        if (report->state != HT_KNOB_REPORTED || knob->rounded || same(knob, asked, report->value)) continue;
        snprintf(problem, HT_KNOB_PROBLEM_BYTES, "%s=%s was set, but %s is in force", knob->name, asked,
                 report->value);
        return false;
    }
    return true;
}
