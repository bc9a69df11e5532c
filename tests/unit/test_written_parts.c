// SPDX-License-Identifier: Apache-2.0
// Which inherited blocks a process wrote: pages that tell all, pages that tell nothing, and blocks at the edges of pages.
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>

#include "group_snapshot.h"
#include "group_trace.h"
#include "page_parts.h"
#include "write_model.h"

enum { PAGE = 4096, BLOCKS_MAX = 40000, PAGES_MAX = 4000 };

// A process whose blocks are laid out one behind the other, as glibc does.
struct heap {
    uint64_t bytes[BLOCKS_MAX];
    uint32_t page[BLOCKS_MAX];
    uint16_t offset[BLOCKS_MAX];
    uint8_t ended[BLOCKS_MAX], state[PAGES_MAX];
    size_t blocks;
    uint64_t top;
    struct ht_inherited_pages pages;
};

static struct heap *heap_make(void) {
    struct heap *heap = calloc(1, sizeof *heap);
    assert_non_null(heap);
    heap->top = 16;
    return heap;
}

static void put(struct heap *heap, uint64_t bytes) {
    uint64_t chunk = (bytes + 8 + 15) / 16 * 16;
    heap->bytes[heap->blocks] = bytes;
    heap->page[heap->blocks] = (uint32_t)(heap->top / PAGE);
    heap->offset[heap->blocks++] = (uint16_t)(heap->top % PAGE);
    heap->top += chunk < 32 ? 32 : chunk;
}

static const struct ht_inherited_pages *end_with(struct heap *heap, uint8_t state) {
    size_t pages = heap->blocks ? heap->top / PAGE + 1 : 0;
    for (size_t q = 0; q < pages; q++) heap->state[q] = state;
    heap->pages = (struct ht_inherited_pages){heap->blocks, heap->bytes, heap->page,  heap->offset,
                                              heap->ended,  pages,       heap->state, PAGE};
    return &heap->pages;
}

static size_t draw(const struct ht_inherited_pages *pages, enum ht_write_clusters clusters,
                   struct ht_written_part **parts) {
    size_t count = 77;
    struct ht_write_model *model = ht_write_model_make(pages, 1);
    assert_non_null(model);
    assert_true(ht_write_model_cluster(model) >= 1);
    assert_true(ht_written_parts_draw(model, pages, clusters, 3, parts, &count));
    ht_write_model_free(model);
    return count;
}

// Both ways of drawing write something on each copied page that has parts, nothing on any other, and nothing twice.
static void assert_explains(const struct ht_inherited_pages *pages, bool all) {
    for (int clusters = HT_WRITES_APART; clusters <= HT_WRITES_TOGETHER; clusters++) {
        struct ht_written_part *parts;
        size_t count = draw(pages, (enum ht_write_clusters)clusters, &parts), hit = 0, copied = 0;
        uint8_t *written = calloc(pages->pages + 1, 1), *twice = calloc(2 * pages->blocks + 1, 1);
        assert_non_null(written);
        assert_non_null(twice);
        for (size_t i = 0; i < count; i++) {
            assert_true(parts[i].block < pages->blocks && parts[i].offset < pages->bytes[parts[i].block]);
            uint64_t q = (ht_block_start(pages, parts[i].block) + parts[i].offset) / PAGE;
            assert_true(q < pages->pages);
            assert_int_equal(pages->state[q] & HT_PAGE_STATE_BITS, HT_PAGE_EXCLUSIVE);
            assert_false(pages->ended[parts[i].block]);
            if (pages->bytes[parts[i].block] < PAGE)
                assert_false(twice[2 * parts[i].block + (parts[i].offset > 0)]++);
            written[q] = 1;
        }
        for (size_t q = 0; q < pages->pages; q++) {
            hit += written[q];
            copied += (pages->state[q] & HT_PAGE_STATE_BITS) == HT_PAGE_EXCLUSIVE;
        }
        if (all) assert_int_equal(hit, copied);
        free(parts);
        free(written);
        free(twice);
    }
}

