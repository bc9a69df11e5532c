// SPDX-License-Identifier: Apache-2.0
// Goes through each heap once, chunk by chunk, and closes a page when the next one begins. The rules are those of
// analysis/heaptape/explain/accounts.py, which has a replay's requested bytes and no lists.
#include "accounts.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"
#include "sorted.h"

const char *const free_list_names[FREE_LISTS] = {"bins", "tcache", "fastbins", "top", "other"};

enum {
    HEADER_BYTES = 8,  // of a chunk in use: its first word belongs to the one before
    MAPPED_HEADER_BYTES = 16,
    CHUNK_FIELDS_BYTES = 48,  // struct malloc_chunk: what malloc_trim keeps of a free chunk
    TOP_KEPT_BYTES = 33,
    PAGE_HOLDERS_MAX = 4096 / CHUNK_BYTES_MIN + 2,
};

// What a stretch of a heap is.
enum part { PART_LIVE, PART_HEADER, PART_FREE, PART_TABLE, PART_OTHERS, PART_UNKNOWN };

struct page {
    uint64_t number;
    uint32_t bytes[PART_UNKNOWN + 1], free[FREE_LISTS];
    struct holder *holders[PAGE_HOLDERS_MAX];
    size_t holder_count;
    bool resident;
};

struct pass {
    struct accounts *accounts;
    const struct glibc *glibc;
    const struct glibc_heap *heap;  // NULL: a mapped chunk
    const struct space_runs *runs;
    size_t run;
    struct page page;
    uint64_t loose_start, loose_end;  // free chunks side by side, as malloc_trim would merge them
    bool loose_top;
    struct ht_random random;
    FILE *blocks;
};

uint64_t accounts_sum(const uint64_t bytes[FREE_LISTS]) {
    uint64_t sum = 0;
    for (int i = 0; i < FREE_LISTS; i++) sum += bytes[i];
    return sum;
}

// ---- pages ----

static bool is_resident(struct pass *pass, uint64_t page) {
    uint64_t address = page * SPACE_PAGE_BYTES;
    if (pass->run && pass->run <= pass->runs->count && pass->runs->run[pass->run - 1].end > address)
        pass->run = 0;
    while (pass->run < pass->runs->count && pass->runs->run[pass->run].end <= address) pass->run++;
    return pass->run < pass->runs->count && pass->runs->run[pass->run].start <= address;
}

static void close_page(struct pass *pass) {
    struct page *page = &pass->page;
    struct accounts *accounts = pass->accounts;
    if (!page->resident) accounts->not_resident_bytes += page->bytes[PART_LIVE];
    else if (page->holder_count) {
        accounts->live_bytes += page->bytes[PART_LIVE];
        accounts->headers_bytes += page->bytes[PART_HEADER];
        accounts->unknown_bytes += page->bytes[PART_UNKNOWN];
        accounts->others_bytes += page->bytes[PART_OTHERS];
        uint32_t named = page->bytes[PART_LIVE] + page->bytes[PART_HEADER] + page->bytes[PART_UNKNOWN] +
                         page->bytes[PART_OTHERS];
        for (int i = 0; i < FREE_LISTS; i++) {
            accounts->holes_bytes[i] += page->free[i];
            named += page->free[i];
        }
        // The allocator's own data there, and what lies before the first chunk.
        accounts->holes_bytes[FREE_OTHER] += SPACE_PAGE_BYTES - named;
        double share = (double)(SPACE_PAGE_BYTES - page->bytes[PART_LIVE] - page->bytes[PART_HEADER] -
                                page->bytes[PART_OTHERS]) /
                       (double)page->holder_count;
        for (size_t i = 0; i < page->holder_count; i++) page->holders[i]->holes_bytes += share;
    } else {
        uint64_t own = SPACE_PAGE_BYTES - page->bytes[PART_UNKNOWN] - page->bytes[PART_OTHERS];
        accounts->unknown_bytes += page->bytes[PART_UNKNOWN];
        accounts->others_bytes += page->bytes[PART_OTHERS];
        for (int i = 0; i < FREE_LISTS; i++) {
            accounts->free_pages_bytes[i] += page->free[i];
            own -= page->free[i];
        }
        accounts->tables_bytes += own;
    }
}

static void open_page(struct pass *pass, uint64_t number) {
    close_page(pass);
    memset(&pass->page, 0, offsetof(struct page, holders));
    pass->page.number = number;
    pass->page.holder_count = 0;
    pass->page.resident = is_resident(pass, number);
}

