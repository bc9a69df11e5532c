// SPDX-License-Identifier: Apache-2.0
#include "block_matching.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINE_BYTES = 16,
    FINE_MAX_BYTES = 1024,
    MIDDLE_MAX_BYTES = 64 << 10,
    MIDDLE_CLASSES_LOG = 4,  // to a power of two
    LARGE_CLASSES_LOG = 6
};

enum level { BY_THREAD, BY_CLASS, BY_SIZE };

unsigned match_class(uint64_t bytes) {
    if (bytes <= FINE_MAX_BYTES) return (unsigned)((bytes + FINE_BYTES - 1) / FINE_BYTES);
    unsigned log = bytes <= MIDDLE_MAX_BYTES ? MIDDLE_CLASSES_LOG : LARGE_CLASSES_LOG;
    unsigned power = 63u - (unsigned)__builtin_clzll(bytes - 1);  // 2^power < bytes <= 2^(power + 1)
    unsigned part = (unsigned)((bytes - 1 - (UINT64_C(1) << power)) >> (power - log));
    return power << 8 | part | 1u << 16;
}

// Those of one list that have no partner yet, in the order of a level.
struct rest {
    struct match_block *blocks;
    uint32_t *index;
    size_t count;
};

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int same_group(const struct match_block *a, const struct match_block *b, enum level level) {
    int order = compare(a->kind, b->kind);
    if (!order && level < BY_SIZE) order = compare(match_class(a->bytes), match_class(b->bytes));
    if (!order && level < BY_CLASS) order = compare(a->thread, b->thread);
    return order;
}

struct sorting {
    const struct match_block *blocks;
    enum level level;
};

static int in_order(const void *left, const void *right, void *context) {
    const struct sorting *sorting = context;
    const struct match_block *a = &sorting->blocks[*(const uint32_t *)left],
                             *b = &sorting->blocks[*(const uint32_t *)right];
    int order = same_group(a, b, sorting->level);
    if (!order && sorting->level == BY_SIZE) order = compare(a->bytes, b->bytes);
    return order ? order : compare(a->birth, b->birth);
}

static void sort(struct rest *rest, enum level level) {
    struct sorting sorting = {rest->blocks, level};
    if (rest->count) qsort_r(rest->index, rest->count, sizeof *rest->index, in_order, &sorting);
}

static size_t group_end(const struct rest *rest, size_t from, enum level level) {
    size_t end = from + 1;
    while (end < rest->count &&
           !same_group(&rest->blocks[rest->index[from]], &rest->blocks[rest->index[end]], level))
        end++;
    return end;
}

// Is it the turn of the i-th of `count`, if `wanted` of them are taken at equal distances?
static bool taken_evenly(size_t i, size_t wanted, size_t count) {
    return count && (i + 1) * wanted / count > i * wanted / count;
}

// Moves to the group's end so many of a group that go without a partner: such as turn, where there are enough of them. Returns how
// many stay; the rest's order is kept.
static size_t set_aside(struct rest *rest, uint32_t *aside, size_t from, size_t end, size_t wanted) {
    size_t turning = 0, others, at_turning = 0, at_other = 0, kept = from, put = 0;
    for (size_t i = from; i < end; i++) turning += rest->blocks[rest->index[i]].turns;
    others = end - from - turning;
    size_t of_turning = wanted < turning ? wanted : turning, of_others = wanted - of_turning;
    for (size_t i = from; i < end; i++) {
        bool turns = rest->blocks[rest->index[i]].turns;
        bool goes = turns ? taken_evenly(at_turning++, of_turning, turning)
                          : taken_evenly(at_other++, of_others, others);
        if (goes) aside[put++] = rest->index[i];
        else rest->index[kept++] = rest->index[i];
    }
    memcpy(rest->index + kept, aside, put * sizeof *aside);
    assert(put == wanted);
    return kept - from;
}

static void pair(struct matching *matching, uint32_t before, uint32_t after) {
    matching->before[before].partner = after;
    matching->after[after].partner = before;
}

static void drop_matched(struct rest *rest) {
    size_t kept = 0;
    for (size_t i = 0; i < rest->count; i++)
        if (rest->blocks[rest->index[i]].partner == MATCH_NONE) rest->index[kept++] = rest->index[i];
    rest->count = kept;
}

static uint64_t match_level(struct matching *matching, struct rest *before, struct rest *after,
                            uint32_t *aside, enum level level) {
    uint64_t pairs = 0;
    sort(before, level);
    sort(after, level);
    for (size_t a = 0, b = 0; a < before->count && b < after->count;) {
        int order = same_group(&before->blocks[before->index[a]], &after->blocks[after->index[b]], level);
        if (order < 0) a = group_end(before, a, level);
        if (order > 0) b = group_end(after, b, level);
        if (order) continue;
        size_t a_end = group_end(before, a, level), b_end = group_end(after, b, level);
        size_t many = a_end - a, few = b_end - b;
        if (many > few) set_aside(before, aside, a, a_end, many - few);
        else if (few > many) set_aside(after, aside, b, b_end, few - many);
        size_t both = many < few ? many : few;
        for (size_t i = 0; i < both; i++) pair(matching, before->index[a + i], after->index[b + i]);
        pairs += both;
        a = a_end;
        b = b_end;
    }
    drop_matched(before);
    drop_matched(after);
    return pairs;
}

