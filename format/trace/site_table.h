// SPDX-License-Identifier: Apache-2.0
// The call sites of a trace: stacks as a tree of callers, where their code lies, and its names
// (docs/reference/trace-format.md, "Call sites").
#ifndef HEAPTAPE_SITE_TABLE_H
#define HEAPTAPE_SITE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops.h"
#include "trace_reader.h"

enum {
    HT_NAME_BYTES_MAX = 4096,  // of a function or file; longer ones are cut
    HT_FRAMES_MAX = 4096       // of a site, inlined ones too; a damaged file may have any number
};

// A return address. module: number from 1 of the list of modules; 0: code of no module, at an absolute address.
struct ht_location {
    uint64_t offset;  // in the module, as its symbols have it
    uint32_t module;
};

// A frame of stacks. Numbered from 1, after its parent.
struct ht_caller {
    uint32_t parent;    // the frame that called this one's function; 0: none
    uint32_t location;  // from 0
};

struct ht_site {
    uint32_t caller;  // the innermost frame; 0: no stack is known
    uint32_t flags;   // enum ht_site_flag
};

// A function at a location. Of several, the innermost inlined one comes first.
struct ht_frame_name {
    uint32_t location;
    uint32_t function, file;  // numbers of strings, from 1; 0: unknown
    uint32_t line;
};

struct ht_site_table {
    char *modules_json;  // {"modules": [{"path": ..., "build_id": ...}]}; NULL: no call site is known
    struct ht_location *locations;
    size_t locations_count, locations_room;
    struct ht_caller *callers;
    size_t callers_count, callers_room;
    struct ht_site *sites;  // of site n: sites[n - 1]
    size_t sites_count, sites_room;
    struct ht_frame_name *names;  // in the order of locations
    size_t names_count, names_room;
    char *strings;  // each ends with a zero byte
    size_t strings_bytes, strings_room;
    size_t *string_at;  // where each begins, by number less one; see ht_site_table_index_strings
    size_t strings_count;
};

void ht_site_table_free(struct ht_site_table *table);

// Fills string_at, and checks the names' strings. Returns NULL, or what is wrong.
const char *ht_site_table_index_strings(struct ht_site_table *table);
// For a file that was cut short: drops names whose strings came after the cut.
void ht_site_table_drop_lost_names(struct ht_site_table *table);

// By number; "" for 0.
static inline const char *ht_site_string(const struct ht_site_table *table, uint32_t number) {
    return number ? table->strings + table->string_at[number - 1] : "";
}

// A function on a stack.
struct ht_frame {
    const struct ht_location *location;
    const char *function, *file;  // "" where unknown
    uint32_t line;
    bool inlined;  // into the next frame's function
};

// Steps through the frames of a site, the innermost first.
struct ht_frames {
    const struct ht_site_table *table;
    uint32_t caller;   // of the next frames
    size_t name, end;  // what is left of the names at the location before
    unsigned count;    // of frames so far
};
struct ht_frames ht_site_frames(const struct ht_site_table *table, uint32_t site);
bool ht_next_frame(struct ht_frames *frames, struct ht_frame *frame);

// For a list of modules that is longer than a trace may have it: makes *fitted the same table with its own list of modules and
// locations, both to be freed by the caller: of modules only those with code in the table. One without a path, the last,
// stands for all that do not fit even so. Its other members are the table's. False for want of memory.
bool ht_site_modules_fit(const struct ht_site_table *table, size_t text_bytes_max,
                         struct ht_site_table *fitted);

// Reads the table of a trace, and checks that every number in it names something. Empty in a trace without call sites. Free with ht_site_table_free. Returns 0, or -1 with error.
int ht_trace_site_table(struct ht_trace_reader *reader, struct ht_site_table *table, struct ht_error *error);

#endif
