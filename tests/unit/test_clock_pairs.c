// SPDX-License-Identifier: Apache-2.0
// The clock pairs in a log's header, written by many threads: the newer one always is a pair that was taken.
#include "unit_support.h"

#include <pthread.h>

#include "clock.h"

enum { THREADS = 4, ROUNDS = 200000 };

static struct ht_raw_header header;
static _Atomic bool taken;

static void *write_pairs(void *unused) {
    for (unsigned i = 0; i < ROUNDS; i++) clock_note_pair(&header, &taken);
    return unused;
}

static void pairs_of_many_threads_are_whole(void **state) {
    (void)state;
    pthread_t thread[THREADS];
    struct ht_clock_pair first = clock_pair();
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, write_pairs, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_false(taken);
    struct ht_clock_pair last = clock_pair();
    double ns_per_stamp = (double)(last.mono_ns - first.mono_ns) / (double)(last.stamp - first.stamp);
    for (unsigned i = 0; i < 2; i++) {
        const struct ht_clock_pair *pair = &header.last_pair[i];
        assert_in_range(pair->stamp, first.stamp, last.stamp);
        double expected_ns = (double)first.mono_ns + ns_per_stamp * (double)(pair->stamp - first.stamp);
        double off_ns = expected_ns - (double)pair->mono_ns;
        assert_true(off_ns > -1e6 && off_ns < 1e6);
    }
}

// A thread that was ended in the midst of writing: the header keeps the pairs that it has.
static void nobody_writes_beside_another(void **state) {
    (void)state;
    struct ht_raw_header before = header;
    taken = true;
    clock_note_pair(&header, &taken);
    assert_memory_equal(&before.last_pair, &header.last_pair, sizeof header.last_pair);
    taken = false;
    clock_note_pair(&header, &taken);
    assert_memory_not_equal(&before.last_pair, &header.last_pair, sizeof header.last_pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_of_many_threads_are_whole),
                                       cmocka_unit_test(nobody_writes_beside_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
