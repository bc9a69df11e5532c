// SPDX-License-Identifier: Apache-2.0
#include "lint_checks.h"

#include <stdlib.h>
#include <string.h>

#include "ops.h"

const struct lint_kind_text lint_kind_texts[LINT_KINDS] = {
    [LINT_DOUBLE_FREE] = {"double_free", "freed twice", "freed twice"},
    [LINT_INSIDE_FREE] = {"free_inside_block", "freed at an address inside a live block",
                          "freed at an address inside a live block"},
    [LINT_OVERLAP] = {"overlap", "block that overlaps a live one", "blocks that overlap a live one"},
    [LINT_UNSEEN_FREE] = {"unseen_free", "live block whose address was returned again",
                          "live blocks whose address was returned again"},
    [LINT_PAIR] = {"mismatched_pair", "block freed by another family than it was allocated by",
                   "blocks freed by another family than they were allocated by"},
    [LINT_SIZE] = {"size_mismatch", "sized free of another size than was requested",
                   "sized frees of another size than was requested"},
    [LINT_OTHER_ALIGNMENT] = {"alignment_mismatch", "free with another alignment than was requested",
                              "frees with another alignment than was requested"},
    [LINT_BAD_ALIGNMENT] = {"bad_alignment",
                            "alignment that is no power of two, or too small for the function",
                            "alignments that are no power of two, or too small for the function"},
    [LINT_FOREIGN] = {"foreign", "free or realloc of a block whose allocation is not recorded",
                      "frees and reallocs of blocks whose allocation is not recorded"},
    [LINT_FAILED] = {"failed_call", "failed call", "failed calls"},
    [LINT_REALLOC_ZERO] = {"realloc_zero", "realloc to size 0, whose result depends on the allocator",
                           "reallocs to size 0, whose result depends on the allocator"},
    [LINT_ZERO_SIZED] = {"zero_sized", "request of size 0", "requests of size 0"},
    [LINT_ODD_SIZE] =
        {"odd_size",
         "aligned_alloc of a size that is no multiple of the alignment, which some allocators refuse",
         "aligned_alloc of sizes that are no multiple of the alignment, which some allocators refuse"},
};

bool lint_init(struct lint *lint, bool raw, size_t limit) {
    *lint = (struct lint){.raw = raw, .limit = limit};
    return map64_init(&lint->leaks.by_size) && map64_init(&lint->leaks.by_thread) &&
           (lint->leaks.oldest = calloc(limit + 1, sizeof *lint->leaks.oldest));
}

void lint_free(struct lint *lint) {
    for (unsigned kind = 0; kind < LINT_KINDS; kind++) free(lint->tally[kind].example);
    map64_free(&lint->leaks.by_size);
    map64_free(&lint->leaks.by_thread);
    free(lint->leaks.oldest);
}

void lint_found(struct lint *lint, enum lint_kind kind, const struct lint_call *call,
                const struct lint_block *block, uint64_t block_address) {
    struct lint_tally *tally = &lint->tally[kind];
    tally->count++;
    if (tally->examples == lint->limit) return;
    if (!tally->example && !(tally->example = calloc(lint->limit, sizeof *tally->example))) return;
    struct lint_finding *finding = &tally->example[tally->examples++];
    *finding = (struct lint_finding){.call = *call, .block_address = block_address};
    if (block) {
        finding->block = *block;
        finding->has_block = true;
    }
    if (lint->locate) lint->locate(lint->locate_context, &finding->call);
}

static bool has_alignment(unsigned function) {
    return ht_functions[function].extra && function != HT_CALLOC && function != HT_REALLOCARRAY;
}

static uint64_t bytes_of(const struct lint_call *call) {
    return call->function == HT_CALLOC || call->function == HT_REALLOCARRAY ? call->size * call->extra
                                                                            : call->size;
}

static bool power_of_two(uint64_t value) { return value && !(value & (value - 1)); }

void lint_check_call(struct lint *lint, const struct lint_call *call) {
    const struct ht_function_info *info = &ht_functions[call->function];
    lint->calls++;
    if (call->variant == HT_FAILED) lint_found(lint, LINT_FAILED, call, NULL, 0);
    if (call->variant == HT_FOREIGN) lint_found(lint, LINT_FOREIGN, call, NULL, 0);
    enum ht_oddity oddity = ht_oddity_of(call->function, call->extra, call->size);
    if (oddity == HT_ODD_ALIGNMENT ||
        (has_alignment(call->function) && call->variant != HT_NULL && !power_of_two(call->extra)))
        lint_found(lint, LINT_BAD_ALIGNMENT, call, NULL, 0);
    if (oddity == HT_ODD_SIZE && call->variant != HT_FAILED) lint_found(lint, LINT_ODD_SIZE, call, NULL, 0);
    if (info->kind == HT_KIND_FREE || info->kind == HT_KIND_QUERY || call->variant == HT_FAILED ||
        bytes_of(call))
        return;
    bool resizes = info->kind == HT_KIND_REALLOC && call->variant != HT_NULL;
    lint_found(lint, resizes ? LINT_REALLOC_ZERO : LINT_ZERO_SIZED, call, NULL, 0);
}

