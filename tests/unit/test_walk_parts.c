// SPDX-License-Identifier: Apache-2.0
// What a walk stands on: the map of chunks against a plain array, and the pages in RAM by both of the kernel's ways.
#include "unit_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chunk_map.h"
#include "glibc.h"
#include "space.h"

enum { UNITS = 3000, CHUNKS_MAX = UNITS / 2, ROUNDS = 20 };

static void chunks_follow_a_plain_array(void **state) {
    (void)state;
    const uint64_t base = 0x55550000, end = base + UNITS * CHUNK_UNIT_BYTES;
    uint64_t seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        struct chunk_map map;
        assert_true(chunk_map_open(&map, base, end));
        uint64_t chunk[CHUNKS_MAX], count = 0;
        enum chunk_kind kind[CHUNKS_MAX];
        for (uint64_t at = base; at + CHUNK_BYTES_MIN <= end;
             at += CHUNK_BYTES_MIN + unit_random(&seed) % 200 * CHUNK_UNIT_BYTES / 7 / 16 * 16) {
            chunk[count] = at;
            kind[count] = (enum chunk_kind)(unit_random(&seed) % 4);
            chunk_map_add(&map, at);
            chunk_map_set_kind(&map, at, kind[count]);
            count++;
        }
        for (uint64_t i = 0, at = chunk_map_next(&map, 0); i < count;
             i++, at = chunk_map_next(&map, at + CHUNK_BYTES_MIN)) {
            assert_int_equal(at, chunk[i]);
            assert_int_equal(chunk_map_kind(&map, at), kind[i]);
            assert_int_equal(at + chunk_map_bytes(&map, at, UINT64_MAX), i + 1 < count ? chunk[i + 1] : end);
            assert_int_equal(chunk_map_before(&map, at), i ? chunk[i - 1] : 0);
        }
        // What is cut is gone, and leaves no kind behind.
        uint64_t kept = count / 3;
        chunk_map_cut(&map, chunk[kept], end);
        assert_int_equal(chunk_map_next(&map, chunk[kept]), end);
        for (uint64_t i = kept; i < count; i++) assert_false(chunk_map_has(&map, chunk[i]));
        chunk_map_add(&map, chunk[kept]);
        assert_int_equal(chunk_map_kind(&map, chunk[kept]), CHUNK_LIVE);
        chunk_map_free(&map);
    }
}

static void a_gap_ends_a_chunk(void **state) {
    (void)state;
    struct chunk_map map;
    assert_true(chunk_map_open(&map, 0x1000, 0x2000));
    chunk_map_add(&map, 0x1000);
    assert_true(chunk_map_add_gap(&map, 0x1040, 0x1050, GAP_POST));
    assert_true(chunk_map_add_gap(&map, 0x1050, 0x1800, GAP_LOST));
    chunk_map_add(&map, 0x1800);
    assert_int_equal(0x1000 + chunk_map_bytes(&map, 0x1000, UINT64_MAX), 0x1040);
    assert_int_equal(0x1800 + chunk_map_bytes(&map, 0x1800, UINT64_MAX), 0x2000);
    chunk_map_end(&map, 0x1900);
    assert_int_equal(0x1800 + chunk_map_bytes(&map, 0x1800, UINT64_MAX), 0x1900);
    chunk_map_free(&map);
}

static void assert_same(const struct space_runs *a, const struct space_runs *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->run[i].start, b->run[i].start);
        assert_int_equal(a->run[i].end, b->run[i].end);
    }
}

// More runs than one call of the kernel's tells.
static void pages_in_ram_by_both_ways(void **state) {
    (void)state;
    enum { PAGES = 4000 };
    struct space space = {.memory_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
                          .pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    if (space.memory_fd < 0 || space.pagemap_fd < 0) skip();
    uint8_t *pages = mmap(NULL, PAGES * SPACE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    (void)madvise(pages, PAGES * SPACE_PAGE_BYTES, MADV_NOHUGEPAGE);
    uint64_t seed = 11, touched = 0, start = (uintptr_t)pages, end = start + PAGES * SPACE_PAGE_BYTES;
    for (int i = 0; i < PAGES; i++)
        if (unit_random(&seed) % 3 == 0) pages[(uint64_t)i * SPACE_PAGE_BYTES] = 1, touched++;
    struct space_runs scanned = {0}, entries = {0};
    struct ht_error error;
    assert_int_equal(space_runs_add(&space, start, end, &scanned, &error), 0);
    assert_int_equal(scanned.bytes, touched * SPACE_PAGE_BYTES);
    space.no_scan = true;
    assert_int_equal(space_runs_add(&space, start, end, &entries, &error), 0);
    assert_same(&scanned, &entries);
    assert_int_equal(space_runs_bytes(&scanned, start, end), scanned.bytes);
    space_runs_free(&scanned);
    space_runs_free(&entries);
    munmap(pages, PAGES * SPACE_PAGE_BYTES);
    space_free(&space);
}

static void each_glibc_has_one_layout(void **state) {
    (void)state;
    assert_null(glibc_layout_of(GLIBC_OLDEST - 1));
    assert_null(glibc_layout_of(GLIBC_NEWEST + 1));
    for (int minor = GLIBC_OLDEST; minor <= GLIBC_NEWEST; minor++) {
        const struct glibc_layout *layout = glibc_layout_of(minor);
        assert_non_null(layout);
        assert_true(layout->from_minor <= minor && minor <= layout->to_minor);
        // Four words of bits, one a bin, lie between the bins and the next arena.
        assert_int_equal(layout->arena.next, layout->arena.bins + 2 * 8 * GLIBC_BINS + 16);
        assert_int_equal(layout->cache.all, layout->cache.bins * (layout->cache.count_bytes + 8));
        assert_int_equal(layout->heap_header_bytes % 16, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_follow_a_plain_array),
        cmocka_unit_test(a_gap_ends_a_chunk),
        cmocka_unit_test(pages_in_ram_by_both_ways),
        cmocka_unit_test(each_glibc_has_one_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
