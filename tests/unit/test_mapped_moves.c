// SPDX-License-Identifier: Apache-2.0
// What the shim notes of mremap and munmap: the old addresses are forgotten before the kernel gives them away.
#include "unit_support.h"

#include <sys/mman.h>

#include "apart.h"
#include "memory_sample.h"
#include "own_ranges.h"
#include "real.h"
#include "recorder.h"
#include "settings.h"

// What wrap_maps.c asks of the rest of the shim. Own memory is one bit for each page of a small space.
enum { BASE = 0x100000, PAGE = 4096, PAGES = 64 };
struct real_functions real;
__thread struct thread_state self;
struct epoch_page epoch_page;
_Atomic bool recorder_sealed;
static volatile bool own[PAGES];

static volatile bool *page_at(uintptr_t address) {
    assert_in_range(address, BASE, BASE + PAGES * PAGE - 1);
    return &own[(address - BASE) / PAGE];
}
static void set(uintptr_t start, size_t bytes, bool value) {
    for (size_t at = 0; at < bytes; at += PAGE) *page_at(start + at) = value;
}
static size_t owned(void) {
    size_t pages = 0;
    for (size_t i = 0; i < PAGES; i++) pages += own[i];
    return pages;
}

bool recorder_may_call(void) { return true; }
void recorder_has_called(void) {}
struct thread_state *recorder_idle_thread(void) { return NULL; }
// Volatile: the compiler knows libc's mremap, which would read none of this.
static volatile bool watched;
bool recorder_watches_maps(const void *caller) { return caller && watched; }
static volatile bool early;
bool recorder_watches_early_maps(void) { return early; }
void settings_find_page_bytes(void) {}
// The table has a lock: a handler of a fault that maps memory meanwhile must find the gate busy.
static void note(uintptr_t start, size_t bytes, bool value) {
    assert_true(is_busy(self.gate));
    set(start, bytes, value);
}
void own_map(uintptr_t start, size_t bytes) { note(start, bytes, true); }
void own_unmap(uintptr_t start, size_t bytes) { note(start, bytes, false); }
void own_map_early(uintptr_t start, size_t bytes, const void *caller) {
    assert_non_null(caller);
    note(start, bytes, true);
}
bool own_has(uintptr_t address) {
    assert_true(is_busy(self.gate));
    return *page_at(address);
}
static volatile bool alone;
static volatile size_t leaving_bytes, filling_bytes;
static volatile bool left[PAGES];
bool apart_is_alone(void) { return alone; }
bool own_unmap_begins(uintptr_t start, size_t bytes, const void *who) {
    assert_ptr_equal(who, &self);
    for (size_t at = 0; at < bytes; at += PAGE) {
        bool had = *page_at(start + at);
        left[(start + at - BASE) / PAGE] = had;
        leaving_bytes += had ? PAGE : 0;
    }
    note(start, bytes, false);
    return leaving_bytes != 0;
}
void own_unmap_ends(const void *who, bool stays) {
    assert_ptr_equal(who, &self);
    assert_true(is_busy(self.gate));
    for (unsigned i = 0; i < PAGES; i++) {
        own[i] |= stays && left[i];
        left[i] = false;
    }
    leaving_bytes = 0;
}
void own_unmap_ends_alone(void) {
    assert_true(alone);
    for (unsigned i = 0; i < PAGES; i++) left[i] = false;
    leaving_bytes = 0;
}
void own_fill_begins(size_t bytes, const void *who) {
    assert_ptr_equal(who, &self);
    filling_bytes = bytes;
}
void own_fill_ends(const void *who) {
    assert_ptr_equal(who, &self);
    filling_bytes = 0;
}
void memory_sample(struct thread_state *t, uint64_t stamp, bool final) { (void)t, (void)stamp, (void) final; }

// The kernel's part: where the memory went, and how much was still noted by then.
static void *volatile result;
static volatile int status;
static volatile size_t owned_meanwhile;
static void *move(void *at, size_t old_bytes, size_t new_bytes, int flags, ...) {
    (void)at, (void)old_bytes, (void)new_bytes, (void)flags;
    owned_meanwhile = owned();
    return result;
}

static volatile size_t leaving_meanwhile_bytes;
static int unmap(void *at, size_t bytes) {
    (void)at, (void)bytes;
    owned_meanwhile = owned();
    leaving_meanwhile_bytes = leaving_bytes;
    return status;
}

static volatile size_t filling_meanwhile_bytes;
static void *fill(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    (void)at, (void)bytes, (void)protection, (void)flags, (void)fd, (void)offset;
    filling_meanwhile_bytes = filling_bytes;
    return result;
}

static void *place(unsigned page) { return (void *)(uintptr_t)(BASE + page * PAGE); }

static void remap(unsigned from, unsigned pages, unsigned to, unsigned new_pages, int flags) {
    result = place(to);
    watched = true;
    assert_ptr_equal(mremap(place(from), pages * PAGE, new_pages * PAGE, flags | MREMAP_MAYMOVE, place(to)),
                     result);
    watched = false;
}

static int begin(void **state) {
    (void)state;
    real.mremap = move;
    real.munmap = unmap;
    real.mmap = fill;
    status = 0;
    alone = false;
    for (unsigned i = 0; i < PAGES; i++) own[i] = left[i] = false;
    return 0;
}

