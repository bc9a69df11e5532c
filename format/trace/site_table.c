// SPDX-License-Identifier: Apache-2.0
#include "site_table.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

void ht_site_table_free(struct ht_site_table *table) {
    free(table->modules_json);
    free(table->locations);
    free(table->callers);
    free(table->sites);
    free(table->names);
    free(table->strings);
    free(table->string_at);
    *table = (struct ht_site_table){0};
}

const char *ht_site_table_index_strings(struct ht_site_table *table) {
    const char *at = table->strings ? table->strings : "", *begin = at, *end = at + table->strings_bytes;
    size_t count = 0;
    for (const char *byte = at; byte < end; byte++) count += *byte == 0;
    free(table->string_at);
    table->string_at = malloc((count + 1) * sizeof *table->string_at);
    if (!table->string_at) return "not enough memory for the call sites";
    table->strings_count = 0;
    for (; at < end; at += strlen(at) + 1) table->string_at[table->strings_count++] = (size_t)(at - begin);
    for (size_t i = 0; i < table->names_count; i++)
        for (unsigned k = 0; k < 2; k++) {
            uint32_t string = k ? table->names[i].file : table->names[i].function;
            if (string > count) return ht_found("expected names of known strings", string);
        }
    return NULL;
}

void ht_site_table_drop_lost_names(struct ht_site_table *table) {
    size_t strings = 0, kept = 0;
    for (size_t i = 0; i < table->strings_bytes; i++) strings += table->strings[i] == 0;
    for (size_t i = 0; i < table->names_count; i++)
        if (table->names[i].function <= strings && table->names[i].file <= strings)
            table->names[kept++] = table->names[i];
    table->names_count = kept;
}

struct ht_frames ht_site_frames(const struct ht_site_table *table, uint32_t site) {
    bool known = site && site <= table->sites_count;
    return (struct ht_frames){.table = table, .caller = known ? table->sites[site - 1].caller : 0};
}

// The first name of a location or a later one.
static size_t first_name(const struct ht_site_table *table, uint32_t location) {
    size_t low = 0, high = table->names_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->names[middle].location < location) low = middle + 1;
        else high = middle;
    }
    return low;
}

bool ht_next_frame(struct ht_frames *frames, struct ht_frame *frame) {
    const struct ht_site_table *table = frames->table;
    if (!frames->caller || frames->count++ == HT_FRAMES_MAX) return false;
    const struct ht_caller *caller = &table->callers[frames->caller - 1];
    if (frames->name == frames->end) {
        frames->name = frames->end = first_name(table, caller->location);
        while (frames->end < table->names_count && table->names[frames->end].location == caller->location)
            frames->end++;
    }
    *frame = (struct ht_frame){&table->locations[caller->location], "", "", 0, false};
    if (frames->name < frames->end) {
        const struct ht_frame_name *name = &table->names[frames->name++];
        frame->function = ht_site_string(table, name->function);
        frame->file = ht_site_string(table, name->file);
        frame->line = name->line;
        frame->inlined = frames->name < frames->end;
    }
    if (!frame->inlined) frames->caller = caller->parent;
    return true;
}

// ---- a shorter list of modules ----

// By a module's number in the old list: it has code; then its number in the new one.
enum { UNUSED = 0, USED = 1 };

struct fitting {
    json_t *kept;
    uint32_t *number;
    size_t count;       // in the old list
    size_t room;        // bytes of text that are left
    uint32_t nameless;  // stands for those that do not fit; 0: all do
};

static const char BEGIN_AND_END[] = "{\"modules\":[{},]}";

static bool keep(struct fitting *fitting, json_t *module, uint32_t *number) {
    char *text = json_dumps(module, JSON_COMPACT);
    size_t bytes = text ? strlen(text) + 1 : 0;  // and a comma
    free(text);
    if (!bytes) return false;
    if (bytes > fitting->room) {
        fitting->nameless = 1;
        *number = UNUSED;
        return true;
    }
    fitting->room -= bytes;
    *number = (uint32_t)json_array_size(fitting->kept) + 1;
    return !json_array_append(fitting->kept, module);
}

static bool choose(struct fitting *fitting, const json_t *list, const struct ht_site_table *table) {
    for (size_t i = 0; i < table->locations_count; i++) {
        uint32_t module = table->locations[i].module;
        if (module && module <= fitting->count) fitting->number[module] = USED;
    }
    for (size_t i = 0; i < fitting->count; i++) {
        uint32_t *number = &fitting->number[i + 1];
        if (*number == USED && !keep(fitting, json_array_get(list, i), number)) return false;
    }
    if (!fitting->nameless) return true;
    fitting->nameless = (uint32_t)json_array_size(fitting->kept) + 1;
    return !json_array_append_new(fitting->kept, json_object());
}

static void renumber(const struct fitting *fitting, const struct ht_site_table *table,
                     struct ht_location *locations) {
    for (size_t i = 0; i < table->locations_count; i++) {
        uint32_t module = table->locations[i].module, number = 0;
        if (module && module <= fitting->count) number = fitting->number[module];
        if (module && !number) number = fitting->nameless;
        locations[i] = (struct ht_location){table->locations[i].offset, number};
    }
}

bool ht_site_modules_fit(const struct ht_site_table *table, size_t text_bytes_max,
                         struct ht_site_table *fitted) {
    json_t *root = json_loads(table->modules_json, 0, NULL), *list = json_object_get(root, "modules");
    struct fitting fitting = {
        .kept = json_array(), .count = json_array_size(list), .room = text_bytes_max - strlen(BEGIN_AND_END)};
    json_t *whole = json_pack("{sO}", "modules", fitting.kept);
    fitting.number = calloc(fitting.count + 1, sizeof *fitting.number);
    *fitted = *table;
    fitted->modules_json = NULL;
    fitted->locations = malloc((table->locations_count + 1) * sizeof *fitted->locations);
    bool made = root && whole && fitting.number && fitted->locations && choose(&fitting, list, table);
    if (made) {
        renumber(&fitting, table, fitted->locations);
        fitted->modules_json = json_dumps(whole, JSON_COMPACT);
    }
    free(fitting.number);
    json_decref(whole);
    json_decref(fitting.kept);
    json_decref(root);
    if (made && fitted->modules_json) return true;
    free(fitted->locations);
    return false;
}