static void begin_pages(struct pass *pass, uint64_t start) {
    memset(&pass->page, 0, offsetof(struct page, holders));
    pass->page.number = start / SPACE_PAGE_BYTES;
    pass->page.holder_count = 0;
    pass->run = 0;
    pass->page.resident = is_resident(pass, pass->page.number);
}

// Whole pages in between, all of one part.
static void add_pages(struct pass *pass, uint64_t start, uint64_t end, enum part part, enum free_list list) {
    struct accounts *accounts = pass->accounts;
    uint64_t resident = space_runs_bytes(pass->runs, start, end);
    switch (part) {
    case PART_LIVE:
        accounts->live_bytes += resident;
        accounts->not_resident_bytes += end - start - resident;
        break;
    case PART_FREE: accounts->free_pages_bytes[list] += resident; break;
    case PART_OTHERS: accounts->others_bytes += resident; break;
    case PART_UNKNOWN: accounts->unknown_bytes += resident; break;
    default: accounts->tables_bytes += resident;
    }
}

// A holder may be in a page with many blocks: it counts once for each.
static void add(struct pass *pass, uint64_t start, uint64_t end, enum part part, enum free_list list,
                struct holder *holder) {
    for (uint64_t at = start; at < end;) {
        uint64_t number = at / SPACE_PAGE_BYTES, page_end = (number + 1) * SPACE_PAGE_BYTES;
        uint64_t whole_end = end & ~(SPACE_PAGE_BYTES - 1);
        if (at % SPACE_PAGE_BYTES == 0 && whole_end > at) {
            if (number != pass->page.number) open_page(pass, number);
            add_pages(pass, at, whole_end, part, list);
            at = whole_end;
            // The next page is a new one: this one has been told of already.
            memset(&pass->page, 0, offsetof(struct page, holders));
            pass->page.number = whole_end / SPACE_PAGE_BYTES - 1;
            pass->page.holder_count = 0;
            pass->page.resident = false;
            continue;
        }
        if (number != pass->page.number) open_page(pass, number);
        uint32_t bytes = (uint32_t)((end < page_end ? end : page_end) - at);
        if (part == PART_FREE) pass->page.free[list] += bytes;
        else pass->page.bytes[part] += bytes;
        if (holder && pass->page.holder_count < PAGE_HOLDERS_MAX)
            pass->page.holders[pass->page.holder_count++] = holder;
        at += bytes;
    }
}

// ---- blocks ----

static int class_of(uint64_t chunk_bytes) {
    uint64_t units = chunk_bytes / CHUNK_UNIT_BYTES;
    if (units < SIZE_SMALL) return (int)units;
    int log = 63 - __builtin_clzll(units);  // 6 and more
    int class = SIZE_SMALL + 4 * (log - 6) + (int)(units >> (log - 2) & 3);
    return class < SIZE_CLASSES ? class : SIZE_CLASSES - 1;
}

static struct holder *note_block(struct pass *pass, uint64_t chunk_bytes, uint64_t block, uint64_t usable,
                                 size_t arena) {
    struct arena_sums *sums = &pass->accounts->arenas[arena];
    struct holder *holder = &sums->holders[class_of(chunk_bytes)];
    uint64_t place =
        holder->blocks < SAMPLES ? holder->blocks : ht_random_next(&pass->random) % (holder->blocks + 1);
    if (place < SAMPLES) holder->sampled[place] = block;
    if (!holder->blocks || usable < holder->low_bytes) holder->low_bytes = usable;
    if (usable > holder->high_bytes) holder->high_bytes = usable;
    holder->blocks++;
    holder->bytes += usable;
    sums->blocks++;
    sums->live_bytes += usable;
    pass->accounts->blocks++;
    pass->accounts->usable_bytes += usable;
    return holder;
}

static void write_block(const struct pass *pass, uint64_t block, uint64_t usable, size_t arena,
                        const char *state) {
    if (pass->blocks)
        fprintf(pass->blocks, "0x%" PRIx64 ",%" PRIu64 ",%zu,%s\n", block, usable, arena, state);
}

// ---- what malloc_trim(0) gives back (mtrim and systrim in malloc/malloc.c) ----

static void trim(struct pass *pass) {
    uint64_t start = pass->loose_start, end = pass->loose_end;
    pass->loose_start = pass->loose_end = 0;
    if (start == end) return;
    uint64_t first = (start + CHUNK_FIELDS_BYTES + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1);
    uint64_t last = end & ~(SPACE_PAGE_BYTES - 1);
    if (pass->loose_top) {
        if (pass->heap->arena || end - start < TOP_KEPT_BYTES) return;  // other arenas keep their top
        first = end - ((end - start - TOP_KEPT_BYTES) & ~(SPACE_PAGE_BYTES - 1));
        last = end;
    } else last = first + (end > first ? (end - first) & ~(SPACE_PAGE_BYTES - 1) : 0);
    if (first < last) pass->accounts->trim_bytes += space_runs_bytes(pass->runs, first, last);
}

