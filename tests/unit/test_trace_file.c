// SPDX-License-Identifier: Apache-2.0
// trace.bin: what is written is what is read; cut anywhere or damaged anywhere, it is whole sections or one
// clear error.
#include "unit_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "site_table.h"
#include "trace_facts.h"
#include "trace_writer.h"

enum { EVENTS = 150000, INHERITED = 70000 };  // more than a section of these

struct event {
    uint8_t op;
    uint32_t thread, slot;
    uint64_t time, size, extra;
};

static struct event random_event(uint64_t *seed, uint64_t *time, bool inherited) {
    struct event e;
    struct ht_op_shape shape;
    do e.op = (uint8_t)unit_random(seed);
    while (!(shape = ht_op_shape(e.op)).valid || (ht_op_function(e.op) == HT_INHERIT) != inherited);
    // A pause beyond the time column's 32 bits now and then.
    *time += unit_random(seed) % 5000 == 0 ? UINT64_C(1) << 40 : unit_random(seed) % 1000;
    e.time = *time / 7 * 7;
    e.thread = (uint32_t)(unit_random(seed) % 16 ? 3 : unit_random(seed) % 500);
    e.slot =
        shape.slot ? 1 + (uint32_t)(unit_random(seed) % (unit_random(seed) % 100 ? 5000 : 4000000000u)) : 0;
    e.size = shape.size ? unit_random_width(seed) : 0;
    e.extra = shape.extra ? unit_random_width(seed) : 0;
    return e;
}

static void write_trace(const char *path, struct event *event, size_t events) {
    struct ht_error error;
    uint64_t seed = 9, time = 0;
    struct ht_trace_writer *writer = ht_trace_create(path, 7, 3, &error);
    assert_non_null(writer);
    assert_int_equal(ht_trace_put_context(writer, "{\"command\":\"unit\"}"), 0);
    for (size_t i = 0; i < events; i++) {
        event[i] = random_event(&seed, &time, i < INHERITED);
        ht_trace_put_event(writer, event[i].op, event[i].thread, event[i].time, event[i].slot,
                           unit_random(&seed) % 2, event[i].size, event[i].extra);
        if (i % 1000 == 0)
            ht_trace_put_sample(writer, &(struct ht_sample){.time_ns = event[i].time,
                                                            .event = i,
                                                            .rss_anon_bytes = 4096 * i,
                                                            .own_rss_bytes = i,
                                                            .cpu_ns = 3 * i,
                                                            .own_fresh = i % 2});
        if (i % 500 == 0)
            ht_trace_put_residency(
                writer, &(struct ht_residency){.event = events - i, .pages_before = i % 7, .pages_after = i});
        if (i % 400 == 0)
            ht_trace_put_residency_step(writer,
                                        &(struct ht_residency_step){.event = events - i / 2000,
                                                                    .time_ns = i,
                                                                    .pages = i / 8,
                                                                    .first_page = i % 800 ? i / 100 : 0,
                                                                    .run_pages = i % 800 ? i / 9 : 0});
    }
    const struct ht_thread threads[2] = {
        {.tid = 5, .calls = 7, .end_ns = 700, .ended = true, .name = "sixteen letters."},
        {.tid = 6, .first_event = 1, .start_ns = 7}};
    assert_int_equal(ht_trace_finish(writer, threads, 2, "{\"events\":1}", NULL, &error), 0);
}

// Reads everything. Returns events read, or -1 on an error.
static long read_all(const char *path, const struct event *event, bool *truncated) {
    struct ht_error error = {0};
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    long read = 0;
    if (!reader) {
        assert_int_equal(error.status, HT_EXIT_INPUT);
        assert_non_null(strstr(error.message, path));
        return -1;
    }
    *truncated = ht_trace_truncated(reader);
    for (size_t i = 0; i < ht_trace_sections(reader) && read >= 0; i++) {
        struct ht_events e;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &e, &error)) {
            read = -1;
            break;
        }
        for (uint32_t row = 0; row < e.rows; row++, read++) {
            const struct event *x = &event[read];
            if (e.op[row] != x->op || e.thread[row] != x->thread || e.time_ns[row] != x->time ||
                e.slot[row] != x->slot || e.size[row] != x->size || e.extra[row] != x->extra)
                fail_msg("event %ld differs", read);
        }
    }
    ht_trace_close(reader);
    return read;
}

