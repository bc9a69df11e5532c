// SPDX-License-Identifier: Apache-2.0
#include "walk_json.h"

#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "json_values.h"
#include "name_builder.h"

enum { HOLDERS_MAX = 100, BEGINS_MIN = 2, OUT_OF = 4 };

static json_t *lists_object(const uint64_t bytes[FREE_LISTS]) {
    json_t *lists = json_object();
    for (int i = 0; i < FREE_LISTS; i++) json_set_number(lists, free_list_names[i], bytes[i]);
    return lists;
}

static json_t *accounts_object(const struct accounts *accounts) {
    json_t *object = json_object();
    json_set_number(object, "live", accounts->live_bytes);
    json_set_number(object, "headers", accounts->headers_bytes);
    json_set_number(object, "holes", accounts_sum(accounts->holes_bytes));
    json_set_number(object, "free_pages", accounts_sum(accounts->free_pages_bytes));
    json_set_number(object, "tables", accounts->tables_bytes);
    json_set_number(object, "unknown", accounts->unknown_bytes);
    return object;
}

static json_t *arenas_list(const struct walk_result *result) {
    json_t *list = json_array();
    for (size_t i = 0; i < result->glibc->arena_count; i++) {
        const struct arena_sums *sums = &result->accounts->arenas[i];
        json_t *arena = json_object();
        json_set_number(arena, "system_bytes", result->glibc->arenas[i].system_bytes);
        json_set_number(arena, "live_bytes", sums->live_bytes);
        json_set_number(arena, "blocks", sums->blocks);
        json_object_set_new(arena, "free_bytes", lists_object(sums->free_bytes));
        json_array_append_new(list, arena);
    }
    return list;
}

// ---- holders ----

struct held {
    const struct holder *holder;
    size_t arena;
    int size_class;
};

static int by_holes_and_bytes(const void *a, const void *b) {
    const struct holder *one = ((const struct held *)a)->holder, *other = ((const struct held *)b)->holder;
    double mine = one->holes_bytes + (double)one->bytes, others = other->holes_bytes + (double)other->bytes;
    return (mine < others) - (mine > others);
}

static void set_first_word(json_t *object, const struct walk_result *result, const struct holder *holder) {
    struct first_word word;
    char text[DEMANGLED_BYTES_MAX];
    first_words_of(&word, holder, result->modules);
    // A class and its table of functions are told as the class.
    static const char *const kinds[] = {"typeinfo name for ", "vtable for "};
    const char *name = demangled(word.name, text);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(name, kinds[i], strlen(kinds[i]))) name += strlen(kinds[i]);
    bool common = *word.name && word.blocks >= BEGINS_MIN && word.blocks * OUT_OF >= word.looked_at;
    json_set_known_text(object, "begins_with", common ? name : NULL);
    json_set_figure(object, "begins_share", common ? (double)word.blocks / (double)word.looked_at : NAN);
}

static json_t *holder_object(const struct walk_result *result, const struct held *held) {
    const struct holder *holder = held->holder;
    json_t *object = json_object();
    json_set_number(object, "usable_low_bytes", holder->low_bytes);
    json_set_number(object, "usable_high_bytes", holder->high_bytes);
    if (held->arena == result->glibc->arena_count) json_object_set_new(object, "arena", json_null());
    else json_set_number(object, "arena", held->arena);
    json_set_number(object, "size_class", (uint64_t)held->size_class);
    json_set_number(object, "blocks", holder->blocks);
    json_set_number(object, "bytes", holder->bytes);
    json_set_number(object, "holes_bytes", (uint64_t)holder->holes_bytes);
    set_first_word(object, result, holder);
    return object;
}

static json_t *holders_list(const struct walk_result *result) {
    const struct accounts *accounts = result->accounts;
    struct held *all = calloc(accounts->arena_count * SIZE_CLASSES, sizeof *all);
    json_t *list = json_array();
    size_t count = 0;
    for (size_t arena = 0; all && arena < accounts->arena_count; arena++)
        for (int i = 0; i < SIZE_CLASSES; i++)
            if (accounts->arenas[arena].holders[i].blocks)
                all[count++] = (struct held){&accounts->arenas[arena].holders[i], arena, i};
    if (count) qsort(all, count, sizeof *all, by_holes_and_bytes);
    for (size_t i = 0; i < count && i < HOLDERS_MAX; i++)
        json_array_append_new(list, holder_object(result, &all[i]));
    free(all);
    return list;
}

// ---- whether to believe it ----