struct lint_block lint_block_of(const struct lint_call *call) {
    bool aligned = has_alignment(call->function) && power_of_two(call->extra);
    return (struct lint_block){.bytes = bytes_of(call),
                               .time_ns = call->time_ns,
                               .birth = call->event,
                               .thread = call->thread,
                               .function = call->function,
                               .alignment =
                                   aligned ? (uint8_t)__builtin_ctzll(call->extra) : LINT_NO_ALIGNMENT,
                               .live = true};
}

// Who made a block, or ends it: malloc and its kin, or operator new or new[], with or without alignment.
enum family { MALLOCS, NEWS, NEW_ARRAYS, NEWS_ALIGNED, NEW_ARRAYS_ALIGNED };

static enum family family_of(unsigned function) {
    switch (function) {
    case HT_NEW:
    case HT_DELETE:
    case HT_DELETE_SIZED: return NEWS;
    case HT_NEW_ARRAY:
    case HT_DELETE_ARRAY:
    case HT_DELETE_ARRAY_SIZED: return NEW_ARRAYS;
    case HT_NEW_ALIGNED:
    case HT_DELETE_ALIGNED:
    case HT_DELETE_SIZED_ALIGNED: return NEWS_ALIGNED;
    case HT_NEW_ARRAY_ALIGNED:
    case HT_DELETE_ARRAY_ALIGNED:
    case HT_DELETE_ARRAY_SIZED_ALIGNED: return NEW_ARRAYS_ALIGNED;
    default: return MALLOCS;
    }
}

void lint_check_end(struct lint *lint, const struct lint_call *call, const struct lint_block *block,
                    uint64_t block_address) {
    const struct ht_function_info *info = &ht_functions[call->function];
    if (call->function == HT_DROP) return;
    bool known = block->function != HT_INHERIT;
    if (known && family_of(call->function) != family_of(block->function))
        lint_found(lint, LINT_PAIR, call, block, block_address);
    if (info->kind != HT_KIND_FREE) return;
    if (info->size && call->size != block->bytes) lint_found(lint, LINT_SIZE, call, block, block_address);
    // An alignment that was none at the allocation is reported as the wrong pair, except malloc's
    // kin.
    bool kin = family_of(call->function) == MALLOCS || block->alignment != LINT_NO_ALIGNMENT;
    if (known && info->extra && kin &&
        (block->alignment == LINT_NO_ALIGNMENT || call->extra != UINT64_C(1) << block->alignment))
        lint_found(lint, LINT_OTHER_ALIGNMENT, call, block, block_address);
}

static bool count_in(struct map64 *map, uint64_t key) {
    size_t i = map64_find(map, key);
    if (!map64_has(map, i)) return map64_put(map, key, 1);
    map->entry[i].value++;
    return true;
}

bool lint_leak(struct lint *lint, const struct lint_block *block, uint64_t name) {
    struct lint_leaks *leaks = &lint->leaks;
    if (block->function == HT_INHERIT) {
        leaks->inherited_blocks++;
        leaks->inherited_bytes += block->bytes;
        return true;
    }
    leaks->blocks++;
    leaks->bytes += block->bytes;
    // The oldest, by insertion: there are few to keep.
    size_t at = leaks->oldest_count;
    while (at && leaks->oldest[at - 1].block.time_ns > block->time_ns) at--;
    if (at < lint->limit) {
        size_t kept = leaks->oldest_count < lint->limit ? leaks->oldest_count : lint->limit - 1;
        memmove(&leaks->oldest[at + 1], &leaks->oldest[at], (kept - at) * sizeof *leaks->oldest);
        leaks->oldest[at] = (struct lint_leak){*block, name};
        leaks->oldest_count = kept + 1;
    }
    return count_in(&leaks->by_size, block->bytes + 1) &&
           count_in(&leaks->by_thread, (uint64_t)block->thread + 1);
}

uint64_t lint_defects(const struct lint *lint) {
    uint64_t defects = 0;
    for (unsigned kind = 0; kind <= LINT_LAST_DEFECT; kind++) defects += lint->tally[kind].count;
    return defects;
}
