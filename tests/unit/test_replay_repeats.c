// SPDX-License-Identifier: Apache-2.0
// A trace that is replayed several times in one process, and in several copies: the measured child is run as
// the launcher runs it, on an artificial trace whose threads take over each other's blocks.
#include "unit_support.h"

#include <string.h>
#include <time.h>

#include "child_run.h"
#include "form_streamed.h"

enum { OPERATIONS = 20000 };

struct replayed {
    struct ht_trace_reader *reader;
    struct ht_form_options options;
    struct ht_built_form built;
};

// An allocator of the build, by name; not every build has every one.
static bool choose(struct ht_choice *choice, const char *name) {
    *choice = (struct ht_choice){0};
    snprintf(choice->executable, sizeof choice->executable, "%s/replay-%s", HEAPTAPE_BUILD, name);
    return access(choice->executable, X_OK) == 0;
}

static void load_operations(struct replayed *replayed, const struct ht_form_options *options, int operations,
                            const char *arguments) {
    char path[256], command[1024];
    struct ht_error error = {0};
    unit_path(path, "repeats.bin");
    snprintf(command, sizeof command, "%s/bench/make_trace %s %d %s", HEAPTAPE_BUILD, path, operations,
             arguments);
    assert_int_equal(system(command), 0);
    replayed->reader = ht_trace_open(path, &error);
    assert_non_null(replayed->reader);
    replayed->options = *options;
    if (ht_form_build(replayed->reader, path, &replayed->options, &replayed->built, &error))
        fail_msg("%s", error.message);
    unlink(path);
}

static void load(struct replayed *replayed, const struct ht_form_options *options, const char *arguments) {
    load_operations(replayed, options, OPERATIONS, arguments);
}

static void unload(struct replayed *replayed) {
    ht_form_free(&replayed->built);
    ht_trace_close(replayed->reader);
}

static struct ht_outcome run_child(struct replayed *replayed, const struct ht_choice *choice,
                                   const struct ht_job *job) {
    struct ht_child_channel channel;
    struct ht_error error = {0};
    struct ht_random random = {1};
    char problem[512] = "";
    assert_int_equal(ht_child_channel_open(&channel, &replayed->built, 0, &error), 0);
    channel.watch.timeout_ns = 50000000000u;
    if (!ht_child_run(&channel, choice, job, -1, &random, problem, sizeof problem)) fail_msg("%s", problem);
    struct ht_outcome outcome = channel.exchange->outcome;
    ht_child_channel_close(&channel);
    return outcome;
}

static struct ht_job flat_job(uint32_t repeats, uint32_t scale) {
    return (struct ht_job){.pass = HT_PASS_FLAT,
                           .touch = HT_TOUCH_RECORDED,
                           .virtual_time = 1,
                           .window_ns = 1000000,
                           .repeats = repeats,
                           .scale = scale};
}

static const char *const allocators[] = {"null", "glibc", "jemalloc", "tcmalloc", "mimalloc"};

// What a repeat leaves alive is freed before the next one: with all of it kept, the process would grow by as
// much with each.
static void repeats_are_all_of_them_whole(void **state) {
    (void)state;
    struct replayed replayed;
    load(&replayed, &(struct ht_form_options){.seed = 1}, "2000 6 1 1000");
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
        struct ht_choice choice;
        if (!choose(&choice, allocators[i])) continue;
        struct ht_job once = flat_job(1, 1), often = flat_job(20, 1);
        struct ht_outcome first = run_child(&replayed, &choice, &once);
        struct ht_outcome all = run_child(&replayed, &choice, &often);
        assert_int_equal(first.operations, OPERATIONS);
        assert_int_equal(first.first_cpu_ns, first.cpu_ns);
        assert_int_equal(all.operations, 20 * OPERATIONS);
        assert_true(all.first_cpu_ns > 0 && all.first_cpu_ns < all.cpu_ns);
        uint64_t left_bytes = replayed.built.points[replayed.built.form->samples - 1].live_bytes;
        assert_true(left_bytes > 100000);
        // Others may keep more of what threads leave that have ended.
        if (strcmp(allocators[i], "glibc")) continue;
        assert_in_range(all.rss_end_bytes, 1, first.rss_end_bytes + 10 * left_bytes);
    }
    unload(&replayed);
}

static void one_thread_repeats_too(void **state) {
    (void)state;
    struct replayed replayed;
    struct ht_choice choice;
    struct ht_job job = flat_job(7, 1);
    load(&replayed, &(struct ht_form_options){.seed = 1, .one_thread = true}, "50 4 2 1000");
    assert_true(choose(&choice, "null"));
    assert_int_equal(run_child(&replayed, &choice, &job).operations, 7 * OPERATIONS);
    unload(&replayed);
}

