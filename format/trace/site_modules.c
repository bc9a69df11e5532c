// SPDX-License-Identifier: Apache-2.0
#include "site_modules.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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
