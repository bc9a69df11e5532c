// SPDX-License-Identifier: Apache-2.0
#include "heaptrack_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

static const uint32_t NOWHERE = UINT32_MAX;  // an address that is unknown

void heaptrack_stacks_free(struct heaptrack_stacks *stacks) {
    free(stacks->segment);
    free(stacks->text);
    free(stacks->string_at);
    free(stacks->location);
    free(stacks->frame);
    *stacks = (struct heaptrack_stacks){0};
}

// ---- raw files ----

void heaptrack_stacks_add_code(struct heaptrack_stacks *stacks, struct heaptrack_segment segment) {
    if (!ht_grow(&stacks->segment, &stacks->segments_room, stacks->segments + 1, sizeof segment)) {
        stacks->no_memory = true;
        return;
    }
    stacks->segment[stacks->segments++] = segment;
    stacks->sorted = false;
}

void heaptrack_stacks_forget_code(struct heaptrack_stacks *stacks) { stacks->segments = 0; }

static const struct heaptrack_segment *segment_at(struct heaptrack_stacks *stacks, uint64_t address) {
    if (!stacks->sorted && stacks->segments)
        qsort(stacks->segment, stacks->segments, sizeof *stacks->segment, ht_by_word);
    stacks->sorted = true;
    size_t behind = HT_FIRST_ABOVE(stacks->segment, stacks->segments, start, address);
    return behind && address < stacks->segment[behind - 1].end ? &stacks->segment[behind - 1] : NULL;
}

static void add_frame(struct heaptrack_stacks *stacks, uint32_t location, uint64_t parent) {
    if (!ht_grow(&stacks->frame, &stacks->frames_room, stacks->frames + 1, sizeof *stacks->frame)) {
        stacks->no_memory = true;
        return;
    }
    uint32_t caller = parent ? stacks->frame[parent - 1] : 0;
    stacks->frame[stacks->frames++] =
        location == NOWHERE ? caller : import_sites_caller(stacks->sites, caller, location);
}

bool heaptrack_stacks_add_frame_at(struct heaptrack_stacks *stacks, uint64_t address, uint64_t parent) {
    if (parent > stacks->frames) return false;
    // The call lies in the module, the return address perhaps behind it.
    const struct heaptrack_segment *segment = segment_at(stacks, address - 1);
    bool known;
    add_frame(stacks,
              import_sites_location(stacks->sites, segment ? segment->module : 0,
                                    segment ? address - segment->bias : address, &known),
              parent);
    return true;
}

// ---- files with names ----

void heaptrack_stacks_add_string(struct heaptrack_stacks *stacks, const char *text, size_t bytes) {
    if (!ht_grow(&stacks->text, &stacks->text_room, stacks->text_bytes + bytes + 1, 1) ||
        !ht_grow(&stacks->string_at, &stacks->strings_room, stacks->strings + 1, sizeof *stacks->string_at)) {
        stacks->no_memory = true;
        return;
    }
    stacks->string_at[stacks->strings++] = stacks->text_bytes;
    memcpy(stacks->text + stacks->text_bytes, text, bytes);
    stacks->text[stacks->text_bytes + bytes] = 0;
    stacks->text_bytes += bytes + 1;
}

static const char *string(const struct heaptrack_stacks *stacks, uint64_t number) {
    return number ? stacks->text + stacks->string_at[number - 1] : NULL;
}

// How perf names code of a module of which no more is known. The file lacks the module's load bias, by which the place in it could
// be found.
static void name_by_module(struct heaptrack_stacks *stacks, uint32_t location, uint64_t module) {
    char name[256];
    const char *path = string(stacks, module), *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "[%s]", slash && slash[1] ? slash + 1 : path);
    import_sites_name(stacks->sites, location, name, NULL, 0);
}

bool heaptrack_stacks_add_address(struct heaptrack_stacks *stacks, uint64_t address, uint64_t module,
                                  const struct heaptrack_function *function, size_t functions) {
    bool known, named = functions && (function[0].name || function[0].file);
    if (module > stacks->strings) return false;
    for (size_t i = 0; i < functions; i++)
        if (function[i].name > stacks->strings || function[i].file > stacks->strings) return false;
    uint32_t location = import_sites_location(stacks->sites, 0, address, &known);
    for (size_t i = 0; i < functions && named && !known; i++)
        import_sites_name(stacks->sites, location, string(stacks, function[i].name),
                          string(stacks, function[i].file),
                          function[i].line < UINT32_MAX ? (uint32_t)function[i].line : 0);
    if (!named && !known && module) name_by_module(stacks, location, module);
    if (ht_grow(&stacks->location, &stacks->locations_room, stacks->locations + 1, sizeof *stacks->location))
        stacks->location[stacks->locations++] = location;
    else stacks->no_memory = true;
    return true;
}

bool heaptrack_stacks_add_frame(struct heaptrack_stacks *stacks, uint64_t number, uint64_t parent) {
    if (number > stacks->locations || parent > stacks->frames) return false;
    add_frame(stacks, number ? stacks->location[number - 1] : NOWHERE, parent);
    return true;
}

bool heaptrack_stacks_site(struct heaptrack_stacks *stacks, uint64_t frame, uint32_t *site) {
    if (frame > stacks->frames) return false;
    *site = frame ? import_sites_number(stacks->sites, stacks->frame[frame - 1], 0) : 0;
    return true;
}