static void note_loose(struct pass *pass, uint64_t start, uint64_t end, bool top) {
    if (pass->loose_end != start || pass->loose_start == pass->loose_end) {
        pass->loose_top = false;
        trim(pass);
        pass->loose_start = start;
    }
    pass->loose_end = end;
    pass->loose_top = top;
    if (top) trim(pass);
}

// ---- heaps ----

static bool is_cache(const struct glibc *glibc, uint64_t chunk) {
    size_t found = ht_first_from(glibc->caches, glibc->cache_count, sizeof chunk, 0, chunk);
    return found < glibc->cache_count && glibc->caches[found] == chunk;
}

// A chunk in use has the bytes from its second word to the second word of the next one.
static void add_chunk(struct pass *pass, uint64_t chunk, uint64_t end) {
    static const enum free_list lists[] = {
        [CHUNK_BINS] = FREE_BINS, [CHUNK_CACHED] = FREE_CACHES, [CHUNK_FAST] = FREE_FASTBINS};
    const struct glibc_heap *heap = pass->heap;
    struct arena_sums *sums = &pass->accounts->arenas[heap->arena];
    enum chunk_kind kind = chunk_map_kind(&heap->chunks, chunk);
    uint64_t block = chunk + 2 * HEADER_BYTES, usable = end - chunk - HEADER_BYTES;
    bool top = chunk == heap->chunks.top;
    if (kind == CHUNK_LIVE && !top && is_cache(pass->glibc, chunk)) {
        add(pass, chunk + HEADER_BYTES, end + HEADER_BYTES, PART_TABLE, FREE_OTHER, NULL);
        write_block(pass, block, usable, heap->arena, "table");
    } else if (kind == CHUNK_LIVE && !top) {
        struct holder *holder = note_block(pass, end - chunk, block, usable, heap->arena);
        // A header at the end of a page keeps that page as the block does.
        bool apart = block % SPACE_PAGE_BYTES == 0;
        add(pass, chunk + HEADER_BYTES, block, PART_HEADER, FREE_OTHER, apart ? holder : NULL);
        add(pass, block, block + usable, PART_LIVE, FREE_OTHER, holder);
        write_block(pass, block, usable, heap->arena, "live");
    } else {
        enum free_list list = top ? FREE_TOP : lists[kind];
        uint64_t last = top ? end : end + HEADER_BYTES;
        add(pass, chunk + HEADER_BYTES, last, PART_FREE, list, NULL);
        sums->free_bytes[list] += end - chunk;
        write_block(pass, block, usable, heap->arena, free_list_names[list]);
        if (list != FREE_CACHES) note_loose(pass, chunk, end, top);
    }
}

static void add_heap(struct pass *pass, const struct glibc_heap *heap) {
    static const enum part parts[] = {
        [GAP_POST] = PART_TABLE, [GAP_OTHERS] = PART_OTHERS, [GAP_LOST] = PART_UNKNOWN};
    const struct chunk_map *chunks = &heap->chunks;
    uint64_t map_end = chunks->base + chunks->bytes;
    size_t gap = 0;
    pass->heap = heap;
    pass->runs = &heap->runs;
    begin_pages(pass, heap->mapped_start);
    add(pass, heap->mapped_start, heap->start + HEADER_BYTES, PART_TABLE, FREE_OTHER, NULL);
    for (uint64_t at = heap->start, end; at < map_end; at = end) {
        if (gap < chunks->gap_count && chunks->gaps[gap].start <= at) {
            end = chunks->gaps[gap].end;
            add(pass, at + HEADER_BYTES, end + HEADER_BYTES, parts[chunks->gaps[gap].kind], FREE_OTHER, NULL);
            gap++;
            continue;
        }
        end = at + chunk_map_bytes(chunks, at, map_end - at);
        if (end > map_end) end = map_end;
        add_chunk(pass, at, end);
    }
    trim(pass);
    close_page(pass);
}