static void nothing(void **state) {
    (void)state;
    struct ht_write_model *model = ht_write_model_make(NULL, 0);
    assert_non_null(model);
    ht_write_model_free(model);
    ht_write_model_free(NULL);
    struct heap *heap = heap_make();
    struct ht_written_part *parts;
    assert_int_equal(draw(end_with(heap, HT_PAGE_SHARED), HT_WRITES_TOGETHER, &parts), 0);
    free(parts);
    free(heap);
}

static void all_pages_quiet(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    for (int i = 0; i < 30000; i++) put(heap, 40 + (uint64_t)(i % 7) * 24);
    const struct ht_inherited_pages *pages = end_with(heap, HT_PAGE_SHARED);
    struct ht_page_parts parts;
    assert_true(ht_page_parts_make(pages, &parts));
    for (size_t q = 0; q + 1 < pages->pages; q++) assert_int_equal(parts.kind[q], HT_PAGE_QUIET);
    assert_int_equal(parts.kind[pages->pages - 1], HT_PAGE_HOLED);  // behind the last block
    ht_page_parts_free(&parts);
    assert_explains(pages, true);
    for (size_t q = 0; q < pages->pages; q += 3) heap->state[q] = HT_PAGE_EXCLUSIVE;
    heap->state[pages->pages - 1] = HT_PAGE_SHARED;
    assert_explains(pages, true);
    assert_explains(end_with(heap, HT_PAGE_EXCLUSIVE), false);
    free(heap);
}

// Blocks that have ended leave holes on all pages; a call met each of them.
static void no_page_quiet(void **state) {
    (void)state;
    for (int called = 0; called <= HT_PAGE_CALLED; called += HT_PAGE_CALLED) {
        struct heap *heap = heap_make();
        for (int i = 0; i < 30000; i++) {
            put(heap, 40 + (uint64_t)(i % 7) * 24);
            heap->ended[i] = i % 5 == 0;
        }
        const struct ht_inherited_pages *pages = end_with(heap, (uint8_t)(HT_PAGE_SHARED | called));
        for (size_t q = 0; q < pages->pages; q++)
            if (q % 4) heap->state[q] = (uint8_t)(HT_PAGE_EXCLUSIVE | called);
        struct ht_page_parts parts;
        assert_true(ht_page_parts_make(pages, &parts));
        for (size_t q = 0; q < pages->pages; q++)
            assert_int_equal(parts.kind[q], called ? HT_PAGE_MET : HT_PAGE_HOLED);
        ht_page_parts_free(&parts);
        assert_explains(pages, false);
        free(heap);
    }
}

static void states_that_tell_nothing(void **state) {
    (void)state;
    for (uint8_t none = 0; none < (uint8_t)HT_PAGE_STATES; none++) {
        if (none == HT_PAGE_EXCLUSIVE) continue;
        struct heap *heap = heap_make();
        for (int i = 0; i < 5000; i++) put(heap, i % 50 ? 100 : 20000);
        struct ht_written_part *parts;
        assert_int_equal(draw(end_with(heap, none), HT_WRITES_TOGETHER, &parts), 0);
        free(parts);
        free(heap);
    }
}

// Of a block over many pages, each copied page in it is written, and no other.
static void large_blocks(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    put(heap, 10 * PAGE);
    const struct ht_inherited_pages *pages = end_with(heap, HT_PAGE_SHARED);
    heap->state[3] = heap->state[5] = HT_PAGE_EXCLUSIVE;
    struct ht_written_part *parts;
    assert_int_equal(draw(pages, HT_WRITES_APART, &parts), 2);
    assert_int_equal(parts[0].offset, 3 * PAGE - 16);
    assert_int_equal(parts[1].offset, 5 * PAGE - 16);
    free(parts);
    heap->state[0] = heap->state[10] = HT_PAGE_EXCLUSIVE;  // with its first and last bytes
    assert_explains(pages, false);
    free(heap);
    heap = heap_make();
    heap->top = 0;  // exactly a page
    put(heap, PAGE);
    heap->top = PAGE;
    put(heap, PAGE);
    assert_int_equal(draw(end_with(heap, HT_PAGE_EXCLUSIVE), HT_WRITES_TOGETHER, &parts), 2);
    free(parts);
    free(heap);
}

