// SPDX-License-Identifier: Apache-2.0
#include "perf_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

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

void perf_map_add(struct name_builder *builder, const char *path, const struct ht_location *locations,
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
