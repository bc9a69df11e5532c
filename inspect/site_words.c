// SPDX-License-Identifier: Apache-2.0
#include "site_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrappers.h"

const char *site_words_module(const struct site_words *words, const struct ht_frame *frame) {
    uint32_t number = frame->location->module;
    const json_t *module = number ? json_array_get(words->modules, number - 1) : NULL;
    const char *path = json_string_value(json_object_get(module, "path"));
    return path ? path : "";
}

static bool allocates_for_callers(const struct site_words *words, size_t location) {
    const struct ht_location *at = &words->table.locations[location];
    return is_runtime_library(site_words_module(words, &(struct ht_frame){.location = at}));
}

// By location, whether call sites are never there. False for want of memory.
static bool find_skipped(struct site_words *words) {
    const struct ht_site_table *table = &words->table;
    words->skipped = calloc(table->locations_count + 1, sizeof *words->skipped);
    if (!words->skipped) return false;
    size_t name = 0;
    for (size_t i = 0; i < table->locations_count; i++) {
        bool wraps = name < table->names_count && table->names[name].location == i;
        for (; name < table->names_count && table->names[name].location == i; name++)
            wraps &= is_wrapper(ht_site_string(table, table->names[name].function),
                                ht_site_string(table, table->names[name].file));
        words->skipped[i] = wraps || allocates_for_callers(words, i);
    }
    return nameless_wrappers_add(table, words->skipped);
}

int site_words_read(struct site_words *words, struct ht_trace_reader *reader, struct ht_error *error) {
    words->modules = NULL;
    words->skipped = NULL;
    if (ht_trace_site_table(reader, &words->table, error)) return -1;
    json_t *root = words->table.modules_json ? json_loads(words->table.modules_json, 0, NULL) : NULL;
    words->modules = json_incref(json_object_get(root, "modules"));
    json_decref(root);
    return find_skipped(words) ? 0 : ht_error_memory(error, "call sites", "cannot read their frames");
}

void site_words_free(struct site_words *words) {
    ht_site_table_free(&words->table);
    json_decref(words->modules);
    words->modules = NULL;
    free(words->skipped);
    words->skipped = NULL;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void site_words_frame(const struct site_words *words, const struct ht_frame *frame, bool with_folder,
                      char text[SITE_TEXT_BYTES]) {
    uint64_t offset = frame->location->offset;
    uint32_t number = frame->location->module;
    const char *module = base_name(site_words_module(words, frame));
    if (*frame->function && *frame->file)
        snprintf(text, SITE_TEXT_BYTES, "%s %s:%" PRIu32, frame->function,
                 with_folder ? frame->file : base_name(frame->file), frame->line);
    else if (*frame->function) snprintf(text, SITE_TEXT_BYTES, "%s", frame->function);
    else if (*module) snprintf(text, SITE_TEXT_BYTES, "%s+0x%" PRIx64, module, offset);
    else if (number) snprintf(text, SITE_TEXT_BYTES, "module %" PRIu32 "+0x%" PRIx64, number, offset);
    else snprintf(text, SITE_TEXT_BYTES, "0x%" PRIx64, offset);
}

bool site_words_find(const struct site_words *words, uint32_t site, struct ht_frame *innermost,
                     struct ht_frame *caller) {
    struct ht_frames frames = ht_site_frames(&words->table, site);
    struct ht_frame frame;
    if (!ht_next_frame(&frames, innermost)) return false;
    *caller = frame = *innermost;
    bool found = false;  // one that is no wrapper; may be a runtime library's own
    do {
        if (is_wrapper(frame.function, frame.file)) continue;
        bool own = is_runtime_library(site_words_module(words, &frame));
        if (!own && !*frame.function && words->skipped[frame.location - words->table.locations]) continue;
        if (!own || !found) *caller = frame;
        if (!own) break;
        found = true;
    } while (ht_next_frame(&frames, &frame));
    return true;
}

bool site_words_caller(const struct site_words *words, uint32_t site, char text[SITE_TEXT_BYTES]) {
    struct ht_frame innermost, caller;
    if (!site_words_find(words, site, &innermost, &caller)) return false;
    site_words_frame(words, &caller, false, text);
    return true;
}
