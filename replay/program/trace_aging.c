// SPDX-License-Identifier: Apache-2.0
#include "trace_aging.h"

#include <math.h>
#include <stdlib.h>

#include "form_operation.h"
#include "ops.h"

// Of the blocks that were live, each counts as long as it lived: the sizes are those of the live heap at a random time.
struct live_block {
    uint64_t bytes, since_ns;  // HT_NO_BLOCK bytes: the slot is empty
};
#define HT_NO_BLOCK UINT64_MAX

struct live_heap {
    struct ht_op_shape shape[256];
    struct live_block *slot;
    size_t slots;
    uint64_t live, most_live, last_ns;
    struct ht_random random;
    double lived_ns;  // of all blocks so far
    struct ht_aging *aging;
};

static bool room_for(struct live_heap *heap, uint32_t slot) {
    if (slot < heap->slots) return true;
    size_t slots = 2 * ((size_t)slot + 1);
    struct live_block *grown = realloc(heap->slot, slots * sizeof *grown);
    if (!grown) return false;
    for (size_t i = heap->slots; i < slots; i++) grown[i] = (struct live_block){.bytes = HT_NO_BLOCK};
    heap->slot = grown;
    heap->slots = slots;
    return true;
}

// Each of the sizes is replaced by this one with the probability that is this one's share of all so far: at the end each is
// that of a block drawn by its life.
static void draw_sizes(struct live_heap *heap, uint64_t bytes, uint64_t lived_ns) {
    enum { OF_2_32 = 32 };
    struct ht_aging *aging = heap->aging;
    double life = (double)lived_ns + 1;
    heap->lived_ns += life;
    double expected = HT_AGING_SIZES_MAX * life / heap->lived_ns;
    uint64_t count = (uint64_t)expected;
    double drawn = ldexp((double)(ht_random_next(&heap->random) >> OF_2_32), -OF_2_32);
    count += drawn < expected - (double)count;
    if (count >= HT_AGING_SIZES_MAX) {
        for (uint32_t i = 0; i < HT_AGING_SIZES_MAX; i++) aging->size_bytes[i] = bytes;
        return;
    }
    while (count--) aging->size_bytes[ht_random_below(&heap->random, HT_AGING_SIZES_MAX)] = bytes;
}

static void end_block(struct live_heap *heap, struct live_block *block, uint64_t time_ns) {
    if (block->bytes == HT_NO_BLOCK) return;
    draw_sizes(heap, block->bytes, time_ns > block->since_ns ? time_ns - block->since_ns : 0);
    block->bytes = HT_NO_BLOCK;
    heap->live--;
}

static void follow(struct live_heap *heap, const struct ht_events *events, uint32_t i) {
    uint8_t op = events->op[i];
    const struct ht_op_shape *shape = &heap->shape[op];
    heap->last_ns = events->time_ns[i];
    if (!shape->slot || shape->query || ht_op_variant(op) == HT_FAILED) return;
    struct live_block *block = &heap->slot[events->slot[i]];
    uint64_t former = block->bytes == HT_NO_BLOCK ? 0 : block->bytes;
    struct ht_operation operation = ht_operation_of(events, i, former);
    end_block(heap, block, heap->last_ns);
    if (shape->ends_object || operation.frees) return;
    *block = (struct live_block){operation.bytes, heap->last_ns};
    if (++heap->live > heap->most_live) heap->most_live = heap->live;
}

static int read_events(struct live_heap *heap, struct ht_trace_reader *reader, struct ht_error *error) {
    for (size_t section = 0; section < ht_trace_sections(reader); section++) {
        struct ht_events events;
        if (ht_trace_section(reader, section)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, section, &events, error)) return -1;
        for (uint32_t i = 0; i < events.rows; i++) {
            if (!room_for(heap, events.slot[i]))
                return ht_error_memory(error, ht_trace_path(reader), "cannot follow its blocks");
            follow(heap, &events, i);
        }
    }
    for (size_t i = 0; i < heap->slots; i++) end_block(heap, &heap->slot[i], heap->last_ns);
    return 0;
}

// At most 2^63: the sum is compared with what the machine has.
static uint64_t added(uint64_t sum, uint64_t bytes) {
    return bytes > INT64_MAX - sum ? INT64_MAX : sum + bytes;
}

int ht_aging_of_trace(struct ht_trace_reader *reader, double occupancy, double multiple, uint32_t copies,
                      struct ht_aging *aging, struct ht_error *error) {
    struct live_heap heap = {.random = {1}, .aging = aging};
    *aging = (struct ht_aging){.sizes = HT_AGING_SIZES_MAX};
    for (unsigned op = 0; op < 256; op++) heap.shape[op] = ht_op_shape((uint8_t)op);
    int failed = read_events(&heap, reader, error);
    free(heap.slot);
    if (failed || !heap.most_live) return failed;
    aging->blocks = (uint64_t)ceil(multiple * (double)heap.most_live * copies);
    aging->kept_of_2_32 = (uint64_t)ldexp(occupancy, 32);
    for (uint64_t i = 0; i < aging->blocks; i++) {
        uint64_t bytes = ht_aging_bytes(aging, i);
        aging->bytes = added(aging->bytes, bytes);
        if (!ht_aging_keeps(aging, i)) continue;
        aging->kept++;
        aging->kept_bytes = added(aging->kept_bytes, bytes);
    }
    return 0;
}