static void add_mapped(struct pass *pass, const struct glibc_mapped *mapped, const struct space_runs *runs) {
    size_t arena = pass->glibc->arena_count;
    uint64_t block = mapped->chunk + MAPPED_HEADER_BYTES;
    pass->heap = NULL;
    pass->runs = runs;
    begin_pages(pass, mapped->start);
    // Since the size leaves the header out, malloc_usable_size leaves out a word more.
    uint64_t usable = mapped->end - block - pass->glibc->layout->mapped_header_bytes / 2;
    struct holder *holder = note_block(pass, mapped->end - mapped->chunk, block, usable, arena);
    add(pass, mapped->start, mapped->chunk, PART_TABLE, FREE_OTHER, NULL);
    add(pass, mapped->chunk, block, PART_HEADER, FREE_OTHER, NULL);
    add(pass, block, mapped->end, PART_LIVE, FREE_OTHER, holder);
    close_page(pass);
    write_block(pass, block, usable, arena, "live");
}

static int add_all_mapped(struct pass *pass, struct ht_error *error) {
    const struct glibc *glibc = pass->glibc;
    for (size_t i = 0; i < glibc->mapped_count; i++) {
        struct space_runs runs = {0};
        if (space_runs_add(glibc->space, glibc->mapped[i].start, glibc->mapped[i].end, &runs, error))
            return -1;
        add_mapped(pass, &glibc->mapped[i], &runs);
        pass->accounts->swapped_bytes += runs.swapped_bytes;
        pass->accounts->huge_bytes += runs.huge_bytes;
        space_runs_free(&runs);
    }
    return 0;
}

int accounts_take(struct accounts *accounts, const struct glibc *glibc, FILE *blocks,
                  struct ht_error *error) {
    *accounts = (struct accounts){.arena_count = glibc->arena_count + 1};
    accounts->arenas = calloc(accounts->arena_count, sizeof *accounts->arenas);
    for (size_t i = 0; accounts->arenas && i < accounts->arena_count; i++) {
        accounts->arenas[i].holders = calloc(SIZE_CLASSES, sizeof(struct holder));
        if (!accounts->arenas[i].holders) return ht_error_memory(error, "walk", "sizes of blocks");
    }
    struct pass *pass = calloc(1, sizeof *pass);
    if (!pass || !accounts->arenas) {
        free(pass);
        return ht_error_memory(error, "walk", "accounts");
    }
    pass->accounts = accounts;
    pass->glibc = glibc;
    pass->blocks = blocks;
    if (blocks) fputs("address,usable_bytes,arena,state\n", blocks);
    for (size_t i = 0; i < glibc->heap_count; i++) {
        add_heap(pass, &glibc->heaps[i]);
        accounts->swapped_bytes += glibc->heaps[i].runs.swapped_bytes;
        accounts->huge_bytes += glibc->heaps[i].runs.huge_bytes;
    }
    int failed = add_all_mapped(pass, error);
    free(pass);
    return failed;
}

void accounts_free(struct accounts *accounts) {
    for (size_t i = 0; accounts->arenas && i < accounts->arena_count; i++) free(accounts->arenas[i].holders);
    free(accounts->arenas);
    *accounts = (struct accounts){0};
}

// ---- first words ----

enum { WORDS = 4 };

// The Itanium C++ ABI: the word before the table points at the type's description, whose second word at the type's name.
static bool class_name(const struct modules *modules, uint64_t table, char name[FIRST_WORD_BYTES]) {
    const struct space *space = modules->space;
    uint64_t description[2], type;
    static const char prefix[] = "_ZTS";
    if (table % 8 || !space_read_all(space, table - 8, &type, sizeof type) || !modules_at(modules, type))
        return false;
    if (!space_read_all(space, type, description, sizeof description) || !modules_at(modules, description[1]))
        return false;
    memcpy(name, prefix, sizeof prefix);
    size_t got =
        space_read(space, description[1], name + sizeof prefix - 1, FIRST_WORD_BYTES - sizeof prefix);
    name[sizeof prefix - 1 + got] = 0;
    size_t length = strlen(name);
    if (length < sizeof prefix + 1 || length == FIRST_WORD_BYTES - 1) return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_') return false;
    return isdigit((unsigned char)name[sizeof prefix - 1]) || strchr("NS", name[sizeof prefix - 1]);
}

static bool name_word(const struct modules *modules, uint64_t word, char name[FIRST_WORD_BYTES]) {
    const struct module *module = modules_at(modules, word);
    if (!module) return false;
    const char *symbol = module_symbol_at(module, word);
    if (!symbol) return class_name(modules, word, name);
    snprintf(name, FIRST_WORD_BYTES, "%s", symbol);
    return true;
}