static void blocks_of_no_bytes(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    for (int i = 0; i < 1000; i++) put(heap, 0);
    struct ht_written_part *parts;
    const struct ht_inherited_pages *pages = end_with(heap, HT_PAGE_EXCLUSIVE);
    struct ht_page_parts of_pages;
    assert_true(ht_page_parts_make(pages, &of_pages));
    for (size_t q = 0; q + 1 < pages->pages; q++)
        assert_int_equal(of_pages.kind[q], HT_PAGE_QUIET);  // they fill pages
    ht_page_parts_free(&of_pages);
    assert_int_equal(draw(pages, HT_WRITES_TOGETHER, &parts), 0);
    free(parts);
    free(heap);
}

static void ended_blocks(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    for (int i = 0; i < 5000; i++) put(heap, i % 100 ? 100 : 30000);
    memset(heap->ended, 1, heap->blocks);
    struct ht_written_part *parts;
    assert_int_equal(draw(end_with(heap, HT_PAGE_EXCLUSIVE | HT_PAGE_CALLED), HT_WRITES_TOGETHER, &parts), 0);
    free(parts);
    free(heap);
}

// Rooms between blocks that their sizes explain, in an allocator that rounds more than glibc does; and a hole.
static void holes(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    heap->top = 0;
    for (int i = 0; i < 800; i++) {
        put(heap, 257);
        heap->top = (uint64_t)(i + 1) * 320;
    }
    heap->ended[100] = 1;
    const struct ht_inherited_pages *pages = end_with(heap, HT_PAGE_SHARED);
    struct ht_page_parts parts;
    assert_true(ht_page_parts_make(pages, &parts));
    for (size_t q = 0; q + 2 < pages->pages; q++)
        assert_int_equal(parts.kind[q], q == 32000 / PAGE ? HT_PAGE_HOLED : HT_PAGE_QUIET);
    ht_page_parts_free(&parts);
    free(heap);
}

static void the_same_for_the_same_seed(void **state) {
    (void)state;
    struct heap *heap = heap_make();
    for (int i = 0; i < 30000; i++) put(heap, 40 + (uint64_t)(i % 7) * 24);
    const struct ht_inherited_pages *pages = end_with(heap, HT_PAGE_SHARED);
    for (size_t q = 0; q < pages->pages; q += 3) heap->state[q] = HT_PAGE_EXCLUSIVE;
    struct ht_inherited_pages twelve[12];  // more than are learned from
    for (size_t i = 0; i < 12; i++) twelve[i] = *pages;
    struct ht_write_model *model = ht_write_model_make(twelve, 12);
    struct ht_written_part *parts[3];
    size_t count[3];
    for (size_t i = 0; i < 3; i++)
        assert_true(ht_written_parts_draw(model, pages, HT_WRITES_TOGETHER, i / 2, &parts[i], &count[i]));
    assert_int_equal(count[0], count[1]);
    for (size_t i = 0; i < count[0]; i++)
        assert_true(parts[0][i].block == parts[1][i].block && parts[0][i].offset == parts[1][i].offset);
    bool same = count[0] == count[2];
    for (size_t i = 0; same && i < count[0]; i++) same = parts[0][i].block == parts[2][i].block;
    assert_false(same);
    for (size_t i = 0; i < 3; i++) free(parts[i]);
    ht_write_model_free(model);
    free(heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(all_pages_quiet),
        cmocka_unit_test(no_page_quiet),
        cmocka_unit_test(states_that_tell_nothing),
        cmocka_unit_test(large_blocks),
        cmocka_unit_test(blocks_of_no_bytes),
        cmocka_unit_test(ended_blocks),
        cmocka_unit_test(holes),
        cmocka_unit_test(the_same_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
