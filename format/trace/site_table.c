// SPDX-License-Identifier: Apache-2.0
#include "site_table.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "error.h"
#include "grow.h"

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

// ---- reading ----

static const char NO_MEMORY[] = "not enough memory for the call sites";

// The tables on their way out of the file.
struct site_reader {
    struct ht_site_table *table;
    struct ht_unpacker *unpacker;
    uint64_t modules;
    uint64_t *values;  // of a section, column after column
};

static bool is_text_or_absent(const json_t *value) { return !value || json_is_string(value); }

// Sets their number. Returns NULL, or what is wrong.
static const char *check_modules(struct site_reader *from) {
    const char *wrong = NULL;
    size_t i;
    json_t *module, *root = json_loads(from->table->modules_json, 0, NULL);
    json_t *list = json_object_get(root, "modules");
    if (!json_is_object(root)) wrong = "expected modules as a JSON object";
    else if (list && !json_is_array(list)) wrong = "expected a list of modules";
    json_array_foreach(list, i, module) {
        if (!json_is_object(module)) wrong = "expected a list of modules";
        else if (!is_text_or_absent(json_object_get(module, "path")) ||
                 !is_text_or_absent(json_object_get(module, "build_id")))
            wrong = "expected modules with a path and a build id in text";
    }
    from->modules = json_array_size(list);
    json_decref(root);
    return wrong;
}

static const char *take_locations(struct site_reader *from, size_t n) {
    struct ht_site_table *table = from->table;
    const uint64_t *module = from->values, *offset = module + n;
    if (!ht_grow(&table->locations, &table->locations_room, table->locations_count + n,
                 sizeof *table->locations))
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (module[i] > from->modules) return ht_found("expected locations in known modules", module[i]);
        table->locations[table->locations_count++] = (struct ht_location){offset[i], (uint32_t)module[i]};
    }
    return NULL;
}

static const char *take_callers(struct site_reader *from, size_t n) {
    struct ht_site_table *table = from->table;
    const uint64_t *parent = from->values, *location = parent + n;
    if (!ht_grow(&table->callers, &table->callers_room, table->callers_count + n, sizeof *table->callers))
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (parent[i] > table->callers_count) return ht_found("expected callers of earlier rows", parent[i]);
        if (location[i] >= table->locations_count) return ht_found("expected known locations", location[i]);
        table->callers[table->callers_count++] =
            (struct ht_caller){(uint32_t)parent[i], (uint32_t)location[i]};
    }
    return NULL;
}

static const char *take_sites(struct site_reader *from, size_t n) {
    struct ht_site_table *table = from->table;
    const uint64_t *caller = from->values, *flags = caller + n;
    if (!ht_grow(&table->sites, &table->sites_room, table->sites_count + n, sizeof *table->sites))
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (caller[i] > table->callers_count) return ht_found("expected known callers", caller[i]);
        if (flags[i] > UINT32_MAX) return ht_found("expected flags below 2^32", flags[i]);
        table->sites[table->sites_count++] = (struct ht_site){(uint32_t)caller[i], (uint32_t)flags[i]};
    }
    return NULL;
}

// Strings are checked when all are read: they come last.
static const char *take_names(struct site_reader *from, size_t n) {
    struct ht_site_table *table = from->table;
    const uint64_t *location = from->values, *function = location + n, *file = function + n, *line = file + n;
    if (!ht_grow(&table->names, &table->names_room, table->names_count + n, sizeof *table->names))
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        uint32_t last = table->names_count ? table->names[table->names_count - 1].location : 0;
        uint64_t string = function[i] > file[i] ? function[i] : file[i];
        if (location[i] >= table->locations_count) return ht_found("expected known locations", location[i]);
        if (location[i] < last) return ht_found("expected names in the order of locations", location[i]);
        if (string > UINT32_MAX) return ht_found("expected names of known strings", string);
        if (line[i] > UINT32_MAX) return ht_found("expected lines below 2^32", line[i]);
        table->names[table->names_count++] = (struct ht_frame_name){
            (uint32_t)location[i], (uint32_t)function[i], (uint32_t)file[i], (uint32_t)line[i]};
    }
    return NULL;
}

