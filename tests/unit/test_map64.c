// The address map against a plain array.
#include "unit_support.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_a_plain_array),
                                       cmocka_unit_test(growing_loses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
