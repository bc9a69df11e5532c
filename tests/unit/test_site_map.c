// SPDX-License-Identifier: Apache-2.0
// Maps of the recorder's that are read without a lock, where memory ends.
#include "process_memory.h"
#include "unit_support.h"

#include <sys/resource.h>

#include "site_map.h"
#include "state.h"

static unsigned asked;  // for memory

// What a map takes of the rest of the recorder.
bool recorder_may_call(void) {
    asked++;
    return true;
}
void recorder_has_called(void) {}
void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real) {
    (void)start;
    (void)bytes;
    (void)is_real;
}
void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped) {
    recorder_memory_mapped(start, bytes, unmapped);
}

static uint64_t key_of(uint64_t number) { return site_mix(number, 20817); }

// Puts keys from one on. How many until one was refused?
static uint64_t put_until_refused(struct site_map *map, uint64_t from, uint64_t to) {
    uint64_t number = from;
    while (number < to && site_map_put(map, key_of(number), number + 1)) number++;
    return number - from;
}

static void test_memory_ends_and_comes_back(void **unused) {
    (void)unused;
    enum { LIMIT_BYTES = 4 << 20, REFUSED = 5000, ASKED_MAX = 16, MANY = 1 << 20 };
    struct site_map map = {0};
    struct rlimit before, little;
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    little = (struct rlimit){LIMIT_BYTES, before.rlim_max};
    assert_int_equal(put_until_refused(&map, 0, 100), 100);
    assert_int_equal(setrlimit(RLIMIT_DATA, &little), 0);
    uint64_t kept = 100 + put_until_refused(&map, 100, MANY);
    unsigned asked_before = asked;
    uint64_t taken = 0;
    for (uint64_t number = kept + 1; number < kept + REFUSED; number++)
        taken += site_map_put(&map, key_of(number), 1);
    unsigned asked_meanwhile = asked - asked_before;
    bool changed = site_map_put(&map, key_of(7), 70);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);

    // What there was stays, and may change. To ask for more at each key would take as long as the map is large.
    assert_true(kept < MANY / 2);
    assert_int_equal(taken, 0);
    assert_true(asked_meanwhile <= ASKED_MAX);
    assert_true(changed);
    for (uint64_t number = 0; number < kept; number++)
        assert_int_equal(site_map_get(&map, key_of(number)), number == 7 ? 70 : number + 1);

    uint64_t tries = 0;
    while (!site_map_put(&map, key_of(kept), kept + 1)) tries++;
    assert_true(tries <= 2 * REFUSED);
    assert_int_equal(put_until_refused(&map, kept, MANY / 2), MANY / 2 - kept);
    assert_int_equal(site_map_get(&map, key_of(kept)), kept + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_ends_and_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
