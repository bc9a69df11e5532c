// SPDX-License-Identifier: Apache-2.0
// Gathers the names of a trace's locations: each string once.
#ifndef HEAPTAPE_NAME_BUILDER_H
#define HEAPTAPE_NAME_BUILDER_H

#include <stdbool.h>

#include "map64.h"
#include "site_table.h"

struct name_builder {
    struct ht_frame_name *names;
    size_t names_count, names_room;
    char *strings;
    size_t strings_bytes, strings_room;
    uint32_t strings_count;
    struct map64 known;  // hash of a string -> where it lies, and its number in the high half
    bool no_memory;
};

bool name_builder_init(struct name_builder *builder);
void name_builder_free(struct name_builder *builder);

// Adds a frame at the location, of which those that were inlined come first, the innermost before all. All frames of a
// location are added one after another. NULL and line 0: unknown.
void name_builder_add(struct name_builder *builder, uint32_t location, const char *function, const char *file,
                      uint32_t line);

// The table takes the names, in the order of locations, and keeps those it has of locations without a new one. False for
// want of memory.
bool name_builder_give(struct name_builder *builder, struct ht_site_table *table);

// ---- the names of C++ and Rust functions as their sources have them ----

enum { DEMANGLED_BYTES_MAX = 4096 };

// Does it look like a linker's name of a C++ or Rust function?
bool is_mangled(const char *symbol);

// The function's name without parameters, or the symbol itself. text holds DEMANGLED_BYTES_MAX bytes.
const char *demangled(const char *symbol, char *text);

#endif
