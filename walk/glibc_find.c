// SPDX-License-Identifier: Apache-2.0
// Where malloc's data are, without symbols: the main arena by its bins, of which an empty one points at itself, and
// malloc's settings by their default values. What is found is right only if the checks of the walk hold.
#include <stdlib.h>
#include <string.h>

#include "glibc.h"

// ---- layouts ----
//
// They say where malloc's data lie, of each glibc from 2.26 to 2.43 on x86-64: struct malloc_state, malloc_par and
// tcache_perthread_struct of malloc/malloc.c, heap_info of malloc/arena.c. tests/walk holds them against real libraries.

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

// ---- the search ----

enum { DATA_BYTES_MAX = 64 << 20, HEAP_BYTES_MAX = 64 << 20, HUGE_PAGE_BYTES_MIN = 2 << 20 };

struct data {
    uint64_t start;
    const uint64_t *words;
    size_t count;
};

static uint64_t word_at(const struct data *data, uint64_t address) {
    return data->words[(address - data->start) / 8];
}

// The 127 bins of an arena that begins there: an empty one points at itself, twice; of others both ends lie elsewhere.
static bool has_bins(const struct glibc_layout *layout, const struct data *data, uint64_t arena) {
    for (int i = 0; i < GLIBC_BINS; i++) {
        uint64_t at = arena + layout->arena.bins + 16 * (uint64_t)i, itself = at - 16;
        uint64_t first = word_at(data, at), last = word_at(data, at + 8);
        if (first == itself && last == itself) continue;
        if (first == itself || last == itself || !first || !last || (first | last) % 16) return false;
    }
    return true;
}

// Other arenas lie behind the header of their first heap; their list leads back.
static bool leads_back(struct glibc *glibc, uint64_t arena, uint64_t next) {
    for (int i = 0; i < GLIBC_ARENAS_MAX && next != arena; i++) {
        if (!glibc_spend(glibc, EFFORT_WORD)) return false;
        if (next % glibc->heap_bytes_max != glibc->layout->heap_header_bytes) return false;
        if (!space_read_all(glibc->space, next + glibc->layout->arena.next, &next, sizeof next)) return false;
    }
    return next == arena;
}

// The last bin is always empty.
static uint64_t find_arena(struct glibc *glibc, const struct data *data) {
    const struct glibc_layout *layout = glibc->layout;
    uint64_t last_bin = layout->arena.bins + 16 * (uint64_t)(GLIBC_BINS - 1);
    uint64_t data_end = data->start + data->count * 8;
    for (uint64_t at = data->start + last_bin; at + 16 <= data_end; at += 8) {
        uint64_t arena = at - last_bin;
        if (word_at(data, at) != at - 16 || word_at(data, at + 8) != at - 16) continue;
        if (arena + layout->arena.all > data_end || !has_bins(layout, data, arena)) continue;
        if (leads_back(glibc, arena, word_at(data, arena + layout->arena.next))) return arena;
    }
    return 0;
}

static uint32_t half_at(const struct data *data, uint64_t address) {
    uint32_t value;
    memcpy(&value, (const char *)data->words + (address - data->start), sizeof value);
    return value;
}

enum { SETTINGS_LIKENESS_MIN = 4 };

// How many of the settings have the values that glibc starts with; the program may have changed some.
static int likeness_of(const struct glibc_layout *layout, const struct data *data, uint64_t at) {
    uint64_t threshold = word_at(data, at + layout->settings.mmap_threshold);
    uint64_t bins = word_at(data, at + layout->settings.cache_bins),
             base = word_at(data, at + layout->settings.sbrk_base);
    if (base >> 47) return 0;
    return (word_at(data, at) == 2 * threshold || word_at(data, at) == 131072) +
           (word_at(data, at + layout->settings.top_pad) == 131072) +
           (threshold >= 131072 && threshold <= HEAP_BYTES_MAX / 2) +
           (word_at(data, at + layout->settings.arena_test) == 8) +
           (half_at(data, at + layout->settings.mapped_count_max) == 65536) + (bins == 64) +
           (bins == 64 && word_at(data, at + layout->settings.cache_bins + 8) / 16 == 64);
}

