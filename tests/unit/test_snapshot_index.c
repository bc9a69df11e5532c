// SPDX-License-Identifier: Apache-2.0
// The index behind a child's snapshots: of which moment each is, in whatever order its threads came to them.
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "snapshot_runs.h"
#include "unit_support.h"

enum { SAMPLES = 40, MOMENTS = 3, BLOCKS_MAX = 8, INDEX_BYTES_MAX = 65536, PROBLEM_BYTES = 512 };

static struct ht_sample_point points[SAMPLES];
static struct ht_form form = {.samples = SAMPLES};
static const struct ht_built_form built = {.form = &form, .points = points};
static const struct ht_plan plan = {.trace_path = "t.bin"};
static const struct ht_choice choice = {.name = "glibc", .version = "2.36"};
static uint64_t zeros[SAMPLES];
static const struct ht_stretch_costs no_costs;

// At samples 10, 20 and 39.
static struct ht_snapshot_index an_index(void) {
    for (uint64_t i = 0; i < SAMPLES; i++)
        points[i] = (struct ht_sample_point){.time_ns = i * 100, .event = i, .live_bytes = 1000};
    return (struct ht_snapshot_index){.choice = &choice,
                                      .moment = {{10, "jump"}, {20, "peak"}, {39, "end"}},
                                      .moments = MOMENTS,
                                      .costs = &no_costs,
                                      .null_costs = &no_costs,
                                      .rss_bytes = zeros,
                                      .high_bytes = zeros,
                                      .null_bytes = zeros};
}

// Of as many blocks as the number of its sample, so that each has a length of its own.
static void put_snapshot(int fd, uint64_t sample) {
    struct ht_snapshot_head head = {.magic = HT_SNAPSHOT_MAGIC,
                                    .sample = sample,
                                    .rss_bytes = sample << 12,
                                    .blocks = sample % BLOCKS_MAX};
    static const struct ht_snapshot_block blocks[BLOCKS_MAX];
    size_t bytes = head.blocks * sizeof *blocks;
    assert_int_equal(write(fd, &head, sizeof head), sizeof head);
    assert_int_equal(write(fd, blocks, bytes), bytes);
}

// The index of a file with these snapshots, in that order; NULL, with problem, where it is refused.
static json_t *index_of(const uint64_t *samples, size_t count, char problem[PROBLEM_BYTES]) {
    static struct ht_runner x;
    static const struct ht_recorded_program program = {.heap_peak_bytes = NAN};
    static char text[INDEX_BYTES_MAX];
    const struct ht_snapshot_index index = an_index();
    char path[256];
    uint64_t tail[2];
    json_t *made = NULL;
    int fd = open(unit_path(path, "snapshots"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    x = (struct ht_runner){.plan = &plan, .built = &built, .program = &program, .trace_sha256 = "0"};
    for (size_t i = 0; i < count; i++) put_snapshot(fd, samples[i]);
    if (ht_snapshot_index_write(&x, &index, fd, problem, PROBLEM_BYTES)) {
        off_t end = lseek(fd, 0, SEEK_END) - (off_t)sizeof tail;
        assert_int_equal(pread(fd, tail, sizeof tail, end), sizeof tail);
        assert_true(tail[0] < sizeof text && tail[1] == HT_SNAPSHOT_MAGIC);
        assert_int_equal(pread(fd, text, tail[0], end - (off_t)tail[0]), tail[0]);
        assert_non_null(made = json_loadb(text, tail[0], 0, NULL));
    }
    close(fd);
    unlink(path);
    return made;
}

// Where in the file a snapshot begins that comes after those of these samples.
static uint64_t offset_after(const uint64_t *samples, size_t count) {
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++)
        offset +=
            sizeof(struct ht_snapshot_head) + samples[i] % BLOCKS_MAX * sizeof(struct ht_snapshot_block);
    return offset;
}

// The index lists them by moment, each with the place where its own rows are.
static void assert_listed(const uint64_t order[MOMENTS]) {
    static const uint64_t sample[MOMENTS] = {10, 20, 39};
    static const char *const why[MOMENTS] = {"jump", "peak", "end"};
    char problem[PROBLEM_BYTES] = "";
    json_t *index = index_of(order, MOMENTS, problem), *all = json_object_get(index, "snapshots");
    assert_string_equal(problem, "");
    assert_int_equal(json_array_size(all), MOMENTS);
    for (size_t i = 0; i < MOMENTS; i++) {
        json_t *one = json_array_get(all, i);
        size_t place = 0;
        while (order[place] != sample[i]) place++;
        assert_int_equal(json_integer_value(json_object_get(one, "sample")), sample[i]);
        assert_string_equal(json_string_value(json_object_get(one, "why")), why[i]);
        assert_int_equal(json_integer_value(json_object_get(one, "rss_bytes")), sample[i] << 12);
        assert_int_equal(json_integer_value(json_object_get(one, "blocks")), sample[i] % BLOCKS_MAX);
        assert_int_equal(json_integer_value(json_object_get(one, "offset")), offset_after(order, place));
    }
    json_decref(index);
}

static void snapshots_come_in_any_order(void **state) {
    (void)state;
    static const uint64_t orders[][MOMENTS] = {{10, 20, 39}, {20, 10, 39}, {10, 39, 20}, {39, 20, 10}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) assert_listed(orders[i]);
}

static void assert_refused(const uint64_t *samples, size_t count, const char *words) {
    char problem[PROBLEM_BYTES] = "";
    assert_null(index_of(samples, count, problem));
    assert_string_equal(problem, words);
}

static void missing_and_foreign_ones_are_refused(void **state) {
    (void)state;
    assert_refused((const uint64_t[]){20, 10}, 2, "snapshot 3 of 3 is not whole");
    assert_refused((const uint64_t[]){10, 10, 39}, 3, "snapshot 2 of 3 is not whole");
    assert_refused((const uint64_t[]){10, 30, 39}, 3, "snapshot 2 of 3 is not whole");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_come_in_any_order),
        cmocka_unit_test(missing_and_foreign_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