static void copies_repeat_together(void **state) {
    (void)state;
    struct replayed replayed;
    load(&replayed, &(struct ht_form_options){.seed = 1, .scale = 3}, "50 4 3 1000");
    assert_int_equal(replayed.built.side_by_side, 3);
    for (size_t i = 0; i < 2; i++) {
        struct ht_choice choice;
        struct ht_job job = flat_job(4, replayed.built.side_by_side);
        if (!choose(&choice, allocators[i])) continue;
        assert_int_equal(run_child(&replayed, &choice, &job).operations, 3 * 4 * OPERATIONS);
    }
    unload(&replayed);
}

// Only the flat pass repeats, and only a form that is held.
static void nothing_else_repeats(void **state) {
    (void)state;
    struct replayed replayed;
    struct ht_choice choice;
    assert_true(choose(&choice, "null"));
    struct ht_job job = flat_job(5, 1);
    load(&replayed, &(struct ht_form_options){.seed = 1}, "50 4 4 1000");
    job.pass = HT_PASS_MEMORY;
    assert_int_equal(run_child(&replayed, &choice, &job).operations, OPERATIONS);
    unload(&replayed);
    job.pass = HT_PASS_FLAT;
    job.scale = 1;
    load(&replayed, &(struct ht_form_options){.seed = 1, .held_bytes_max = 4096}, "50 4 4 1000");
    assert_int_equal(replayed.built.form->streamed, 1);
    assert_int_equal(run_child(&replayed, &choice, &job).operations, OPERATIONS);
    unload(&replayed);
}

// A child that ends early leaves the trace decoded half way, somewhere behind the first of its sections.
static void what_was_given_up_is_decoded_anew(void **state) {
    (void)state;
    struct replayed replayed;
    struct ht_choice choice;
    struct ht_error error = {0};
    struct ht_job job = flat_job(1, 1);
    const struct ht_form_options options = {.seed = 1, .end_ns = 1000000000, .held_bytes_max = 1 << 20};
    const struct timespec moment = {.tv_nsec = 200000000};
    assert_true(choose(&choice, "null"));
    load_operations(&replayed, &options, 400000, "500 8 5 1000");
    assert_int_equal(replayed.built.form->streamed, 1);
    struct ht_decoder *decoder = ht_decoder_start(&replayed.built, 1, true, &error);
    assert_non_null(decoder);
    nanosleep(&moment, NULL);  // it fills its pool and waits
    assert_int_equal(ht_decoder_stop(decoder, &error), 0);
    job.pass = HT_PASS_MEMORY;
    struct ht_outcome outcome = run_child(&replayed, &choice, &job);
    assert_int_equal(outcome.operations, 400000);
    assert_int_equal(outcome.samples_taken, replayed.built.form->samples);
    unload(&replayed);
}

// By the trace's own events, in their order.
static void find_left(struct ht_trace_reader *reader, uint8_t *left) {
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        struct ht_error error = {0};
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        assert_int_equal(ht_trace_events(reader, i, &events, &error), 0);
        for (uint32_t k = 0; k < events.rows; k++) {
            if (events.slot[k]) left[events.slot[k]] = ht_op_function(events.op[k]) != HT_FREE;
        }
    }
}

static void what_is_left_is_found(void **state) {
    (void)state;
    for (uint32_t copies = 1; copies <= 3; copies++) {
        struct replayed replayed;
        static uint8_t expected[OPERATIONS];
        load(&replayed, &(struct ht_form_options){.seed = 1, .one_thread = copies > 1, .scale = copies},
             "300 5 5 1000");
        uint32_t slots = replayed.built.form->slots;
        assert_in_range(slots, 2, copies * OPERATIONS);
        memset(expected, 0, sizeof expected);
        find_left(replayed.reader, expected);
        const uint64_t *live = replayed.built.live_slots;
        for (uint32_t slot = copies; slot < slots; slot++)
            assert_int_equal(live[slot / 64] >> slot % 64 & 1, expected[slot / copies]);
        assert_int_equal(live[0] & 1, 0);
        unload(&replayed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_are_all_of_them_whole),
        cmocka_unit_test(one_thread_repeats_too),
        cmocka_unit_test(copies_repeat_together),
        cmocka_unit_test(nothing_else_repeats),
        cmocka_unit_test(what_was_given_up_is_decoded_anew),
        cmocka_unit_test(what_is_left_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
