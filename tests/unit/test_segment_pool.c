// SPDX-License-Identifier: Apache-2.0
// The pool of a streamed replay where the address space is limited: smaller, or refused in one line.
#include "unit_support.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "form_segments.h"
#include "form_state.h"
#include "form_streamed.h"

enum { STREAMS = 1000, MARGIN_BYTES = 1 << 20, WANTED_BYTES = 1 << 30 };

static uint64_t space_in_use(void) {
    uint64_t pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%" SCNu64, &pages), 1);
    fclose(in);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Prepares a pool of WANTED_BYTES for STREAMS threads where so many bytes of address space are left. Returns
// its size, or 0 with the error.
static uint64_t prepare(uint64_t left_bytes, struct ht_error *error) {
    struct ht_form_options options = {.pool_bytes = WANTED_BYTES};
    struct ht_built_form built = {.mapped_bytes = sizeof(struct ht_form)};
    struct ht_form_state form = {.path = "a.bin",
                                 .options = &options,
                                 .built = &built,
                                 .error = error,
                                 .streams_count = STREAMS,
                                 .segment_words_max = HT_SEGMENT_WORDS_MAX};
    built.form = calloc(1, sizeof *built.form);
    assert_non_null(built.form);

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit limit = {space_in_use() + left_bytes, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    int failed = ht_pool_prepare(&form);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);

    uint64_t bytes = failed ? 0 : built.mapped_bytes;
    if (bytes) {
        assert_int_equal(built.form->bytes, bytes);
        munmap(built.pool, bytes);
        close(built.fd);
    }
    free(built.form);
    return bytes;
}

static void test_the_pool_is_what_can_be_had(void **state) {
    (void)state;
    struct ht_error error = {0};
    uint64_t bytes = prepare(WANTED_BYTES / 4, &error);
    assert_true(bytes > WANTED_BYTES / 16);
    assert_true(bytes <= WANTED_BYTES / 4);
}

static void test_less_than_the_least_is_refused(void **state) {
    (void)state;
    struct ht_error error = {0};
    assert_int_equal(prepare(MARGIN_BYTES, &error), 0);
    assert_int_equal(error.status, HT_EXIT_FAILED);
    assert_non_null(strstr(error.message, "a.bin: "));
    assert_non_null(strstr(error.message, "of shared memory for the decoded trace, with 1,000 threads"));
    assert_null(strchr(error.message, '\n'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pool_is_what_can_be_had),
        cmocka_unit_test(test_less_than_the_least_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