static void everything_comes_back(void **state) {
    (void)state;
    char path[256];
    struct event *event = calloc(EVENTS, sizeof *event);
    write_trace(unit_path(path, "whole.bin"), event, EVENTS);
    bool truncated;
    assert_int_equal(read_all(path, event, &truncated), EVENTS);
    assert_false(truncated);
    struct ht_error error;
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    struct ht_trace_facts facts;
    assert_int_equal(ht_trace_facts(reader, &facts, &error), 0);
    assert_int_equal(facts.samples_count, EVENTS / 1000);
    assert_int_equal(facts.samples[3].rss_anon_bytes, 4096 * 3000);
    assert_int_equal(facts.residency_count, EVENTS / 500);
    for (size_t i = 1; i < facts.residency_count; i++)
        assert_true(facts.residency[i - 1].event < facts.residency[i].event);
    assert_int_equal(facts.steps_count, (EVENTS + 399) / 400);
    for (size_t i = 1; i < facts.steps_count; i++) {
        const struct ht_residency_step *before = &facts.steps[i - 1], *step = &facts.steps[i];
        assert_true(before->event < step->event ||
                    (before->event == step->event && before->time_ns < step->time_ns));
        assert_true(step->pages - step->time_ns / 8 <= 1);
        bool runs = step->pages % 100 != 0;
        assert_int_equal(step->first_page, runs ? step->pages * 8 / 100 : 0);
        assert_int_equal(step->run_pages, runs ? step->pages * 8 / 9 : 0);
    }
    assert_int_equal(facts.threads_count, 2);
    assert_string_equal(facts.threads[0].name, "sixteen letters.");
    assert_true(facts.threads[0].ended);
    ht_trace_facts_free(&facts);
    char *text = ht_trace_context_json(reader, &error);
    assert_string_equal(text, "{\"command\":\"unit\"}");
    free(text);
    ht_trace_close(reader);
    free(event);
    unlink(path);
}

// op: 'm'alloc, 'r'ealloc, 'f'ree, 'q'uery, each of slot 1 at that time.
struct step {
    char op;
    uint64_t time;
    uint32_t thread;
};

static uint8_t op_of(const struct step *step) {
    enum ht_function function = step->op == 'm'   ? HT_MALLOC
                                : step->op == 'r' ? HT_REALLOC
                                : step->op == 'f' ? HT_FREE
                                                  : HT_USABLE_SIZE;
    return ht_op(function, HT_PLAIN);
}

// A query takes no more room than the call that it is next to, and the time of one that follows.
static void queries_come_back_beside_their_neighbours(void **state) {
    (void)state;
    static const struct step step[] = {{'m', 10, 0}, {'q', 10, 0}, {'q', 10, 0}, {'q', 20, 0}, {'r', 34, 0},
                                       {'q', 34, 0}, {'q', 40, 1}, {'q', 50, 0}, {'f', 65, 0}, {'m', 70, 0},
                                       {'q', 80, 0}, {'q', 85, 0}, {'f', 90, 0}};
    static const uint64_t time[] = {10, 10, 10, 34, 34, 34, 40, 50, 65, 70, 80, 90, 90};
    enum { STEPS = sizeof step / sizeof *step };
    struct ht_error error;
    struct ht_events e;
    char path[256];
    struct ht_trace_writer *writer = ht_trace_create(unit_path(path, "queries.bin"), 1, 3, &error);
    assert_int_equal(ht_trace_put_context(writer, "{}"), 0);
    for (size_t i = 0; i < STEPS; i++)
        ht_trace_put_event(writer, op_of(&step[i]), step[i].thread, step[i].time, 1, true, 24, 0);
    const struct ht_thread threads[2] = {{.tid = 5}, {.tid = 6}};
    assert_int_equal(ht_trace_finish(writer, threads, 2, "{}", NULL, &error), 0);
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    assert_int_equal(ht_trace_section(reader, 1)->rows, STEPS);
    assert_int_equal(ht_trace_events(reader, 1, &e, &error), 0);
    assert_int_equal(e.rows, STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        assert_int_equal(e.op[i], op_of(&step[i]));
        assert_int_equal(e.thread[i], step[i].thread);
        assert_int_equal(e.slot[i], 1);
        assert_int_equal(e.time_ns[i], time[i]);
        assert_int_equal(e.size[i], step[i].op == 'm' || step[i].op == 'r' ? 24 : 0);
    }
    ht_trace_close(reader);
    unlink(path);
}

static void every_cut_leaves_whole_sections_or_one_error(void **state) {
    (void)state;
    enum { SMALL = 100 };
    char path[256];
    struct event event[SMALL];
    write_trace(unit_path(path, "cut.bin"), event, SMALL);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    long last = -1;
    for (off_t bytes = status.st_size - 1; bytes >= 0; bytes -= (off_t)unit_stride(5)) {
        assert_int_equal(truncate(path, bytes), 0);
        bool truncated = false;
        long read = read_all(path, event, &truncated);
        if (bytes < 64) assert_int_equal(read, -1);
        else assert_true(truncated && read >= 0 && (last < 0 || read <= last));
        last = read;
    }
    unlink(path);
}