// A block that outlives the stretch and is left without a partner plays itself; who was to play it is without one then. That ends
// with a block that turns.
static void play_itself(struct match_block *own, struct match_block *other, uint32_t block) {
    while (!own[block].turns && own[block].partner == MATCH_NONE) {
        uint32_t itself = own[block].same, robbed = other[itself].partner;
        own[block].partner = itself;
        other[itself].partner = block;
        if (robbed == MATCH_NONE) return;
        own[robbed].partner = MATCH_NONE;
        block = robbed;
    }
}

static uint64_t count_unmatched(const struct match_block *blocks, size_t count) {
    uint64_t unmatched = 0;
    for (size_t i = 0; i < count; i++) {
        unmatched += blocks[i].partner == MATCH_NONE;
        assert(blocks[i].turns || blocks[i].partner != MATCH_NONE);
    }
    return unmatched;
}

static bool all_of(struct rest *rest, struct match_block *blocks, size_t count) {
    *rest = (struct rest){.blocks = blocks, .index = malloc((count + 1) * sizeof(uint32_t)), .count = count};
    for (size_t i = 0; i < count; i++) {
        if (rest->index) rest->index[i] = (uint32_t)i;
        blocks[i].partner = MATCH_NONE;
        blocks[i].lasts = false;
    }
    return rest->index != NULL;
}

bool match_blocks(struct matching *matching) {
    struct match_block *before = matching->before, *after = matching->after;
    size_t most =
        matching->before_count > matching->after_count ? matching->before_count : matching->after_count;
    struct rest of_before, of_after;
    uint32_t *aside = malloc((most + 1) * sizeof *aside);
    bool begun = all_of(&of_before, before, matching->before_count);
    if (all_of(&of_after, after, matching->after_count) && begun && aside) {
        matching->by_thread = match_level(matching, &of_before, &of_after, aside, BY_THREAD);
        matching->by_class = match_level(matching, &of_before, &of_after, aside, BY_CLASS);
        matching->by_size = match_level(matching, &of_before, &of_after, aside, BY_SIZE);
        for (size_t i = 0; i < of_before.count; i++) play_itself(before, after, of_before.index[i]);
        for (size_t i = 0; i < of_after.count; i++) play_itself(after, before, of_after.index[i]);
        matching->unmatched_before = count_unmatched(before, matching->before_count);
        matching->unmatched_after = count_unmatched(after, matching->after_count);
    } else {
        begun = false;
    }
    free(of_before.index);
    free(of_after.index);
    free(aside);
    return begun;
}

uint64_t match_grow(struct matching *matching, uint64_t bytes_per_loop) {
    uint64_t grown = 0, passed = 0, all = 0;
    // Evenly: where a good part of the candidates has been passed, as good a part of the growth is there.
    for (size_t i = 0; i < matching->after_count; i++)
        if (matching->after[i].partner == MATCH_NONE) all += matching->after[i].bytes;
    for (size_t i = 0; i < matching->after_count; i++) {
        struct match_block *block = &matching->after[i];
        if (block->partner != MATCH_NONE) continue;
        passed += block->bytes;
        double due = all ? (double)bytes_per_loop * (double)passed / (double)all : 0;
        if (due > (double)passed) due = (double)passed;
        if ((double)grown + (double)block->bytes / 2 > due) continue;
        block->lasts = true;
        grown += block->bytes;
        matching->lasting++;
    }
    if (grown >= bytes_per_loop) return grown;
    uint64_t missing = bytes_per_loop - grown, added = 0;
    passed = all = 0;
    for (size_t i = 0; i < matching->before_count; i++)
        if (matching->before[i].turns && matching->before[i].partner != MATCH_NONE)
            all += matching->after[matching->before[i].partner].bytes;
    for (size_t i = 0; i < matching->before_count; i++) {
        struct match_block *block = &matching->before[i];
        if (!block->turns || block->partner == MATCH_NONE) continue;
        struct match_block *after = &matching->after[block->partner];
        passed += after->bytes;
        if ((double)added + (double)after->bytes / 2 > (double)missing * (double)passed / (double)all)
            continue;
        added += after->bytes;
        after->lasts = true;
        after->partner = block->partner = MATCH_NONE;
        matching->lasting++;
    }
    return grown + added;
}

bool match_live_bytes(const struct matching *matching, double *live, size_t loops) {
    size_t count = matching->after_count;
    const struct match_block *after = matching->after;
    double *bytes = malloc((count + 1) * sizeof *bytes), *next = malloc((count + 1) * sizeof *next);
    double lasting = 0;  // what nobody frees any more
    for (size_t i = 0; bytes && next && i < count; i++) bytes[i] = (double)after[i].bytes;
    for (size_t loop = 0; bytes && next && loop <= loops; loop++) {
        double sum = lasting;
        for (size_t i = 0; i < count; i++) {
            bool made = after[i].partner != MATCH_NONE || after[i].lasts;
            if (made || loop == 0) sum += bytes[i];
            // At the end of the stretch itself even those are there that the repetitions leave out.
            if (after[i].lasts || (!made && loop == 0)) lasting += bytes[i];
        }
        live[loop] = sum;
        for (size_t i = 0; i < count; i++) {
            bool anew = after[i].turns || after[i].resized;
            next[i] = anew ? (double)after[i].bytes : bytes[matching->before[after[i].same].partner];
        }
        double *spare = bytes;
        bytes = next;
        next = spare;
    }
    bool made = bytes && next;
    free(bytes);
    free(next);
    return made;
}

void matching_free(struct matching *matching) {
    free(matching->before);
    free(matching->after);
    *matching = (struct matching){0};
}
