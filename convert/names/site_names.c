// SPDX-License-Identifier: Apache-2.0
#include "site_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "grow.h"
#include "json_values.h"
#include "module_names.h"
#include "sorted.h"

// ---- code that a runtime generated, by the map that it wrote for perf ----

struct code {
    uint64_t start, end;
    size_t order;  // of two that begin at one address, the later one was written over the other
    char *name;
};

struct perf_map {
    struct code *code;
    size_t count, room;
};

static int by_start(const void *a, const void *b) {
    const struct code *left = a, *right = b;
    if (left->start != right->start) return left->start > right->start ? 1 : -1;
    return (left->order > right->order) - (left->order < right->order);
}

// START SIZE NAME, the numbers in hexadecimal digits.
static void take_line(struct perf_map *map, char *line) {
    char *at = line, *name;
    uint64_t start = strtoull(line, &at, 16), size = at == line ? 0 : strtoull(at, &name, 16);
    if (!size || size > UINT64_MAX - start || *name != ' ') return;
    name[strcspn(name, "\n")] = 0;
    if (!ht_grow(&map->code, &map->room, map->count + 1, sizeof *map->code) || !(name = strdup(name + 1)))
        return;
    map->code[map->count] = (struct code){start, start + size, map->count, name};
    map->count++;
}

static const char *name_at(const struct perf_map *map, uint64_t address) {
    size_t behind = HT_FIRST_ABOVE(map->code, map->count, start, address);
    return behind && address < map->code[behind - 1].end ? map->code[behind - 1].name : NULL;
}

// wanted: the numbers of the locations that lie in no module. Nothing is added where the file cannot be read.
static void perf_map_add(struct name_builder *builder, const char *path, const struct ht_location *locations,
                         const uint32_t *wanted, size_t count) {
    struct perf_map map = {0};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (getline(&line, &room, file) > 0) take_line(&map, line);
    free(line);
    fclose(file);
    if (map.count) qsort(map.code, map.count, sizeof *map.code, by_start);
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(&map, locations[wanted[i]].offset - 1);
        if (name) name_builder_add(builder, wanted[i], name, NULL, 0);
    }
    for (size_t i = 0; i < map.count; i++) free(map.code[i].name);
    free(map.code);
}

// ---- all call sites ----

const char *site_names_perf_map(const json_t *context, char path[PERF_MAP_PATH_BYTES]) {
    json_int_t pid = json_integer_value(json_object_get(context, "pid"));
    json_int_t started_ns = json_integer_value(json_object_get(context, "start_realtime_ns"));
    struct stat status;
    snprintf(path, PERF_MAP_PATH_BYTES, "/tmp/perf-%" PRIu32 ".map", (uint32_t)pid);
    if (pid <= 0 || stat(path, &status) || !S_ISREG(status.st_mode)) return NULL;
    // One that was complete when the recording began is another process's.
    return status.st_mtim.tv_sec >= started_ns / 1000000000 ? path : NULL;
}

// Numbers of locations by module, and in a module by offset. NULL for want of memory.
static uint32_t *by_module(const struct ht_site_table *table, size_t modules, size_t *first) {
    uint32_t *sorted = malloc((table->locations_count + 1) * sizeof *sorted);
    if (!sorted) return NULL;
    memset(first, 0, (modules + 2) * sizeof *first);
    for (size_t i = 0; i < table->locations_count; i++)
        if (table->locations[i].module <= modules) first[table->locations[i].module + 1]++;
    for (size_t module = 0; module <= modules; module++) first[module + 1] += first[module];
    for (size_t i = 0; i < table->locations_count; i++)
        if (table->locations[i].module <= modules) sorted[first[table->locations[i].module]++] = (uint32_t)i;
    // Each of first[] has moved to where the next module begins.
    for (size_t module = modules + 1; module > 0; module--) first[module] = first[module - 1];
    first[0] = 0;
    return sorted;
}

static const char *text_of(const json_t *module, const char *key) {
    const char *text = json_string_value(json_object_get(module, key));
    return text ? text : "";
}

static bool add_names(struct name_builder *builder, const struct ht_site_table *table, const json_t *modules,
                      const char *perf_map) {
    size_t count = json_array_size(modules), *first = malloc((count + 2) * sizeof *first);
    uint32_t *wanted = first ? by_module(table, count, first) : NULL;
    if (wanted && perf_map) perf_map_add(builder, perf_map, table->locations, wanted, first[1]);
    for (size_t i = 0; wanted && i < count; i++) {
        const json_t *module = json_array_get(modules, i);
        module_names_add(builder, text_of(module, "path"), text_of(module, "build_id"), table->locations,
                         wanted + first[i + 1], first[i + 2] - first[i + 1]);
    }
    free(first);
    free(wanted);
    return wanted != NULL;
}

bool site_names_resolve(struct ht_site_table *table, const char *perf_map) {
    struct name_builder builder;
    json_t *root = table->modules_json ? json_loads(table->modules_json, 0, NULL) : NULL;
    bool done = name_builder_init(&builder) &&
                add_names(&builder, table, json_object_get(root, "modules"), perf_map) &&
                name_builder_give(&builder, table);
    name_builder_free(&builder);
    json_decref(root);
    return done;
}

size_t site_names_count(const struct ht_site_table *table) {
    size_t count = 0;
    for (size_t i = 0; i < table->names_count; i++)
        count += i == 0 || table->names[i].location != table->names[i - 1].location;
    return count;
}
