// SPDX-License-Identifier: Apache-2.0
// What verification stands on: the map of live blocks against a plain list, the patterns, and how options are
// read.
#include "unit_support.h"

#include <string.h>

#include "random_numbers.h"
#include "verify_blocks.h"

enum { SLOTS = 300 };

struct listed {
    struct ht_map_node node;
    bool live;
};

static bool overlap(const struct ht_map_node *a, const struct ht_map_node *b) {
    return a->start < b->start + b->bytes && b->start < a->start + a->bytes;
}

static bool overlaps_any(const struct listed *slots, uint32_t slot) {
    for (uint32_t i = 1; i < SLOTS; i++) {
        if (i != slot && slots[i].live && overlap(&slots[i].node, &slots[slot].node)) return true;
    }
    return false;
}

// Blocks come and go; now and then one that overlaps is put in, told, and taken out again.
static void the_map_finds_every_overlap(void **state) {
    (void)state;
    static struct listed slots[SLOTS];
    struct ht_map_nodes nodes = {(char *)slots, sizeof *slots};
    struct ht_verify_map map = {0};
    struct ht_random random = {5};
    unsigned found_count = 0;
    for (int step = 0; step < 200000; step++) {
        uint32_t slot = 1 + ht_random_below(&random, SLOTS - 1);
        if (slots[slot].live) {
            ht_map_remove(&map, nodes, slot);
            slots[slot].live = false;
            continue;
        }
        slots[slot].node.start = 0x1000 + ht_random_below(&random, 100000);
        slots[slot].node.bytes = 1 + ht_random_below(&random, 300);
        bool expected = overlaps_any(slots, slot);
        uint32_t found = ht_map_add(&map, nodes, slot);
        assert_int_equal(found != HT_MAP_NONE, expected);
        slots[slot].live = true;
        if (!expected) continue;
        assert_true(slots[found].live && overlap(&slots[found].node, &slots[slot].node));
        found_count++;
        ht_map_remove(&map, nodes, slot);
        slots[slot].live = false;
    }
    assert_true(found_count > 1000);
    for (uint32_t i = 1; i < SLOTS; i++) {
        if (slots[i].live) ht_map_remove(&map, nodes, i);
    }
    assert_int_equal(map.root, HT_MAP_NONE);
}

static void blocks_at_one_address_are_distinguished(void **state) {
    (void)state;
    struct listed slots[4] = {0};
    struct ht_map_nodes nodes = {(char *)slots, sizeof *slots};
    struct ht_verify_map map = {0};
    for (uint32_t i = 1; i < 4; i++) slots[i].node = (struct ht_map_node){.start = 64, .bytes = 1};
    assert_int_equal(ht_map_add(&map, nodes, 2), HT_MAP_NONE);
    assert_int_equal(ht_map_add(&map, nodes, 1), 2);
    assert_int_not_equal(ht_map_add(&map, nodes, 3), HT_MAP_NONE);
    ht_map_remove(&map, nodes, 2);
    ht_map_remove(&map, nodes, 3);
    ht_map_remove(&map, nodes, 1);
    assert_int_equal(map.root, HT_MAP_NONE);
}

// Each byte that is filled is checked, and none beside the block is written.
static void a_pattern_covers_what_it_says(void **state) {
    (void)state;
    enum { EDGE = 64 };
    static char memory[200000 + 2 * EDGE];
    static const uint64_t sizes[] = {1, 7, 8, 9, 100, 4096, 65535, 65536, 65537, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t usable = sizes[i] + 16 * (i % 3);
        struct ht_pattern pattern = {
            .seed = 99 + i, .bytes = sizes[i], .pages = i % 2 ? 3 : UINT64_MAX, .usable = usable};
        char *block = memory + EDGE;
        uint64_t offset, touched = 0;
        uint8_t expected, found;
        memset(memory, 0, sizeof memory);
        ht_pattern_fill(&pattern, block);
        assert_true(ht_pattern_holds(&pattern, block, UINT64_MAX, &offset, &expected, &found));
        for (uint64_t at = 0; at < sizes[i]; at++) {
            block[at] ^= 0x10;
            bool holds = ht_pattern_holds(&pattern, block, UINT64_MAX, &offset, &expected, &found);
            if (!holds) {
                assert_int_equal(offset, at);
                assert_int_equal(expected ^ 0x10, found);
                assert_true(ht_pattern_holds(&pattern, block, at, &offset, &expected, &found));
            }
            touched += !holds;
            block[at] ^= 0x10;
            if (sizes[i] > 5000 && at > 300 && at < sizes[i] - 300) at += 61;
        }
        assert_true(sizes[i] >= HT_PATTERN_WHOLE_BYTES || sizes[i] > 5000 || touched == sizes[i]);
        assert_true(touched > 0);
        for (uint64_t at = sizes[i]; at < usable; at++) {
            block[at] ^= 0x10;
            assert_false(ht_pattern_holds(&pattern, block, UINT64_MAX, &offset, &expected, &found));
            assert_int_equal(offset, at);
            assert_true(ht_pattern_holds(&pattern, block, sizes[i], &offset, &expected, &found));
            block[at] ^= 0x10;
        }
        for (int at = 0; at < EDGE; at++) assert_false(memory[at]);
        for (uint64_t at = usable; at < sizes[i] + EDGE; at++) assert_false(block[at]);
    }
}

static void another_blocks_pattern_does_not_hold(void **state) {
    (void)state;
    char block[4096];
    struct ht_pattern mine = {.seed = 1, .bytes = 4096}, other = {.seed = 2, .bytes = 4096};
    uint64_t offset;
    uint8_t expected, found;
    ht_pattern_fill(&mine, block);
    assert_false(ht_pattern_holds(&other, block, UINT64_MAX, &offset, &expected, &found));
    memmove(block, block + 8, 4088);  // of the same block, from another place in it
    assert_false(ht_pattern_holds(&mine, block, 8, &offset, &expected, &found));
}

static void zeros_are_looked_at_whole(void **state) {
    (void)state;
    static char block[10000];
    uint64_t offset = 0;
    uint8_t found;
    for (uint64_t at = 0; at < sizeof block; at += 1 + at / 50) {
        assert_true(ht_all_zeros(block, sizeof block, &offset, &found));
        block[at] = 5;
        assert_false(ht_all_zeros(block, sizeof block, &offset, &found));
        assert_true(offset == at && found == 5);
        assert_true(ht_all_zeros(block, at, &offset, &found));
        block[at] = 0;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_finds_every_overlap),
        cmocka_unit_test(blocks_at_one_address_are_distinguished),
        cmocka_unit_test(a_pattern_covers_what_it_says),
        cmocka_unit_test(another_blocks_pattern_does_not_hold),
        cmocka_unit_test(zeros_are_looked_at_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
