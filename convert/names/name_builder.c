// SPDX-License-Identifier: Apache-2.0
#include "name_builder.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "grow.h"

bool name_builder_init(struct name_builder *builder) {
    *builder = (struct name_builder){0};
    return map64_init(&builder->known);
}

void name_builder_free(struct name_builder *builder) {
    free(builder->names);
    free(builder->strings);
    map64_free(&builder->known);
    *builder = (struct name_builder){0};
}

static uint32_t number_of(struct name_builder *builder, const char *text) {
    size_t bytes = text ? strnlen(text, HT_NAME_BYTES_MAX) : 0;
    if (!bytes) return 0;
    uint64_t hash = XXH64(text, bytes, 0) | 1;
    size_t at = map64_find(&builder->known, hash);
    bool known = map64_has(&builder->known, at);
    uint64_t value = builder->known.entry[at].value;
    const char *there = known ? builder->strings + (value & UINT32_MAX) : "";
    if (known && strlen(there) == bytes && !memcmp(there, text, bytes)) return (uint32_t)(value >> 32);
    if (builder->strings_bytes + bytes + 1 > UINT32_MAX ||
        !ht_grow(&builder->strings, &builder->strings_room, builder->strings_bytes + bytes + 1, 1)) {
        builder->no_memory = true;
        return 0;
    }
    char *to = builder->strings + builder->strings_bytes;
    memcpy(to, text, bytes);
    to[bytes] = 0;
    value = (uint64_t)++builder->strings_count << 32 | builder->strings_bytes;
    builder->strings_bytes += bytes + 1;
    // If two strings have one hash, the second is stored each time that it occurs.
    if (!known && !map64_put(&builder->known, hash, value)) builder->no_memory = true;
    return builder->strings_count;
}

void name_builder_add(struct name_builder *builder, uint32_t location, const char *function, const char *file,
                      uint32_t line) {
    struct ht_frame_name name = {location, number_of(builder, function), number_of(builder, file), line};
    if (!ht_grow(&builder->names, &builder->names_room, builder->names_count + 1, sizeof *builder->names))
        builder->no_memory = true;
    else builder->names[builder->names_count++] = name;
}

static void keep_names(struct name_builder *builder, const struct ht_site_table *table, const bool *renamed) {
    for (size_t i = 0; i < table->names_count; i++) {
        const struct ht_frame_name *name = &table->names[i];
        if (!renamed[name->location])
            name_builder_add(builder, name->location, ht_site_string(table, name->function),
                             ht_site_string(table, name->file), name->line);
    }
}

// Frames of one location stay as they follow each other.
static struct ht_frame_name *sorted_names(const struct name_builder *builder, size_t locations) {
    struct ht_frame_name *sorted = malloc((builder->names_count + 1) * sizeof *sorted);
    size_t *next = calloc(locations + 1, sizeof *next);
    if (sorted && next) {
        for (size_t i = 0; i < builder->names_count; i++) next[builder->names[i].location + 1]++;
        for (size_t i = 0; i < locations; i++) next[i + 1] += next[i];
        for (size_t i = 0; i < builder->names_count; i++)
            sorted[next[builder->names[i].location]++] = builder->names[i];
    } else {
        free(sorted);
        sorted = NULL;
    }
    free(next);
    return sorted;
}

bool name_builder_give(struct name_builder *builder, struct ht_site_table *table) {
    bool *renamed = calloc(table->locations_count + 1, sizeof *renamed);
    if (!renamed) return false;
    for (size_t i = 0; i < builder->names_count; i++) renamed[builder->names[i].location] = true;
    keep_names(builder, table, renamed);
    free(renamed);
    struct ht_frame_name *names = builder->no_memory ? NULL : sorted_names(builder, table->locations_count);
    if (!names) return false;
    free(table->names);
    free(table->strings);
    table->names = names;
    table->names_count = builder->names_count;
    table->names_room = builder->names_count + 1;
    table->strings = builder->strings;
    table->strings_bytes = builder->strings_bytes;
    table->strings_room = builder->strings_room;
    builder->strings = NULL;
    return !ht_site_table_index_strings(table);
}

// ---- C++ and Rust ----

// libiberty's functions that allocate link code of other licences, those with a callback do not.
struct written {
    char *text;
    size_t bytes;
};

static void write_part(const char *part, size_t bytes, void *opaque) {
    struct written *written = opaque;
    size_t room = DEMANGLED_BYTES_MAX - 1 - written->bytes;
    if (bytes > room) bytes = room;
    memcpy(written->text + written->bytes, part, bytes);
    written->bytes += bytes;
}

bool is_mangled(const char *symbol) {
    return symbol && symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R');
}

const char *demangled(const char *symbol, char *text) {
    if (!is_mangled(symbol)) return symbol;
    struct written written = {.text = text};
    // Older Rust names are C++ names with a hash at the end.
    bool done = rust_demangle_callback(symbol, 0, write_part, &written);
    if (!done) {
        written.bytes = 0;
        done = cplus_demangle_v3_callback(symbol, 0, write_part, &written);
    }
    text[written.bytes] = 0;
    return done && written.bytes ? text : symbol;
}
