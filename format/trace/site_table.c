// SPDX-License-Identifier: Apache-2.0
#include "site_table.h"

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
