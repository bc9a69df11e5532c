// SPDX-License-Identifier: Apache-2.0
#include "lane_heap.h"

#include <assert.h>
#include <stdbool.h>

static bool earlier(struct ht_lane_key a, struct ht_lane_key b) {
    return a.ns != b.ns ? a.ns < b.ns : a.lane < b.lane;
}

// Puts the key where it belongs, at `at` or below.
static void settle(struct ht_lane_heap *heap, uint32_t at, struct ht_lane_key key) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && earlier(heap->keys[child + 1], heap->keys[child])) child++;
        if (!earlier(heap->keys[child], key)) break;
        heap->keys[at] = heap->keys[child];
        at = child;
    }
    heap->keys[at] = key;
}

void ht_lane_heap_put(struct ht_lane_heap *heap, uint64_t ns, uint32_t lane) {
    struct ht_lane_key key = {ns, lane};
    uint32_t at = heap->count++;
    while (at > 0 && earlier(key, heap->keys[(at - 1) / 2])) {
        heap->keys[at] = heap->keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->keys[at] = key;
}

struct ht_lane_key ht_lane_heap_take(struct ht_lane_heap *heap) {
    assert(heap->count > 0);
    struct ht_lane_key first = heap->keys[0];
    heap->count--;
    if (heap->count) settle(heap, 0, heap->keys[heap->count]);
    return first;
}

void ht_lane_heap_delay_first(struct ht_lane_heap *heap, uint64_t ns) {
    assert(heap->count > 0 && ns >= heap->keys[0].ns);
    settle(heap, 0, (struct ht_lane_key){ns, heap->keys[0].lane});
}