static json_t *checks_object(const struct walk_result *result) {
    const struct glibc_checks *checks = &result->glibc->checks;
    const struct outside *outside = result->outside;
    json_t *object = json_object();
    json_set_number(object, "heap_bytes", checks->walked_bytes);
    json_set_number(object, "heap_bytes_said", checks->system_bytes);
    json_set_number(object, "mapped_blocks", checks->mapped_count);
    json_set_count(object, "mapped_blocks_said",
                   checks->settings_found ? checks->mapped_count_said : UINT64_MAX);
    json_set_number(object, "mapped_bytes", checks->mapped_bytes);
    json_set_count(object, "mapped_bytes_said",
                   checks->settings_found ? checks->mapped_bytes_said : UINT64_MAX);
    json_set_number(object, "lost_bytes", checks->lost_bytes);
    json_set_number(object, "read_again", checks->read_again);
    json_set_number(object, "torn_lists", checks->torn_lists);
    json_set_number(object, "locked_arenas", checks->locked_arenas);
    const struct accounts *accounts = result->accounts;
    uint64_t named = accounts->live_bytes + accounts->headers_bytes + accounts_sum(accounts->holes_bytes) +
                     accounts_sum(accounts->free_pages_bytes) + accounts->tables_bytes +
                     accounts->others_bytes + accounts->unknown_bytes + outside->stacks_bytes +
                     outside->files_bytes + outside->other_bytes;
    json_set_number(object, "anonymous_bytes", named);
    json_set_count(object, "anonymous_bytes_said",
                   result->process ? result->memory.anonymous_bytes : UINT64_MAX);
    return object;
}

static void set_heap(json_t *object, const struct walk_result *result) {
    const struct accounts *accounts = result->accounts;
    json_object_set_new(object, "accounts_bytes", accounts_object(accounts));
    json_object_set_new(object, "holes_bytes", lists_object(accounts->holes_bytes));
    json_object_set_new(object, "free_pages_bytes", lists_object(accounts->free_pages_bytes));
    json_set_number(object, "blocks", accounts->blocks);
    json_set_number(object, "usable_bytes", accounts->usable_bytes);
    json_set_number(object, "not_resident_bytes", accounts->not_resident_bytes);
    json_set_number(object, "heap_swapped_bytes", accounts->swapped_bytes);
    json_set_number(object, "huge_bytes", accounts->huge_bytes);
    json_set_number(object, "trim_bytes", accounts->trim_bytes);
    json_set_number(object, "thread_caches", result->glibc->cache_count);
    json_object_set_new(object, "arenas", arenas_list(result));
    json_object_set_new(object, "holders", holders_list(result));
    json_object_set_new(object, "checks", checks_object(result));
}

static void set_process(json_t *object, const struct process *process, const struct process_memory *memory) {
    json_set_number(object, "pid", (uint64_t)process->pid);
    json_set_text(object, "command", process->command);
    json_set_number(object, "up_s", process->up_s);
    json_set_number(object, "rss_bytes", memory->rss_bytes);
    json_set_number(object, "rss_anonymous_bytes", memory->anonymous_bytes);
    json_set_number(object, "rss_file_bytes", memory->file_bytes);
    json_set_number(object, "rss_shared_bytes", memory->shared_bytes);
    json_set_number(object, "swapped_bytes", memory->swapped_bytes);
}

// ---- another allocator's heap: counts, and no single blocks ----

// Its free blocks, under the names of glibc's lists.
static json_t *free_object(uint64_t blocks_bytes, uint64_t cached_bytes, uint64_t pages_bytes) {
    uint64_t bytes[FREE_LISTS] = {
        [FREE_BINS] = blocks_bytes, [FREE_CACHES] = cached_bytes, [FREE_OTHER] = pages_bytes};
    return lists_object(bytes);
}

static json_t *size_object(const struct other_size *size) {
    json_t *object = json_object();
    json_set_number(object, "size_class", size->block_bytes);
    json_set_number(object, "usable_low_bytes", size->block_bytes);
    json_set_number(object, "usable_high_bytes", size->block_bytes);
    json_object_set_new(object, "arena", json_null());
    json_set_number(object, "blocks", size->blocks);
    json_set_number(object, "bytes", size->blocks * size->block_bytes);
    json_set_number(object, "holes_bytes", (size->free_blocks + size->cached_blocks) * size->block_bytes);
    json_set_known_text(object, "begins_with", NULL);
    json_set_figure(object, "begins_share", NAN);
    return object;
}

static int by_bytes_of_size(const void *a, const void *b) {
    const struct other_size *one = *(const struct other_size *const *)a,
                            *other = *(const struct other_size *const *)b;
    uint64_t mine = (one->blocks + one->free_blocks + one->cached_blocks) * one->block_bytes,
             others = (other->blocks + other->free_blocks + other->cached_blocks) * other->block_bytes;
    return (mine < others) - (mine > others);
}

static json_t *sizes_list(const struct other *other) {
    json_t *list = json_array();
    const struct other_size **sizes = calloc(other->size_count + 1, sizeof *sizes);
    for (size_t i = 0; sizes && i < other->size_count; i++) sizes[i] = &other->sizes[i];
    if (sizes) qsort(sizes, other->size_count, sizeof *sizes, by_bytes_of_size);
    for (size_t i = 0; sizes && i < other->size_count && i < HOLDERS_MAX; i++)
        json_array_append_new(list, size_object(sizes[i]));
    free(sizes);
    return list;
}

