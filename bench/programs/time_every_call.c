// SPDX-License-Identifier: Apache-2.0
// Times every call of a trace of one thread, written as CS:APP's malloc lab text (heaptape convert --to rep),
// and prints the percentiles of all of them: what bench/figures/latency_check.py holds the sampled ones of `replay`
// against. It shares no code with the replayer but the clock.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw_clock.h"

enum { KINDS = 3, PAGE_BYTES = 4096 };
static const char *const names[KINDS] = {"malloc", "realloc", "free"};

struct call {
    char kind;
    uint32_t id;
    uint64_t bytes;
};

// One cache line at most for what the loop must know of a block.
struct entry {
    char *block;
    uint64_t bytes;
};

struct timed {
    uint32_t *ticks;
    size_t count;
};

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static struct call *read_calls(FILE *in, size_t *count, uint32_t *ids) {
    long heap, weight;
    size_t promised;
    if (fscanf(in, "%ld %u %zu %ld", &heap, ids, &promised, &weight) != 4) return NULL;
    struct call *calls = malloc(promised * sizeof *calls);
    for (*count = 0; calls && *count < promised; (*count)++) {
        struct call *call = &calls[*count];
        int id;
        if (fscanf(in, " %c %d", &call->kind, &id) != 2) return NULL;
        call->id = id < 0 ? 0 : (uint32_t)id + 1;
        if (call->kind != 'f' && fscanf(in, "%lu", &call->bytes) != 1) return NULL;
    }
    return calls;
}

// As `heaptape replay --touch recorded` does it where nothing is known of the program's pages.
static void touch(char *block, uint64_t from, uint64_t bytes) {
    if (bytes <= PAGE_BYTES && bytes > from) memset(block + from, 0x5a, bytes - from);
    for (uint64_t at = (from + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; bytes > PAGE_BYTES && at < bytes;
         at += PAGE_BYTES) {
        ((volatile char *)block)[at] = 0x5a;
    }
}

static void run(const struct call *calls, size_t count, struct entry *entries, struct timed timed[KINDS]) {
    for (size_t i = 0; i < count; i++) {
        const struct call *call = &calls[i];
        struct entry *entry = &entries[call->id];
        char *made = NULL, *block = entry->block;
        uint64_t before, after;
        int kind = call->kind == 'f' ? 2 : call->kind == 'r';
        if (kind == 2) {
            before = ht_ticks();
            free(block);
            after = ht_ticks();
            *entry = (struct entry){0};
        } else {
            before = ht_ticks();
            made = kind ? realloc(block, call->bytes) : malloc(call->bytes);
            after = ht_ticks();
            touch(made, kind ? entry->bytes : 0, call->bytes);
            *entry = (struct entry){made, call->bytes};
        }
        uint64_t ticks = after - before;
        timed[kind].ticks[timed[kind].count++] = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
    }
}

int main(int argc, char **argv) {
    size_t count = 0;
    uint32_t ids = 0;
    FILE *in = argc == 2 ? fopen(argv[1], "r") : NULL;
    struct call *calls = in ? read_calls(in, &count, &ids) : NULL;
    struct entry *entries = calloc((size_t)ids + 2, sizeof *entries);
    struct timed timed[KINDS];
    for (int i = 0; i < KINDS; i++) timed[i] = (struct timed){calloc(count + 1, sizeof(uint32_t)), 0};
    if (!calls || !entries || !timed[0].ticks || !timed[1].ticks || !timed[2].ticks) {
        fprintf(stderr, "usage: time_every_call TRACE.rep\n");
        return 2;
    }
    uint64_t floor_ticks = UINT64_MAX, start_ticks = ht_ticks();
    uint64_t start_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 1000; i++) {
        uint64_t before = ht_ticks(), ticks = ht_ticks() - before;
        if (ticks < floor_ticks) floor_ticks = ticks;
    }
    run(calls, count, entries, timed);
    double ns_per_tick =
        (double)(ht_raw_clock_ns(CLOCK_MONOTONIC) - start_ns) / (double)(ht_ticks() - start_ticks);
    for (int i = 0; i < KINDS; i++) {
        static const double shares[] = {0.5, 0.9, 0.99};
        if (!timed[i].count) continue;
        qsort(timed[i].ticks, timed[i].count, sizeof(uint32_t), by_value);
        printf("%s %zu", names[i], timed[i].count);
        for (int k = 0; k < 3; k++) {
            uint32_t ticks = timed[i].ticks[(size_t)(shares[k] * (double)(timed[i].count - 1))];
            printf(" %.1f", ticks > floor_ticks ? (double)(ticks - floor_ticks) * ns_per_tick : 0);
        }
        printf("\n");
    }
    return 0;
}