static const char *take_strings(struct site_reader *from, const struct ht_columns *columns) {
    struct ht_site_table *table = from->table;
    struct ht_column_entry entry;
    const uint8_t *stored;
    if (!ht_find_column(columns, 1, &entry, &stored) || !entry.values || entry.values > HT_TEXT_BYTES_MAX)
        return "expected strings of at most 1 MiB";
    if (!ht_grow(&table->strings, &table->strings_room, table->strings_bytes + entry.values, 1))
        return NO_MEMORY;
    char *to = table->strings + table->strings_bytes;
    const char *wrong = ht_unpack_bytes(from->unpacker, &entry, stored, (uint8_t *)to);
    if (wrong) return wrong;
    table->strings_bytes += entry.values;
    return to[entry.values - 1] ? "expected strings that end with a zero byte" : NULL;
}

static const char *take_section(struct site_reader *from, const struct ht_section_header *header,
                                const void *payload) {
    static const struct {
        uint8_t columns;
        const char *(*take)(struct site_reader *from, size_t rows);
    } tables[] = {{2, take_locations}, {2, take_callers}, {2, take_sites}, {4, take_names}};
    const struct ht_columns columns = {payload, header->payload_bytes, header->columns};
    if (header->kind == HT_SECTION_STRINGS) return take_strings(from, &columns);
    unsigned number = header->kind - (unsigned)HT_SECTION_LOCATIONS;
    const char *wrong = NULL;
    assert(number < sizeof tables / sizeof *tables);
    for (uint8_t i = 0; i < tables[number].columns && !wrong; i++)
        wrong = ht_column_u64(from->unpacker, &columns, i + 1, from->values + (size_t)i * header->rows,
                              header->rows);
    return wrong || !header->rows ? wrong : tables[number].take(from, header->rows);
}

// Reads the i-th section, which is one of the tables'. *rows: of the tables so far. Returns 0 or -1 with error.
static int read_section(struct site_reader *from, struct ht_trace_reader *reader, size_t i, uint64_t *rows,
                        struct ht_error *error) {
    uint64_t rows_max = HT_FACT_ROWS_FREE + HT_FACT_ROWS_PER_BYTE * ht_trace_file_bytes(reader);
    const struct ht_section_header *header;
    const void *payload;
    if (ht_trace_stored(reader, i, &header, &payload, error)) return -1;
    *rows += header->rows;
    const char *wrong =
        *rows > rows_max ? "expected fewer rows of call sites" : take_section(from, header, payload);
    return wrong ? ht_trace_bad_place(reader, i, error, wrong) : 0;
}

// One table after another, wherever their sections are: each names rows of those before it.
static int read_tables(struct site_reader *from, struct ht_trace_reader *reader, struct ht_error *error) {
    uint64_t rows = 0;
    const char *wrong = from->table->modules_json ? check_modules(from) : NULL;
    if (wrong) return ht_trace_bad_section(reader, HT_SECTION_MODULES, error, wrong);
    for (uint32_t kind = HT_SECTION_LOCATIONS; kind <= HT_SECTION_STRINGS; kind++)
        for (size_t i = 0; i < ht_trace_sections(reader); i++)
            if (ht_trace_section(reader, i)->kind == kind && read_section(from, reader, i, &rows, error))
                return -1;
    if (ht_trace_truncated(reader)) ht_site_table_drop_lost_names(from->table);
    wrong = ht_site_table_index_strings(from->table);
    return wrong ? ht_trace_bad_section(reader, HT_SECTION_NAMES, error, wrong) : 0;
}

int ht_trace_site_table(struct ht_trace_reader *reader, struct ht_site_table *table, struct ht_error *error) {
    enum { COLUMNS_MAX = 4 };
    reader = ht_trace_of_file(reader);
    *table = (struct ht_site_table){.modules_json = ht_trace_modules_json(reader, error)};
    if (!table->modules_json && error->status) return -1;
    struct site_reader from = {.table = table,
                               .unpacker = ht_unpacker_new(),
                               .values =
                                   malloc((size_t)HT_SECTION_ROWS_MAX * COLUMNS_MAX * sizeof *from.values)};
    int status = from.unpacker && from.values
                     ? read_tables(&from, reader, error)
                     : ht_error_memory(error, ht_trace_path(reader), "cannot read the call sites");
    ht_unpacker_free(from.unpacker);
    free(from.values);
    if (status) ht_site_table_free(table);
    return status;
}
