// SPDX-License-Identifier: Apache-2.0
#include "recorded_settings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "knob_names.h"
#include "option_values.h"

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