static void own_memory_is_forgotten_first(void **state) {
    (void)state;
    set(BASE, 4 * PAGE, true);
    remap(0, 4, 10, 6, 0);
    assert_int_equal(owned_meanwhile, 0);
    assert_int_equal(owned(), 6);
    assert_true(own[10] && own[15]);
}

static void a_move_that_fails_changes_nothing(void **state) {
    (void)state;
    set(BASE, 4 * PAGE, true);
    result = MAP_FAILED;
    watched = true;
    void *moved = mremap(place(0), 4 * PAGE, 8 * PAGE, 0);
    watched = false;
    assert_ptr_equal(moved, MAP_FAILED);
    assert_int_equal(owned_meanwhile, 0);
    assert_int_equal(owned(), 4);
    assert_true(own[0] && own[3]);
}

static void what_stays_mapped_stays_own(void **state) {
    (void)state;
    set(BASE, 4 * PAGE, true);
    remap(0, 4, 10, 4, 4);  // MREMAP_DONTUNMAP
    assert_int_equal(owned(), 8);
}

static void what_comes_to_lie_on_own_memory_is_not(void **state) {
    (void)state;
    set(BASE + 10 * PAGE, 4 * PAGE, true);
    remap(0, 2, 11, 2, MREMAP_FIXED);
    assert_int_equal(owned(), 2);
    assert_true(own[10] && own[13]);
}

static void unmap_four_pages(bool is_alone) {
    set(BASE, 6 * PAGE, true);
    alone = is_alone;
    watched = true;
    assert_int_equal(munmap(place(0), 4 * PAGE), 0);
    watched = false;
    assert_int_equal(owned_meanwhile, 2);
    assert_int_equal(owned(), 2);
    assert_int_equal(leaving_bytes, 0);
}

static void what_is_being_unmapped_is_known(void **state) {
    (void)state;
    unmap_four_pages(false);
    assert_int_equal(leaving_meanwhile_bytes, 4 * PAGE);
    unmap_four_pages(true);
}

static void what_munmap_refuses_stays_own(void **state) {
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        alone = turn;
        own[0] = own[1] = own[3] = true;
        status = -1;
        watched = true;
        assert_int_equal(munmap(place(0), 6 * PAGE), -1);
        watched = false;
        assert_int_equal(owned_meanwhile, 0);
        assert_true(owned() == 3 && own[0] && own[1] && own[3]);
        assert_int_equal(leaving_bytes, 0);
    }
}

// Before the first call of the malloc family, when nothing is watched yet.
static void early_memory_is_known(void **state) {
    (void)state;
    early = true;
    result = place(0);
    assert_ptr_equal(mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), result);
    assert_int_equal(owned(), 4);
    assert_int_equal(munmap(place(1), PAGE), 0);
    assert_int_equal(owned(), 3);
    result = place(10);
    assert_ptr_equal(mremap(place(2), 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE), result);
    assert_true(owned() == 4 && own[0] && own[10] && own[12]);
    result = place(20);
    assert_ptr_equal(mremap(place(30), PAGE, PAGE, MREMAP_MAYMOVE), result);  // of a file
    assert_int_equal(owned(), 4);
    early = false;
}

// mremap may be refused for a length that is far more than what was mapped.
static void what_mremap_refuses_is_no_more_than_before(void **state) {
    (void)state;
    own[0] = own[1] = true;
    result = MAP_FAILED;
    watched = true;
    void *moved = mremap(place(0), 40 * PAGE, 41 * PAGE, MREMAP_MAYMOVE);
    watched = false;
    assert_ptr_equal(moved, MAP_FAILED);
    assert_int_equal(owned(), 2);
}

static void map_four_pages(int flags) {
    result = place(0);
    watched = true;
    void *at = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    watched = false;
    assert_ptr_equal(at, result);
    assert_int_equal(owned(), 4);
    assert_int_equal(filling_bytes, 0);
}

static void what_is_being_filled_is_told(void **state) {
    (void)state;
    map_four_pages(MAP_POPULATE);
    assert_int_equal(filling_meanwhile_bytes, 4 * PAGE);
    map_four_pages(MAP_LOCKED);
    assert_int_equal(filling_meanwhile_bytes, 4 * PAGE);
    map_four_pages(0);
    assert_int_equal(filling_meanwhile_bytes, 0);
    alone = true;  // nobody else could ask
    map_four_pages(MAP_POPULATE);
    assert_int_equal(filling_meanwhile_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(own_memory_is_forgotten_first, begin),
        cmocka_unit_test_setup(a_move_that_fails_changes_nothing, begin),
        cmocka_unit_test_setup(what_stays_mapped_stays_own, begin),
        cmocka_unit_test_setup(what_comes_to_lie_on_own_memory_is_not, begin),
        cmocka_unit_test_setup(what_is_being_unmapped_is_known, begin),
        cmocka_unit_test_setup(what_munmap_refuses_stays_own, begin),
        cmocka_unit_test_setup(what_mremap_refuses_is_no_more_than_before, begin),
        cmocka_unit_test_setup(early_memory_is_known, begin),
        cmocka_unit_test_setup(what_is_being_filled_is_told, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
