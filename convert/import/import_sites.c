// SPDX-License-Identifier: Apache-2.0
#include "import_sites.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checksum.h"
#include "grow.h"
#include "module_names.h"
#include "site_names.h"
#include "trace_json.h"

bool import_sites_init(struct import_sites *sites) {
    *sites = (struct import_sites){.modules = json_array()};
    return name_builder_init(&sites->names) && sites->modules && map64_init(&sites->module_of) &&
           map64_init(&sites->location_of) && map64_init(&sites->caller_of) && map64_init(&sites->site_of);
}

void import_sites_free(struct import_sites *sites) {
    ht_site_table_free(&sites->table);
    name_builder_free(&sites->names);
    json_decref(sites->modules);
    map64_free(&sites->module_of);
    map64_free(&sites->location_of);
    map64_free(&sites->caller_of);
    map64_free(&sites->site_of);
}

static uint32_t give_up(struct import_sites *sites) {
    sites->no_memory = true;
    return 0;
}

// What the map has of the key; else gives it `number`. *known: it was there.
static uint64_t number_of(struct import_sites *sites, struct map64 *map, uint64_t key, uint64_t number,
                          bool *known) {
    size_t at = map64_find(map, key);
    *known = map64_has(map, at);
    if (*known) return map->entry[at].value;
    if (!map64_put(map, key, number)) give_up(sites);
    return number;
}

uint32_t import_sites_module(struct import_sites *sites, const char *path, size_t bytes) {
    bool known;
    uint64_t number = number_of(sites, &sites->module_of, XXH64(path, bytes, 0) | 1,
                                json_array_size(sites->modules) + 1, &known);
    if (known) return (uint32_t)number;
    char *text = strndup(path, bytes);
    json_t *module = json_object();
    if (!text || json_object_set_new(module, "path", trace_json_string(text)) ||
        json_array_append_new(sites->modules, module))
        number = give_up(sites);
    free(text);
    return (uint32_t)number;
}

// Two of one hash would be one place: in tables of millions that is one chance in millions.
static uint64_t key_of(uint64_t first, uint64_t second) {
    const uint64_t pair[2] = {first, second};
    return XXH64(pair, sizeof pair, 0) | 1;
}

uint32_t import_sites_location(struct import_sites *sites, uint32_t module, uint64_t offset, bool *known) {
    struct ht_site_table *table = &sites->table;
    uint64_t number =
        number_of(sites, &sites->location_of, key_of(module, offset), table->locations_count, known);
    if (*known) return (uint32_t)number;
    if (sites->no_memory || !ht_grow(&table->locations, &table->locations_room, table->locations_count + 1,
                                     sizeof *table->locations))
        return give_up(sites);
    table->locations[table->locations_count++] = (struct ht_location){offset, module};
    return (uint32_t)number;
}

void import_sites_name(struct import_sites *sites, uint32_t location, const char *function, const char *file,
                       uint32_t line) {
    if (!sites->no_memory) name_builder_add(&sites->names, location, function, file, line);
}

uint32_t import_sites_caller(struct import_sites *sites, uint32_t parent, uint32_t location) {
    struct ht_site_table *table = &sites->table;
    bool known;
    uint64_t number = number_of(sites, &sites->caller_of, ((uint64_t)parent << 32 | location) + 1,
                                table->callers_count + 1, &known);
    if (known) return (uint32_t)number;
    if (sites->no_memory ||
        !ht_grow(&table->callers, &table->callers_room, table->callers_count + 1, sizeof *table->callers))
        return give_up(sites);
    table->callers[table->callers_count++] = (struct ht_caller){parent, location};
    return (uint32_t)number;
}

uint32_t import_sites_number(struct import_sites *sites, uint32_t caller, uint32_t flags) {
    struct ht_site_table *table = &sites->table;
    bool known;
    if (!caller) return 0;
    uint64_t number =
        number_of(sites, &sites->site_of, (uint64_t)flags << 32 | caller, table->sites_count + 1, &known);
    if (known) return (uint32_t)number;
    if (sites->no_memory ||
        !ht_grow(&table->sites, &table->sites_room, table->sites_count + 1, sizeof *table->sites))
        return give_up(sites);
    table->sites[table->sites_count++] = (struct ht_site){caller, flags};
    return (uint32_t)number;
}

// Others' recorders keep no build ids. A file that was there before the trace is taken to be the module.
static void find_build_ids(const struct import_sites *sites, const char *input) {
    struct stat source;
    size_t i;
    json_t *module;
    bool dated = strcmp(input, "-") && !stat(input, &source) && S_ISREG(source.st_mode);
    json_array_foreach(sites->modules, i, module) {
        const char *path = json_string_value(json_object_get(module, "path"));
        char digits[BUILD_ID_DIGITS_BYTES];
        if (path && file_build_id(path, dated ? &source.st_mtim : NULL, digits))
            json_object_set_new(module, "build_id", json_string(digits));
    }
}

// The names that came with the trace, and what is known beyond them. False for want of memory.
static bool give_names(struct import_sites *sites, const struct convert_request *request) {
    if (!name_builder_give(&sites->names, &sites->table)) return false;
    return request->no_names || site_names_resolve(&sites->table, NULL);
}

// A reader takes no more rows from a file of that size (trace_layout.h).
static bool is_in_proportion(const struct ht_site_table *table, const struct ht_trace_writer *writer) {
    uint64_t rows = table->locations_count + table->callers_count + table->sites_count + table->names_count;
    return rows <= HT_FACT_ROWS_FREE + HT_FACT_ROWS_PER_BYTE * ht_trace_bytes(writer);
}

int import_sites_put(struct import_sites *sites, const struct convert_request *request,
                     struct ht_trace_writer *writer, struct ht_error *error) {
    if (!sites->table.sites_count && !sites->no_memory) return 0;
    find_build_ids(sites, request->input);
    json_t *root = json_pack("{sO}", "modules", sites->modules);
    sites->table.modules_json = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (sites->no_memory || !sites->table.modules_json || !give_names(sites, request))
        return ht_error_memory(error, request->input, "cannot list the call sites");
    ht_trace_put_site_table(writer, &sites->table);
    if (is_in_proportion(&sites->table, writer)) return 0;
    return ht_error_input(
        error, request->input, 0,
        "expected stacks in proportion to the calls, found %zu frames, more than a trace of its size may "
        "have",
        sites->table.callers_count);
}
