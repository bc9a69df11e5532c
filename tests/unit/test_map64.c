// SPDX-License-Identifier: Apache-2.0
// The address map against a plain array.
#include "unit_support.h"

#include <sys/resource.h>

#include "map64.h"

enum { KEYS = 5000, STEPS = 400000 };

static void follows_a_plain_array(void **state) {
    (void)state;
    uint64_t seed = 3, *value = calloc(KEYS, sizeof *value), *key = calloc(KEYS, sizeof *key);
    struct map64 map;
    assert_true(map64_init(&map));
    // Addresses as an allocator gives them: near each other, 16 apart, some far away.
    for (unsigned i = 0; i < KEYS; i++)
        key[i] = i % 7 ? 0x55550000 + 16 * (uint64_t)i : unit_random(&seed) | 1;
    size_t count = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(unit_random(&seed) % KEYS);
        size_t at = map64_find(&map, key[i]);
        assert_int_equal(map64_has(&map, at), value[i] != 0);
        if (value[i]) assert_int_equal(map.entry[at].value, value[i]);
        if (value[i] && unit_random(&seed) % 2) {
            map64_remove_at(&map, at);
            value[i] = 0;
            count--;
        } else {
            count += value[i] == 0;
            value[i] = unit_random(&seed) | 1;
            assert_true(map64_put(&map, key[i], value[i]));
        }
        assert_int_equal(map.count, count);
    }
    map64_free(&map);
    free(value);
    free(key);
}

// Growing in place moves every entry; runs at the table's start and across its end are where one could get
// lost.
static void growing_loses_nothing(void **state) {
    (void)state;
    enum { ROUNDS = 400, MANY = 14000 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t seed = round;
        struct map64 map;
        assert_true(map64_init(&map));
        for (unsigned i = 0; i < MANY; i++) assert_true(map64_put(&map, unit_random(&seed) | 1, i));
        seed = round;
        for (unsigned i = 0; i < MANY; i++) {
            size_t at = map64_find(&map, unit_random(&seed) | 1);
            assert_true(map64_has(&map, at));
            assert_int_equal(map.entry[at].value, i);
        }
        map64_free(&map);
    }
}

// A key whose home is the table's first place, however large the table is.
static uint64_t key_at_the_start(uint64_t number) {
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) inverse *= 2 - UINT64_C(0x9e3779b97f4a7c15) * inverse;
    return inverse * number;
}

// Where a table cannot grow it is as it was before; a thousand entries that are all in each other's way are
// what growing needs most memory for.
static void stays_whole_without_memory(void **state) {
    (void)state;
    enum { MANY = 512 };
    struct map64 map;
    struct rlimit before, none;
    assert_true(map64_init(&map));
    for (uint64_t i = 1; i <= MANY; i++) assert_true(map64_put(&map, key_at_the_start(i), i));
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    for (unsigned grown = 0; grown < 2; grown++) {
        assert_int_equal(setrlimit(RLIMIT_AS, grown ? &before : &none), 0);
        bool put = map64_put(&map, key_at_the_start(MANY + 1), MANY + 1);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        assert_int_equal(put, grown);
        assert_int_equal(map.count, MANY + grown);
        for (uint64_t i = 1; i <= MANY + grown; i++) {
            size_t at = map64_find(&map, key_at_the_start(i));
            assert_true(map64_has(&map, at));
            assert_int_equal(map.entry[at].value, i);
        }
    }
    map64_free(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stays_whole_without_memory),
                                       cmocka_unit_test(follows_a_plain_array),
                                       cmocka_unit_test(growing_loses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