static void every_damaged_byte_is_noticed_or_harmless(void **state) {
    (void)state;
    enum { SMALL = 100 };
    char path[256];
    struct event event[SMALL];
    write_trace(unit_path(path, "damage.bin"), event, SMALL);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    int fd = open(path, O_RDWR);
    for (off_t at = 0; at < status.st_size; at += (off_t)unit_stride(5)) {
        uint8_t byte, wrong;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        wrong = byte ^ 0x41;
        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        bool truncated;
        read_all(path, event, &truncated);  // fails by itself where an event comes back different
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    unlink(path);
}

static void nothing_is_left_under_the_final_name_until_it_is_complete(void **state) {
    (void)state;
    char path[256];
    struct ht_error error;
    struct ht_trace_writer *writer = ht_trace_create(unit_path(path, "partial.bin"), 1, 1, &error);
    assert_non_null(writer);
    ht_trace_put_event(writer, ht_op(HT_MALLOC, HT_PLAIN), 0, 0, 1, true, 1, 0);
    assert_int_equal(access(path, F_OK), -1);
    ht_trace_abandon(writer);
    assert_int_equal(access(path, F_OK), -1);
    assert_null(ht_trace_create("/nonexistent/folder/t.bin", 1, 1, &error));
    assert_int_equal(error.status, HT_EXIT_FAILED);
}

static void a_full_disk_is_reported(void **state) {
    (void)state;
    struct ht_error error = {0};
    struct ht_trace_writer *writer = ht_trace_create("/dev/full", 1, 1, &error);
    assert_non_null(writer);
    ht_trace_put_event(writer, ht_op(HT_MALLOC, HT_PLAIN), 0, 0, 1, true, 1, 0);
    assert_int_equal(ht_trace_finish(writer, NULL, 0, "{}", NULL, &error), -1);
    assert_non_null(strstr(error.message, "/dev/full"));
    struct stat status;
    assert_int_equal(stat("/dev/full", &status), 0);
    assert_true(S_ISCHR(status.st_mode));  // and the device is still one
}

// A list of modules longer than a trace may have it: two megabytes of paths.
static char *many_modules(uint32_t modules) {
    enum { MODULE_BYTES = 128 };
    char *text = malloc((size_t)modules * MODULE_BYTES + MODULE_BYTES), *at = text;
    assert_non_null(text);
    at += sprintf(at, "{\"modules\":[");
    for (uint32_t i = 1; i <= modules; i++)
        at += sprintf(at,
                      "{\"path\":\"/a/folder/with/a/name/that/is/not/short/at/all/and/libraries/%08u.so\"}%s",
                      i, i < modules ? "," : "");
    sprintf(at, "]}");
    return text;
}

// Writes a table with a location in each step-th module, and reads it.
static void pass_modules(uint32_t modules, uint32_t step, struct ht_site_table *read) {
    struct ht_error error = {0};
    char path[256];
    struct ht_location *locations = calloc(modules + 1, sizeof *locations);
    struct ht_site_table table = {.modules_json = many_modules(modules), .locations = locations};
    assert_true(strlen(table.modules_json) > HT_TEXT_BYTES_MAX);
    for (uint32_t i = 1; i <= modules; i += step)
        locations[table.locations_count++] = (struct ht_location){.offset = i, .module = i};
    locations[table.locations_count++] = (struct ht_location){.offset = 1 << 20, .module = 0};
    struct ht_trace_writer *writer = ht_trace_create(unit_path(path, "modules.bin"), 1, 3, &error);
    assert_non_null(writer);
    ht_trace_put_context(writer, "{}");
    ht_trace_put_site_table(writer, &table);
    assert_int_equal(ht_trace_finish(writer, NULL, 0, "{}", NULL, &error), 0);
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    if (ht_trace_site_table(reader, read, &error)) fail_msg("%s", error.message);
    assert_int_equal(read->locations_count, table.locations_count);
    for (size_t i = 0; i < table.locations_count; i++)
        assert_int_equal(read->locations[i].offset, locations[i].offset);
    assert_int_equal(read->locations[table.locations_count - 1].module, 0);
    ht_trace_close(reader);
    unlink(path);
    ht_site_table_free(&table);
}

static void of_too_many_modules_those_with_code_are_kept(void **state) {
    (void)state;
    enum { MODULES = 20000, STEP = 9999 };
    struct ht_site_table read;
    pass_modules(MODULES, STEP, &read);
    for (uint32_t i = 0; i < 3; i++) {
        char path[16];
        snprintf(path, sizeof path, "%08u.so", 1 + i * STEP);
        assert_int_equal(read.locations[i].module, i + 1);
        assert_non_null(strstr(read.modules_json, path));
    }
    assert_true(strlen(read.modules_json) < 1000);
    ht_site_table_free(&read);
    // All have code: the last ones become one without a path.
    pass_modules(MODULES, 1, &read);
    uint32_t nameless = read.locations[MODULES - 1].module;
    assert_true(nameless > MODULES / 2 && nameless < MODULES);
    for (uint32_t i = 0; i < MODULES; i++)
        assert_int_equal(read.locations[i].module, i + 1 < nameless ? i + 1 : nameless);
    assert_non_null(strstr(read.modules_json, ",{}]}"));
    assert_true(strlen(read.modules_json) > HT_TEXT_BYTES_MAX - 200);
    ht_site_table_free(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back),
        cmocka_unit_test(queries_come_back_beside_their_neighbours),
        cmocka_unit_test(every_cut_leaves_whole_sections_or_one_error),
        cmocka_unit_test(every_damaged_byte_is_noticed_or_harmless),
        cmocka_unit_test(of_too_many_modules_those_with_code_are_kept),
        cmocka_unit_test(nothing_is_left_under_the_final_name_until_it_is_complete),
        cmocka_unit_test(a_full_disk_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