static bool name_block(const struct modules *modules, uint64_t block, char name[FIRST_WORD_BYTES]) {
    uint64_t words[WORDS];
    size_t count = space_read(modules->space, block, words, sizeof words) / sizeof *words;
    for (size_t i = 0; i < count; i++)
        if (name_word(modules, words[i], name)) return true;
    return false;
}

void first_words_of(struct first_word *word, const struct holder *holder, const struct modules *modules) {
    char names[SAMPLES][FIRST_WORD_BYTES];
    size_t count = holder->blocks < SAMPLES ? (size_t)holder->blocks : SAMPLES;
    *word = (struct first_word){.looked_at = count};
    for (size_t i = 0; i < count; i++)
        if (!name_block(modules, holder->sampled[i], names[i])) names[i][0] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t alike = 0;
        for (size_t k = 0; names[i][0] && k < count; k++) alike += !strcmp(names[i], names[k]);
        if (alike <= word->blocks) continue;
        word->blocks = alike;
        memcpy(word->name, names[i], sizeof word->name);
    }
}

// ---- what is not malloc's ----

struct cut {
    uint64_t start, end;
};

// What is malloc's, by address, and how far it was looked at.
struct mine {
    const struct glibc *glibc;
    const struct other *other;
    size_t heap, mapped, span;
};

static struct cut earlier(struct cut one, struct cut other) { return one.start < other.start ? one : other; }

// The next stretch of malloc's that ends behind the address.
static struct cut next_of_malloc(struct mine *mine, uint64_t address) {
    struct cut first = {UINT64_MAX, UINT64_MAX};
    const struct glibc *glibc = mine->glibc;
    const struct other *other = mine->other;
    if (glibc) {
        while (mine->heap < glibc->heap_count && glibc->heaps[mine->heap].end <= address) mine->heap++;
        while (mine->mapped < glibc->mapped_count && glibc->mapped[mine->mapped].end <= address)
            mine->mapped++;
        if (mine->heap < glibc->heap_count)
            first = (struct cut){glibc->heaps[mine->heap].mapped_start, glibc->heaps[mine->heap].end};
        if (mine->mapped < glibc->mapped_count)
            first = earlier(first,
                            (struct cut){glibc->mapped[mine->mapped].start, glibc->mapped[mine->mapped].end});
    }
    if (other) {
        while (mine->span < other->span_count && other->spans[mine->span].end <= address) mine->span++;
        if (mine->span < other->span_count)
            first =
                earlier(first, (struct cut){other->spans[mine->span].start, other->spans[mine->span].end});
    }
    if (first.start == UINT64_MAX) return first;
    return (struct cut){first.start & ~(SPACE_PAGE_BYTES - 1),
                        (first.end + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1)};
}

// A thread's stack lies behind a page that nobody may touch.
static bool is_stack(const struct space *space, size_t number) {
    const struct space_mapping *mapping = &space->mappings[number];
    if (!strncmp(mapping->name, "[stack", 6)) return true;
    if (!number || !mapping->anonymous || !mapping->writable) return false;
    const struct space_mapping *before = mapping - 1;
    return before->end == mapping->start && before->anonymous && !before->readable && !before->writable;
}

static void add_outside(struct outside *outside, const struct space *space, size_t number, uint64_t bytes) {
    const struct space_mapping *mapping = &space->mappings[number];
    if (is_stack(space, number)) outside->stacks_bytes += bytes;
    else if (!mapping->anonymous || mapping->behind_file) outside->files_bytes += bytes;
    else {
        outside->other_bytes += bytes;
        if (bytes > outside->largest_bytes) outside->largest_bytes = bytes;
    }
}

int outside_take(struct outside *outside, struct space *space, const struct glibc *glibc,
                 const struct other *other, struct ht_error *error) {
    struct mine mine = {.glibc = glibc, .other = other};
    *outside = (struct outside){0};
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct space_runs runs = {0};
        if (mapping->shared || !strncmp(mapping->name, "[v", 2)) continue;
        for (uint64_t at = mapping->start; at < mapping->end;) {
            struct cut cut = next_of_malloc(&mine, at);
            uint64_t end = cut.start < mapping->end ? cut.start : mapping->end;
            if (at < end && space_runs_add(space, at, end, &runs, error)) return -1;
            at = cut.end > end && end == cut.start ? cut.end : end;
            if (cut.start <= at && cut.end > at) at = cut.end;
        }
        add_outside(outside, space, i, runs.bytes);
        outside->swapped_bytes += runs.swapped_bytes;
        space_runs_free(&runs);
    }
    return 0;
}
