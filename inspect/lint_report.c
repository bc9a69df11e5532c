// SPDX-License-Identifier: Apache-2.0
#include "lint_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "json_values.h"
#include "ops.h"
#include "print.h"
#include "talk.h"
#include "trace_json.h"

// Entries of a map, most blocks first.
struct counted {
    uint64_t key, count;
};

static int most_first(const void *a, const void *b) {
    const struct counted *left = a, *right = b;
    if (left->count != right->count) return left->count < right->count ? 1 : -1;
    return (left->key > right->key) - (left->key < right->key);
}

static struct counted *sorted_counts(const struct map64 *map, size_t *count) {
    struct counted *list = malloc((map->count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < map->room; i++)
        if (map64_has(map, i))
            list[(*count)++] = (struct counted){map->entry[i].key - 1, map->entry[i].value};
    if (list) qsort(list, *count, sizeof *list, most_first);
    return list;
}

// ---- JSON ----

static void set_address(json_t *object, const char *key, uint64_t address) {
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    json_object_set_new(object, key, json_string(text));
}

// What is known of a block.
static json_t *block_json(const struct lint *lint, const struct lint_block *block, uint64_t address) {
    json_t *object = json_object();
    if (lint->raw) set_address(object, "address", address);
    else json_set_number(object, "event", block->birth);
    json_set_number(object, "time_ns", block->time_ns);
    if (!block->function) return object;  // only when it was freed is known
    json_set_number(object, "bytes", block->bytes);
    json_set_number(object, "thread", block->thread);
    json_object_set_new(object, "function", json_string(ht_functions[block->function].name));
    if (block->alignment != LINT_NO_ALIGNMENT)
        json_set_number(object, "alignment", UINT64_C(1) << block->alignment);
    return object;
}

static json_t *finding_json(const struct lint *lint, const struct lint_finding *finding) {
    const struct lint_call *call = &finding->call;
    json_t *object = json_object();
    if (lint->raw) json_set_number(object, "offset", call->offset);
    else json_set_number(object, "event", call->event);
    json_set_number(object, "time_ns", call->time_ns);
    json_set_number(object, "thread", call->thread);
    json_object_set_new(object, "function", json_string(ht_functions[call->function].name));
    if (lint->raw) set_address(object, "address", call->address);
    else if (call->slot) json_set_number(object, "slot", call->slot);
    if (ht_functions[call->function].size) json_set_number(object, "size", call->size);
    if (ht_functions[call->function].extra) json_set_number(object, "extra", call->extra);
    if (finding->has_block)
        json_object_set_new(object, "block", block_json(lint, &finding->block, finding->block_address));
    return object;
}

static json_t *counts_json(const struct lint *lint, const struct map64 *map, const char *key) {
    size_t count;
    struct counted *list = sorted_counts(map, &count);
    json_t *array = json_array();
    for (size_t i = 0; i < count && i < lint->limit; i++) {
        json_t *row = json_object();
        json_set_number(row, key, list[i].key);
        json_set_number(row, "blocks", list[i].count);
        json_array_append_new(array, row);
    }
    free(list);
    return array;
}

static json_t *leaks_json(const struct lint *lint) {
    const struct lint_leaks *leaks = &lint->leaks;
    json_t *object = json_object(), *oldest = json_array();
    json_set_number(object, "blocks", leaks->blocks);
    json_set_number(object, "bytes", leaks->bytes);
    json_set_number(object, "inherited_blocks", leaks->inherited_blocks);
    json_set_number(object, "inherited_bytes", leaks->inherited_bytes);
    json_object_set_new(object, "by_size", counts_json(lint, &leaks->by_size, "size"));
    json_object_set_new(object, "by_thread", counts_json(lint, &leaks->by_thread, "thread"));
    for (size_t i = 0; i < leaks->oldest_count; i++) {
        json_t *row = block_json(lint, &leaks->oldest[i].block, leaks->oldest[i].name);
        if (!lint->raw) json_set_number(row, "slot", leaks->oldest[i].name);
        json_array_append_new(oldest, row);
    }
    json_object_set_new(object, "oldest", oldest);
    return object;
}

json_t *lint_report_json(const struct lint *lint, const char *path) {
    json_t *report = json_object(), *findings = json_array();
    json_object_set_new(report, "file", trace_json_string(path));
    json_object_set_new(report, "kind", json_string(lint->raw ? "raw log" : "trace"));
    json_set_number(report, "calls", lint->calls);
    json_set_number(report, "defects", lint_defects(lint));
    for (unsigned kind = 0; kind < LINT_KINDS; kind++) {
        const struct lint_tally *tally = &lint->tally[kind];
        json_t *row = json_object(), *examples = json_array();
        json_object_set_new(row, "finding", json_string(lint_kind_texts[kind].key));
        json_object_set_new(row, "defect", json_boolean(kind <= LINT_LAST_DEFECT));
        json_set_number(row, "count", tally->count);
        for (size_t i = 0; i < tally->examples; i++)
            json_array_append_new(examples, finding_json(lint, &tally->example[i]));
        json_object_set_new(row, "examples", examples);
        json_array_append_new(findings, row);
    }
    json_object_set_new(report, "findings", findings);
    json_object_set_new(report, "leaks", leaks_json(lint));
    return report;
}

// ---- text ----

static void print_block(const struct lint *lint, const struct lint_block *block, uint64_t name) {
    char bytes[HT_NUMBER_OF_BYTES];
    if (!block->function) {
        ht_print(stdout, "freed at %.6f s", (double)block->time_ns / 1e9);
        return;
    }
    ht_print(stdout, "%s by %s", ht_number_of(bytes, block->bytes, "byte"),
             ht_functions[block->function].name);
    if (block->alignment != LINT_NO_ALIGNMENT)
        ht_print(stdout, ", aligned to %" PRIu64, UINT64_C(1) << block->alignment);
    ht_print(stdout, ", t%" PRIu32 " at %.6f s", block->thread, (double)block->time_ns / 1e9);
    if (lint->raw) ht_print(stdout, ", 0x%" PRIx64, name);
    else ht_print(stdout, ", event %" PRIu64, block->birth);
}

static void print_finding(const struct lint *lint, const struct lint_finding *finding) {
    const struct lint_call *call = &finding->call;
    const struct ht_function_info *info = &ht_functions[call->function];
    if (lint->raw) ht_print(stdout, "    offset %" PRIu64, call->offset);
    else ht_print(stdout, "    event %" PRIu64, call->event);
    ht_print(stdout, ", %.6f s, t%" PRIu32 ": %s", (double)call->time_ns / 1e9, call->thread, info->name);
    if (lint->raw && call->address) ht_print(stdout, " 0x%" PRIx64, call->address);
    if (!lint->raw && call->slot) ht_print(stdout, " #%" PRIu32, call->slot);
    if (info->size) ht_print(stdout, " size %" PRIu64, call->size);
    if (info->extra)
        ht_print(stdout, " %s %" PRIu64,
                 call->function == HT_CALLOC || call->function == HT_REALLOCARRAY ? "count" : "alignment",
                 call->extra);
    if (finding->has_block) {
        fputs("; the block: ", stdout);
        print_block(lint, &finding->block, finding->block_address);
    }
    putchar('\n');
}

static void print_findings(const struct lint *lint, unsigned first, unsigned last, const char *label) {
    char text[32];
    bool any = false;
    for (unsigned kind = first; kind <= last; kind++) {
        const struct lint_tally *tally = &lint->tally[kind];
        if (!tally->count) continue;
        if (!any && label) puts(label);
        any = true;
        ht_print(stdout, "  %14s  %s\n", ht_grouped(text, tally->count),
                 tally->count == 1 ? lint_kind_texts[kind].one : lint_kind_texts[kind].many);
        for (size_t i = 0; i < tally->examples; i++) print_finding(lint, &tally->example[i]);
        if (tally->count > tally->examples && tally->examples) puts("    ...");
    }
}

// noun: of which there are as many as the key says; NULL: the key is a thread's number.
static void print_counts(const struct lint *lint, const struct map64 *map, const char *noun) {
    size_t count;
    char key[HT_NUMBER_OF_BYTES], blocks[32];
    struct counted *list = sorted_counts(map, &count);
    fputs("   ", stdout);
    for (size_t i = 0; i < count && i < lint->limit; i++)
        ht_print(stdout, "%s %s of %s%s", i ? "," : "", ht_grouped(blocks, list[i].count), noun ? "" : "t",
                 noun ? ht_number_of(key, list[i].key, noun) : ht_grouped(key, list[i].key));
    puts(count > lint->limit ? ", ..." : "");
    free(list);
}

static void print_leaks(const struct lint *lint) {
    const struct lint_leaks *leaks = &lint->leaks;
    char blocks[32], bytes[32];
    if (leaks->blocks)
        ht_print(stdout, "  %14s  %s live at the end, %s\n", ht_grouped(blocks, leaks->blocks),
                 leaks->blocks == 1 ? "block" : "blocks", ht_bytes(bytes, (double)leaks->bytes));
    if (leaks->blocks && lint->limit) {
        print_counts(lint, &leaks->by_size, "byte");
        print_counts(lint, &leaks->by_thread, NULL);
        for (size_t i = 0; i < leaks->oldest_count; i++) {
            fputs(i ? "            " : "    oldest: ", stdout);
            print_block(lint, &leaks->oldest[i].block, leaks->oldest[i].name);
            putchar('\n');
        }
    }
    if (leaks->inherited_blocks)
        ht_print(stdout, "  %14s  %s%s%s live at the end, %s\n", ht_grouped(blocks, leaks->inherited_blocks),
                 lint->sliced ? "" : "inherited ", leaks->inherited_blocks == 1 ? "block" : "blocks",
                 lint->sliced ? " from before the slice" : "",
                 ht_bytes(bytes, (double)leaks->inherited_bytes));
}

void lint_report_text(const struct lint *lint, const char *path, bool part) {
    char calls[HT_NUMBER_OF_BYTES], defects[HT_NUMBER_OF_BYTES];
    uint64_t count = lint_defects(lint);
    ht_print(stdout, "%s: %s%s, %s\n", path, part ? "only a part could be read: " : "",
             ht_number_of(calls, lint->calls, "call"),
             count ? ht_number_of(defects, count, "defect") : "no defects");
    print_findings(lint, 0, LINT_LAST_DEFECT, "defects");
    bool any = lint->leaks.blocks || lint->leaks.inherited_blocks;
    for (unsigned kind = LINT_LAST_DEFECT + 1; kind < LINT_KINDS; kind++)
        any = any || lint->tally[kind].count;
    if (!any) return;
    puts("for information");
    print_findings(lint, LINT_LAST_DEFECT + 1, LINT_KINDS - 1, NULL);
    print_leaks(lint);
}