static uint64_t find_settings(const struct glibc_layout *layout, const struct data *data) {
    uint64_t best = 0, data_end = data->start + data->count * 8;
    int most = SETTINGS_LIKENESS_MIN - 1;
    for (uint64_t at = data->start; at + layout->settings.cache_bins + 16 <= data_end; at += 8) {
        int likeness = likeness_of(layout, data, at);
        if (likeness > most) most = likeness, best = at;
    }
    return best;
}

static void take_settings(struct glibc *glibc, const struct data *data) {
    const struct glibc_layout *layout = glibc->layout;
    uint64_t at = glibc->settings;
    glibc->sbrk_base = word_at(data, at + layout->settings.sbrk_base);
    glibc->mmap_threshold = word_at(data, at + layout->settings.mmap_threshold);
    glibc->checks.mapped_count_said = half_at(data, at + layout->settings.mapped_count);
    glibc->checks.mapped_bytes_said = word_at(data, at + layout->settings.mapped_bytes);
    glibc->checks.settings_found = true;
    uint64_t huge =
        layout->settings.huge_page_bytes ? word_at(data, at + layout->settings.huge_page_bytes) : 0;
    if (huge >= HUGE_PAGE_BYTES_MIN && huge <= HEAP_BYTES_MAX && !(huge & (huge - 1)))
        glibc->heap_bytes_max = 4 * huge;
}

static bool is_data_of(const struct space_mapping *mapping, const struct space_mapping *before,
                       const char *library) {
    if (!mapping->writable || mapping->shared) return false;
    if (mapping->behind_file) return before && !strcmp(before->name, library);
    return !strcmp(mapping->name, library);
}

static void look_in(struct glibc *glibc, const struct data *data) {
    if (!glibc->settings) {
        glibc->settings = find_settings(glibc->layout, data);
        if (glibc->settings) take_settings(glibc, data);
    }
    if (!glibc->main_arena) glibc->main_arena = find_arena(glibc, data);
}

bool glibc_find(struct glibc *glibc, struct space *space, int minor, const char *library) {
    *glibc = (struct glibc){.space = space,
                            .minor = minor,
                            .layout = glibc_layout_of(minor),
                            .heap_bytes_max = HEAP_BYTES_MAX,
                            .effort = EFFORT_BASE};
    uint64_t left = DATA_BYTES_MAX;
    const struct space_mapping *named = NULL;
    for (size_t i = 0; glibc->layout && i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        uint64_t bytes = mapping->end - mapping->start;
        if (is_data_of(mapping, named, library) && bytes <= left) {
            left -= bytes;
            uint64_t *words = malloc(bytes);
            if (words)
                look_in(glibc, &(struct data){mapping->start, words,
                                              space_read(space, mapping->start, words, bytes) / 8});
            free(words);
        }
        if (!mapping->anonymous) named = mapping;
    }
    return glibc->main_arena != 0;
}

bool glibc_read_arena(const struct glibc *glibc, uint64_t address, struct glibc_arena *arena) {
    const struct glibc_layout *layout = glibc->layout;
    uint8_t bytes[4096];
    if (!space_read_all(glibc->space, address, bytes, layout->arena.all)) return false;
    uint32_t lock;
    memcpy(&lock, bytes, sizeof lock);
    arena->address = address;
    arena->locked = lock != 0;
    memcpy(&arena->top, bytes + layout->arena.top, 8);
    memcpy(&arena->system_bytes, bytes + layout->arena.system_bytes, 8);
    memcpy(arena->bins, bytes + layout->arena.bins, sizeof arena->bins);
    if (layout->arena.fastbins)
        memcpy(arena->fastbins, bytes + layout->arena.fastbins, sizeof arena->fastbins);
    return true;
}
