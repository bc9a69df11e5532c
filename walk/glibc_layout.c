// SPDX-License-Identifier: Apache-2.0
// Where malloc's data lie, of each glibc from 2.26 to 2.43 on x86-64: struct malloc_state, malloc_par and
// tcache_perthread_struct of malloc/malloc.c, heap_info of malloc/arena.c. tests/walk holds them against real libraries.
#include "glibc.h"

// Of all: 64 bins of small chunks a thread, 2.42 has 12 more.
static const struct glibc_layout layouts[] = {
    {.from_minor = 26,
     .to_minor = 26,
     .arena = {.fastbins = 8, .top = 88, .bins = 104, .next = 2152, .system_bytes = 2176, .all = 2192},
     .settings = {8, 16, 24, 40, 44, 56, 72, 80},
     .heap_header_bytes = 32,
     .cache = {.bins = 64, .count_bytes = 1, .all = 576}},
    {.from_minor = 27,
     .to_minor = 28,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 40, 44, 56, 72, 80},
     .heap_header_bytes = 32,
     .cache = {.bins = 64, .count_bytes = 1, .all = 576}},
    {.from_minor = 29,
     .to_minor = 29,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 40, 44, 56, 72, 80},
     .heap_header_bytes = 32,
     .cache = {.bins = 64, .count_bytes = 1, .all = 576},
     .has_key = true},
    {.from_minor = 30,
     .to_minor = 31,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 40, 44, 56, 72, 80},
     .heap_header_bytes = 32,
     .cache = {.bins = 64, .count_bytes = 2, .all = 640},
     .has_key = true},
    {.from_minor = 32,
     .to_minor = 34,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 40, 44, 56, 72, 80},
     .heap_header_bytes = 32,
     .cache = {.bins = 64, .count_bytes = 2, .all = 640},
     .has_key = true,
     .hides_links = true},
    {.from_minor = 35,
     .to_minor = 41,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 60, 64, 80, 96, 104, 48},
     .heap_header_bytes = 48,
     .cache = {.bins = 64, .count_bytes = 2, .all = 640},
     .has_key = true,
     .hides_links = true},
    {.from_minor = 42,
     .to_minor = 42,
     .arena = {.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .system_bytes = 2184, .all = 2200},
     .settings = {8, 16, 24, 60, 64, 80, 96, 104, 48},
     .heap_header_bytes = 48,
     .cache = {.bins = 76, .count_bytes = 2, .all = 760, .counts_room = true},
     .has_key = true,
     .hides_links = true},
    {.from_minor = 43,
     .to_minor = 43,
     .arena = {.top = 8, .bins = 24, .next = 2072, .system_bytes = 2096, .all = 2112},
     .settings = {8, 16, 24, 68, 72, 88, 104, 112},
     .heap_header_bytes = 48,
     .cache = {.bins = 76, .count_bytes = 2, .all = 760, .counts_room = true},
     .has_key = true,
     .hides_links = true,
     .mapped_header_bytes = 16},
};

const struct glibc_layout *glibc_layout_of(int minor) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (minor >= layouts[i].from_minor && minor <= layouts[i].to_minor) return &layouts[i];
    return NULL;
}
