#include "site_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wrappers.h"

int site_words_read(struct site_words *words, struct ht_trace_reader *reader, struct ht_error *error) {
    words->modules = NULL;
    if (ht_trace_site_table(reader, &words->table, error)) return -1;
    json_t *root = words->table.modules_json ? json_loads(words->table.modules_json, 0, NULL) : NULL;
    words->modules = json_incref(json_object_get(root, "modules"));
    json_decref(root);
    return 0;
}

void site_words_free(struct site_words *words) {
    ht_site_table_free(&words->table);
    json_decref(words->modules);
    words->modules = NULL;
}

const char *site_words_module(const struct site_words *words, const struct ht_frame *frame) {
    uint32_t number = frame->location->module;
    const json_t *module = number ? json_array_get(words->modules, number - 1) : NULL;
    const char *path = json_string_value(json_object_get(module, "path"));
    return path ? path : "";
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