static json_t *other_checks_object(const struct walk_result *result) {
    static const char *const unknown[] = {"heap_bytes_said", "mapped_blocks", "mapped_blocks_said",
                                          "mapped_bytes", "mapped_bytes_said"};
    const struct other *other = result->other;
    const struct outside *outside = result->outside;
    uint64_t bytes = 0;
    json_t *object = json_object();
    for (size_t i = 0; i < other->span_count; i++) bytes += other->spans[i].end - other->spans[i].start;
    json_set_number(object, "heap_bytes", bytes);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        json_object_set_new(object, unknown[i], json_null());
    json_set_number(object, "records", other->records);
    json_set_number(object, "lost_records", other->lost);
    json_set_number(object, "aligned_bytes", other->shifted_bytes);
    json_set_number(object, "lost_bytes", 0);
    json_set_number(object, "read_again", 0);
    json_set_number(object, "torn_lists", 0);
    json_set_number(object, "locked_arenas", 0);
    json_set_number(object, "anonymous_bytes",
                    other->live_resident_bytes + other->holes_resident_bytes + other->free_resident_bytes +
                        outside->stacks_bytes + outside->files_bytes + outside->other_bytes);
    json_set_count(object, "anonymous_bytes_said",
                   result->process ? result->memory.anonymous_bytes : UINT64_MAX);
    return object;
}

static void set_other(json_t *object, const struct walk_result *result) {
    const struct other *other = result->other;
    json_t *accounts = json_object();
    uint64_t spans_live = other->usable_bytes, cached = other->cached_bytes,
             holes = other->holes_resident_bytes;
    if (cached > holes) cached = holes;
    json_set_number(accounts, "live", other->live_resident_bytes);
    json_set_number(accounts, "headers", 0);
    json_set_number(accounts, "holes", holes);
    json_set_number(accounts, "free_pages", other->free_resident_bytes);
    json_object_set_new(accounts, "tables", json_null());  // among what lies outside
    json_set_number(accounts, "unknown", 0);
    json_object_set_new(object, "accounts_bytes", accounts);
    json_object_set_new(object, "holes_bytes", free_object(holes - cached, cached, 0));
    json_object_set_new(object, "free_pages_bytes", free_object(0, 0, other->free_resident_bytes));
    json_set_number(object, "blocks", other->blocks);
    json_set_number(object, "usable_bytes", other->usable_bytes);
    json_set_count(object, "cached_bytes", other->caches_known ? other->cached_bytes : UINT64_MAX);
    json_set_number(object, "not_resident_bytes",
                    spans_live > other->live_resident_bytes ? spans_live - other->live_resident_bytes : 0);
    json_set_number(object, "heap_swapped_bytes", 0);
    json_set_number(object, "huge_bytes", 0);
    json_object_set_new(object, "trim_bytes", json_null());
    json_object_set_new(object, "thread_caches", json_null());
    json_object_set_new(object, "arenas", json_array());
    json_object_set_new(object, "holders", sizes_list(other));
    json_object_set_new(object, "checks", other_checks_object(result));
}

static void set_allocator(json_t *object, const struct walk_result *result) {
    const struct allocator *allocator = result->allocator;
    json_t *about = json_object();
    char ask[512];
    allocator_ask(allocator, result->modules, result->process ? result->process->pid : 0, ask, sizeof ask);
    json_set_text(about, "name", allocator->name);
    json_set_known_text(about, "version", *allocator->version ? allocator->version : NULL);
    json_set_known_text(about, "module", allocator->module ? allocator->module->name : NULL);
    json_object_set_new(about, "in_program", json_boolean(allocator->within == allocator->name));
    json_set_known_text(about, "within", allocator->within);
    json_set_known_text(about, "layout", result->other ? result->other->build : NULL);
    json_set_known_text(about, "ask", result->process && *ask ? ask : NULL);
    json_object_set_new(object, "allocator", about);
}

json_t *walk_json(const struct walk_result *result) {
    json_t *object = json_object(), *outside = json_object();
    if (result->process) set_process(object, result->process, &result->memory);
    else json_set_text(object, "core", result->core);
    set_allocator(object, result);
    json_set_known_text(object, "why_not", result->why_not);
    json_object_set_new(object, "stopped", json_boolean(result->stopped));
    json_set_figure(object, "seconds", result->seconds);
    json_set_number(outside, "stacks", result->outside->stacks_bytes);
    json_set_number(outside, "files", result->outside->files_bytes);
    json_set_number(outside, "other",
                    result->outside->other_bytes + (result->glibc ? result->accounts->others_bytes : 0));
    json_set_number(outside, "largest_other_mapping", result->outside->largest_bytes);
    json_object_set_new(object, "outside_bytes", outside);
    if (result->glibc) set_heap(object, result);
    if (result->other) set_other(object, result);
    return object;
}
