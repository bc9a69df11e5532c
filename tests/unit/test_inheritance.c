// SPDX-License-Identifier: Apache-2.0
// What a forked child inherits: where its parent's log is cut, and which logs are believed.
#include "unit_support.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "converted_log.h"
#include "fork_file.h"
#include "raw_log_builder.h"

#define LINES(lines)        lines, sizeof(lines) / sizeof *(lines)
#define MARK(stream, stamp) {stream, HT_RAW_LONG, stamp, 0, HT_LONG_FORK}

enum { PARENT = 10, CHILD = 11, GRANDCHILD = 12, FORKED = 1000, CHILD_BEGAN = 1100 };

static char folder[200];

static int make_folder(void **state) {
    (void)state;
    char path[256];
    int length = snprintf(folder, sizeof folder, "%s", unit_path(path, "family"));
    return length >= (int)sizeof folder || mkdir(folder, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *path_of(char path[256], uint32_t pid) {
    snprintf(path, 256, "%s/malloc-footprint.%u.mraw", folder, pid);
    return path;
}

// A log of process `pid`; forked at `stamp` from `parent` unless that is 0.
static void begin(struct raw_log_builder *builder, uint32_t pid, uint32_t parent, uint64_t stamp,
                  uint64_t began) {
    char path[256];
    builder_open(builder, path_of(path, pid));
    builder->header.pid = pid;
    builder->header.parent_pid = parent;
    builder->header.fork_stamp = stamp;
    builder->header.first_pair.stamp = began;
}

static void write_log(uint32_t pid, uint32_t parent, uint64_t stamp, uint64_t began,
                      const struct builder_line *line, size_t lines) {
    struct raw_log_builder builder;
    begin(&builder, pid, parent, stamp, began);
    builder_put(&builder, line, lines);
    builder_close(&builder);
}

static void write_child(uint64_t stamp, const struct builder_line *line, size_t lines) {
    write_log(CHILD, PARENT, stamp, CHILD_BEGAN, line, lines);
}

static struct converted_log *convert(uint32_t pid, const char *parent_path) {
    char path[256];
    struct ht_error error = {0};
    struct converted_log *converted = malloc(sizeof *converted);
    if (converted_open(converted, path_of(path, pid), parent_path, &error)) fail_msg("%s", error.message);
    return converted;
}

static void done(struct converted_log *converted) {
    converted_close(converted);
    free(converted);
}

// The trace begins with blocks of just these sizes, in this order, and has nothing else of the kind.
static void assert_inherits(const struct converted_log *converted, const uint64_t *size, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < converted->events; i++) {
        const struct converted_event *event = &converted->event[i];
        assert_int_equal(ht_op_function(event->op) == HT_INHERIT, i < count);
        if (i >= count) continue;
        assert_int_equal(event->size, size[i]);
        assert_int_equal(event->time_ns, 0);
        assert_int_equal(event->thread, 0);
        bytes += size[i];
    }
    assert_int_equal(converted->totals.inherited_objects, count);
    assert_int_equal(converted->totals.inherited_bytes, bytes);
}

#define ASSERT_INHERITS(converted, ...)                                                                      \
    assert_inherits(converted, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

static void the_cut_is_the_mark_in_one_stream_and_its_stamp_in_others(void **state) {
    (void)state;
    static const struct builder_line parent[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40},
        {1, HT_RAW_MALLOC, 500, 0x200, 41},
        {0, HT_RAW_MALLOC, 600, 0x300, 42},
        {0, HT_RAW_FREE, 700, 0x300, 0},
        {0, HT_RAW_MALLOC, 1005, 0x400, 43},  // before the mark, though stamped behind it: it counts
        MARK(0, FORKED),
        {1, HT_RAW_MALLOC, 999, 0x500, 44},
        {1, HT_RAW_MALLOC, 1000, 0x600, 45},  // not before the fork
        {0, HT_RAW_FREE, 1005, 0x100, 0},
        {0, HT_RAW_MALLOC, 1006, 0x700, 46},
    };
    static const struct builder_line child[] = {
        {0, HT_RAW_FREE, 1200, 0x100, 0},    {0, HT_RAW_FREE, 1201, 0x200, 0},
        {0, HT_RAW_FREE, 1202, 0x400, 0},    {0, HT_RAW_FREE, 1203, 0x500, 0},
        {0, HT_RAW_FREE, 1204, 0x600, 0},    {0, HT_RAW_FREE, 1205, 0x700, 0},
        {0, HT_RAW_MALLOC, 1206, 0x300, 47},
    };
    write_log(PARENT, 0, 0, 1, LINES(parent));
    write_child(FORKED, LINES(child));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 40, 41, 44, 43);
    assert_string_equal(converted->warning, "");
    assert_int_equal(converted->totals.foreign_frees, 2);
    assert_int_equal(converted->totals.anomalies, 0);
    assert_int_equal(converted->totals.events, 7);
    assert_int_equal(converted->totals.records, 11);
    assert_int_equal(converted->totals.peak_live_bytes, 40 + 41 + 43 + 44);
    assert_int_equal(converted->totals.peak_live_objects, 4);
    assert_int_equal(converted->totals.end_live_bytes, 47);
    assert_int_equal(converted->facts.threads_count, 1);
    assert_int_equal(converted->facts.threads[0].calls, 7);
    done(converted);
}

static void an_unknown_stamp_is_the_childs_beginning(void **state) {
    (void)state;
    static const struct builder_line parent[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                 {0, HT_RAW_MALLOC, CHILD_BEGAN - 1, 0x200, 41},
                                                 {0, HT_RAW_MALLOC, CHILD_BEGAN, 0x300, 42}};
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x200, 0}};
    write_log(PARENT, 0, 0, 1, LINES(parent));
    write_child(0, LINES(child));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 40, 41);
    assert_int_equal(converted->totals.foreign_frees, 0);
    done(converted);
}

static void blocks_are_born_again_by_realloc(void **state) {
    (void)state;
    static const struct builder_line parent[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40},        {0, HT_RAW_MALLOC, 20, 0x200, 41},
        {0, HT_RAW_REALLOC_BEGIN, 30, 0x100, 90}, {0, HT_RAW_REALLOC_END, 31, 0x500, 0},
        {0, HT_RAW_MALLOC, 40, 0x100, 42},        MARK(0, FORKED)};
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x500, 0}};
    write_log(PARENT, 0, 0, 1, LINES(parent));
    write_child(FORKED, LINES(child));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 41, 90, 42);
    assert_int_equal(converted->event[3].slot, converted->event[1].slot);
    done(converted);
}

static void a_realloc_under_way_leaves_the_old_block(void **state) {
    (void)state;
    static const struct builder_line parent[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                 {1, HT_RAW_REALLOC_BEGIN, 990, 0x100, 80},
                                                 {1, HT_RAW_REALLOC_END, 1010, 0x200, 0},
                                                 MARK(0, FORKED)};
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x100, 0}};
    write_log(PARENT, 0, 0, 1, LINES(parent));
    write_child(FORKED, LINES(child));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 40);
    assert_int_equal(converted->totals.foreign_frees, 0);
    done(converted);
}

// The mark may be a chunk's last record, and the next chunk then begins with the stamp of a call before it.
static void the_mark_is_found_wherever_chunks_end(void **state) {
    (void)state;
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x100, 0}};
    write_child(FORKED, LINES(child));
    unsigned chunks_seen = 0;
    for (unsigned fill = 1090; fill < 1160; fill++) {
        struct raw_log_builder builder;
        begin(&builder, PARENT, 0, 0, 1);
        builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, 10, 0x100, 40}, 1);
        for (unsigned i = 0; i < fill; i++)
            builder_put(&builder,
                        (const struct builder_line[]){{0, HT_RAW_MALLOC, 20, 0x200, 1},
                                                      {0, HT_RAW_FREE, 20, 0x200, 0}},
                        2);
        builder_put(&builder,
                    (const struct builder_line[]){{0, HT_RAW_MALLOC, 990, 0x300, 41},
                                                  MARK(0, FORKED),
                                                  {0, HT_RAW_MALLOC, 995, 0x400, 42}},
                    3);
        chunks_seen |= 1u << builder.stream[0].index;
        builder_close(&builder);
        struct converted_log *converted = convert(CHILD, NULL);
        ASSERT_INHERITS(converted, 40, 41);
        done(converted);
    }
    assert_true((chunks_seen & (chunks_seen - 1)) != 0);  // the fill took it over a boundary
}

static void it_comes_down_through_the_generations(void **state) {
    (void)state;
    static const struct builder_line eldest[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                 {0, HT_RAW_MALLOC, 20, 0x200, 41},
                                                 MARK(0, FORKED),
                                                 {0, HT_RAW_FREE, 1001, 0x200, 0}};
    static const struct builder_line middle[] = {{0, HT_RAW_FREE, 1200, 0x100, 0},
                                                 {0, HT_RAW_MALLOC, 1201, 0x300, 42},
                                                 MARK(0, 1300),
                                                 {0, HT_RAW_MALLOC, 1301, 0x400, 43}};
    static const struct builder_line youngest[] = {{0, HT_RAW_FREE, 1500, 0x200, 0},
                                                   {0, HT_RAW_FREE, 1501, 0x300, 0}};
    write_log(PARENT, 0, 0, 1, LINES(eldest));
    write_log(CHILD, PARENT, FORKED, CHILD_BEGAN, LINES(middle));
    write_log(GRANDCHILD, CHILD, 1300, 1400, LINES(youngest));
    struct converted_log *converted = convert(GRANDCHILD, NULL);
    ASSERT_INHERITS(converted, 41, 42);
    assert_int_equal(converted->totals.foreign_frees, 0);
    assert_string_equal(converted->warning, "");
    done(converted);

    // Without the eldest's log, what the parent itself allocated is known all the same.
    char path[256];
    unlink(path_of(path, PARENT));
    converted = convert(GRANDCHILD, NULL);
    ASSERT_INHERITS(converted, 42);
    assert_int_equal(converted->totals.foreign_frees, 1);
    assert_non_null(strstr(converted->warning, "process 11 was forked from 10"));
    done(converted);
}

static void a_large_block_tells_at_its_end_what_was_resident(void **state) {
    (void)state;
    struct raw_log_builder builder;
    begin(&builder, PARENT, 0, 0, 1);
    ht_append_modifier(builder_cursor(&builder, 0), HT_MODIFIER_RESIDENT_BEFORE, 3);
    builder_put(&builder,
                (const struct builder_line[]){{0, HT_RAW_MALLOC, 10, 0x10000, 1 << 20}, MARK(0, FORKED)}, 2);
    builder_close(&builder);
    begin(&builder, CHILD, PARENT, FORKED, CHILD_BEGAN);
    ht_append_modifier(builder_cursor(&builder, 0), HT_MODIFIER_RESIDENT_AFTER, 17);
    builder_put(&builder, &(struct builder_line){0, HT_RAW_FREE, 1200, 0x10000, 0}, 1);
    builder_close(&builder);
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 1 << 20);
    assert_int_equal(converted->facts.residency_count, 1);
    assert_int_equal(converted->facts.residency[0].event, 0);
    assert_int_equal(converted->facts.residency[0].pages_before, 0);
    assert_int_equal(converted->facts.residency[0].pages_after, 17);
    done(converted);
}

// Looks at a live block are told, and its end as well if it lived for a millisecond; not what was there
// before.
static void a_large_block_tells_how_it_was_filled(void **state) {
    (void)state;
    static const uint64_t word[][3] = {
        {500, 0x10000, 3}, {800, 0x10000, 90}, {900, 0x10000, 100}, {950, 0x77000, 8}, {2000100, 0x50000, 7}};
    struct raw_log_builder builder;
    begin(&builder, PARENT, 0, 0, 1);
    struct ht_cursor *cursor = builder_cursor(&builder, 0);
    ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_BEFORE, 3);
    builder_put(&builder,
                (const struct builder_line[]){{0, HT_RAW_MALLOC, 10, 0x10000, 1 << 20},
                                              {0, HT_RAW_MALLOC, 20, 0x200000, 1 << 20},
                                              {0, HT_RAW_MALLOC, 30, 0x50000, 1 << 20}},
                3);
    for (int i = 0; i < 4; i++) ht_append_long(cursor, HT_LONG_RESIDENT_SO_FAR, word[i], 3);
    ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_AFTER, 40);
    builder_put(&builder, &(struct builder_line){0, HT_RAW_FREE, 900000, 0x200000, 0}, 1);
    ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_AFTER, 120);
    builder_put(&builder, &(struct builder_line){0, HT_RAW_FREE, 2000000, 0x10000, 0}, 1);
    ht_append_long(cursor, HT_LONG_RESIDENT_AT_EXIT, word[4], 3);
    builder_close(&builder);
    struct converted_log *converted = convert(PARENT, NULL);
    static const uint64_t wanted[][3] = {{0, 799, 90}, {0, 899, 100}, {0, 1999999, 120}, {2, 2000099, 7}};
    assert_int_equal(converted->facts.residency_count, 3);
    assert_int_equal(converted->facts.steps_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(converted->facts.steps[i].event, wanted[i][0]);
        assert_int_equal(converted->facts.steps[i].time_ns, wanted[i][1]);
        assert_int_equal(converted->facts.steps[i].pages, wanted[i][2]);
    }
    done(converted);
}

// A block of 16 pages lies in 17 if it does not begin with one. Where all of them are resident, the trace has one page more than the
// block's size takes.
static void a_block_that_was_filled_is_told_from_others(void **state) {
    (void)state;
    enum { PAGES = 16, BYTES = PAGES * 4096 };
    static const struct {
        uint64_t address, resident, told;
    } block[] = {{0x100000, 16, 17}, {0x200010, 17, 17}, {0x300010, 16, 16}, {0x400000, 15, 15},
                 {0x500ff0, 3, 3},   {0x600000, 99, 17}, {0x700000, 0, 0}};
    enum { BLOCKS = sizeof block / sizeof *block };
    struct raw_log_builder builder;
    begin(&builder, PARENT, 0, 0, 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, 10 + i, block[i].address, BYTES}, 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        ht_append_modifier(builder_cursor(&builder, 0), HT_MODIFIER_RESIDENT_AFTER, block[i].resident);
        builder_put(&builder, &(struct builder_line){0, HT_RAW_FREE, 100 + i, block[i].address, 0}, 1);
    }
    builder_close(&builder);
    struct converted_log *converted = convert(PARENT, NULL);
    assert_int_equal(converted->facts.residency_count, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(converted->facts.residency[i].event, i);
        assert_int_equal(converted->facts.residency[i].pages_after, block[i].told);
    }
    done(converted);
}

static void a_parent_that_made_no_call_hands_on_nothing(void **state) {
    (void)state;
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x100, 0}};
    write_log(PARENT, 0, 0, 1, NULL, 0);
    write_child(FORKED, LINES(child));
    struct converted_log *converted = convert(CHILD, NULL);
    assert_inherits(converted, NULL, 0);
    assert_int_equal(converted->totals.foreign_frees, 1);
    assert_string_equal(converted->warning, "");
    done(converted);
}

// ---- which logs are believed ----

static const struct builder_line one_block[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40}};
static const struct builder_line frees_it[] = {{0, HT_RAW_FREE, 1200, 0x100, 0}};

// The child is converted without its parent, and the warning has these words; named, the parent is an error.
static void assert_disbelieved(const char *words, const char *named) {
    char path[256];
    struct ht_error error = {0};
    struct converted_log *converted = convert(CHILD, NULL);
    if (!strstr(converted->warning, words)) fail_msg("'%s' is not in '%s'", words, converted->warning);
    assert_null(strchr(converted->warning, '\n'));
    assert_inherits(converted, NULL, 0);
    assert_int_equal(converted->totals.foreign_frees, 1);
    done(converted);
    if (!named) return;
    converted = malloc(sizeof *converted);
    assert_int_equal(converted_open(converted, path_of(path, CHILD), named, &error), -1);
    assert_int_equal(error.status, HT_EXIT_INPUT);
    assert_non_null(strstr(error.message, words));
    free(converted);
}

// Chunks that became holes read as chunks that were never begun.
static void a_parent_with_holes_is_disbelieved(void **state) {
    (void)state;
    static const char trace[] = "/somewhere/parent.bin";
    char path[256];
    write_log(PARENT, 0, 0, 1, LINES(one_block));
    write_child(FORKED, LINES(frees_it));
    uint32_t features = HT_RAW_FEATURE_CONSUMED;
    int fd = open(path_of(path, PARENT), O_WRONLY);
    assert_int_equal(pwrite(fd, trace, sizeof trace, HT_RAW_CONSUMER_OFFSET), sizeof trace);
    assert_int_equal(pwrite(fd, &features, sizeof features, offsetof(struct ht_raw_header, features)),
                     sizeof features);
    close(fd);
    assert_disbelieved("expected a whole log, found one with holes: its trace is /somewhere/parent.bin",
                       path);
}

static void a_missing_parent_is_reported(void **state) {
    (void)state;
    char path[256];
    unlink(path_of(path, PARENT));
    write_child(FORKED, LINES(frees_it));
    assert_disbelieved("malloc-footprint.10.mraw: cannot open", path_of(path, PARENT));
}

static void another_processs_log_is_no_parent(void **state) {
    (void)state;
    char path[256];
    const char *parent = path_of(path, PARENT);
    for (unsigned wrong = 0; wrong < 7; wrong++) {
        static const char *const words[] = {"of process 77",
                                            "found log 3",
                                            "another run",
                                            "expected clock ",
                                            "expected clock ",
                                            "expected a recording that began before the fork at ",
                                            "found one that ended before it (size limit)"};
        struct raw_log_builder builder;
        begin(&builder, PARENT, 0, 0, 1);
        if (wrong == 0) builder.header.pid = 77;
        if (wrong == 1) builder.header.sequence = 3;
        if (wrong == 2) builder.context = "run=other";
        if (wrong == 3) builder.header.clock_kind = HT_CLOCK_TSC;
        if (wrong == 4) builder.header.clock_shift = 1;
        if (wrong == 5) builder.header.first_pair.stamp = FORKED + 1;
        if (wrong == 6) {
            builder.header.state = HT_RAW_STOPPED;
            builder.header.stop_reason = HT_STOP_SIZE_LIMIT;
            builder.header.stop_stamp = FORKED - 1;
        }
        builder_put(&builder, LINES(one_block));
        builder_close(&builder);
        begin(&builder, CHILD, PARENT, FORKED, CHILD_BEGAN);
        builder.context = "run=this";
        builder_put(&builder, LINES(frees_it));
        builder_close(&builder);
        assert_disbelieved(words[wrong], parent);
    }
}

static void a_parent_that_stopped_after_the_fork_is_as_good_as_any(void **state) {
    (void)state;
    struct raw_log_builder builder;
    begin(&builder, PARENT, 0, 0, 1);
    builder.header.state = HT_RAW_STOPPED;
    builder.header.stop_reason = HT_STOP_CONTROL;
    builder.header.stop_stamp = FORKED + 1;
    builder_put(&builder, LINES(one_block));
    builder_close(&builder);
    write_child(FORKED, LINES(frees_it));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 40);
    assert_string_equal(converted->warning, "");
    done(converted);
}

static void a_damaged_parent_hands_on_what_is_whole(void **state) {
    (void)state;
    static const struct builder_line damaged[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                  {0, HT_RAW_REALLOC_END, 20, 0x100, 0}};
    write_log(PARENT, 0, 0, 1, LINES(damaged));
    write_child(FORKED, LINES(frees_it));
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, 40);
    assert_non_null(strstr(converted->warning, "whose log is damaged"));
    assert_non_null(strstr(converted->warning, "expected a realloc's two records one after the other"));
    done(converted);
}

static void nobody_is_his_own_ancestor(void **state) {
    (void)state;
    char path[256];
    write_log(CHILD, CHILD, FORKED, FORKED, LINES(frees_it));
    assert_disbelieved("found one of its descendants", path_of(path, CHILD));
    // Two that name each other.
    write_log(PARENT, CHILD, FORKED, FORKED, LINES(one_block));
    write_log(CHILD, PARENT, FORKED, FORKED, LINES(frees_it));
    struct converted_log *converted = convert(CHILD, NULL);
    assert_non_null(strstr(converted->warning, "found one of its descendants"));
    ASSERT_INHERITS(converted, 40);  // the parent's own block
    done(converted);
}

static void ancestors_without_end_are_not_followed(void **state) {
    (void)state;
    char path[256];
    enum { GENERATIONS = 80 };
    for (uint32_t i = 0; i < GENERATIONS; i++)
        write_log(1000 + i, i ? 999 + i : 0, 10 * i, 1 + 10 * i,
                  (const struct builder_line[]){{0, HT_RAW_MALLOC, 2 + 10 * i, 0x100 * (i + 1), 1}}, 1);
    struct converted_log *converted = convert(999 + GENERATIONS, NULL);
    assert_non_null(strstr(converted->warning, "expected at most 64 ancestors"));
    assert_int_equal(converted->totals.inherited_objects, 64);
    done(converted);
    for (uint32_t i = 0; i < GENERATIONS; i++) unlink(path_of(path, 1000 + i));
}

static void a_parent_named_for_a_log_without_one_is_an_error(void **state) {
    (void)state;
    char child[256], parent[256];
    struct ht_error error = {0};
    write_log(PARENT, 0, 0, 1, LINES(one_block));
    write_log(CHILD, 0, 0, CHILD_BEGAN, LINES(frees_it));
    struct converted_log *converted = malloc(sizeof *converted);
    assert_int_equal(converted_open(converted, path_of(child, CHILD), path_of(parent, PARENT), &error), -1);
    assert_non_null(strstr(error.message, "found one without a parent"));
    free(converted);
}

static void a_named_parent_may_lie_anywhere_and_its_own_beside_it(void **state) {
    (void)state;
    char path[256], other[256];
    write_log(PARENT, 0, 0, 1, LINES(one_block));
    write_child(FORKED, LINES(frees_it));
    snprintf(other, sizeof other, "%s/renamed", folder);
    assert_int_equal(rename(path_of(path, PARENT), other), 0);
    struct converted_log *converted = convert(CHILD, other);
    ASSERT_INHERITS(converted, 40);
    done(converted);
    unlink(other);
}

// What a follower notes beside the parent's log, by its own functions.
static void note(const struct live_block *block, size_t count) {
    char path[256];
    struct ht_raw_log log;
    struct ht_error error = {0};
    const struct live_blocks blocks = {.block = (struct live_block *)block, .count = count};
    assert_int_equal(ht_raw_open(&log, path_of(path, PARENT), &error), 0);
    struct fork_file *file = fork_file_open(&log, 0, &error);
    assert_non_null(file);
    assert_int_equal(fork_file_put(file, FORKED, &blocks, &error), 0);
    fork_file_finish(file);
    fork_file_close(file);
    ht_raw_close(&log);
}

static void assert_child_inherits(uint64_t first, uint64_t second) {
    struct converted_log *converted = convert(CHILD, NULL);
    ASSERT_INHERITS(converted, first, second);
    assert_int_equal(converted->totals.foreign_frees, 0);
    done(converted);
}

// What contradicts itself or is somebody else's is as good as none: the parent's log is read.
static void a_forged_note_is_disbelieved(void **state) {
    (void)state;
    char path[256], forks[256];
    static const struct builder_line parent[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40}, {0, HT_RAW_MALLOC, 20, 0x200, 41}, MARK(0, FORKED)};
    static const struct builder_line child[] = {{0, HT_RAW_FREE, 1200, 0x100, 0},
                                                {0, HT_RAW_FREE, 1201, 0x200, 0}};
    const struct live_block good[] = {{0x100, 50}, {0x200, 51}}, twice[] = {{0x100, 50}, {0x100, 51}},
                            nowhere[] = {{0x100, 50}, {0, 51}};
    write_log(PARENT, 0, 0, 0, LINES(parent));
    write_child(FORKED, LINES(child));
    assert_child_inherits(40, 41);
    note(good, 2);
    assert_child_inherits(50, 51);
    note(twice, 2);
    assert_child_inherits(40, 41);
    note(nowhere, 2);
    assert_child_inherits(40, 41);
    note(good, 2);
    assert_true(fork_file_path(path_of(path, PARENT), forks, sizeof forks));
    if (!chown(forks, 54321, (gid_t)-1)) {  // only root may
        assert_child_inherits(40, 41);
        assert_int_equal(chown(path_of(path, CHILD), 54321, (gid_t)-1), 0);
        assert_child_inherits(50, 51);
    }
    unlink(forks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_is_the_mark_in_one_stream_and_its_stamp_in_others),
        cmocka_unit_test(an_unknown_stamp_is_the_childs_beginning),
        cmocka_unit_test(blocks_are_born_again_by_realloc),
        cmocka_unit_test(a_realloc_under_way_leaves_the_old_block),
        cmocka_unit_test(the_mark_is_found_wherever_chunks_end),
        cmocka_unit_test(it_comes_down_through_the_generations),
        cmocka_unit_test(a_large_block_tells_at_its_end_what_was_resident),
        cmocka_unit_test(a_block_that_was_filled_is_told_from_others),
        cmocka_unit_test(a_large_block_tells_how_it_was_filled),
        cmocka_unit_test(a_parent_that_made_no_call_hands_on_nothing),
        cmocka_unit_test(a_missing_parent_is_reported),
        cmocka_unit_test(a_parent_with_holes_is_disbelieved),
        cmocka_unit_test(another_processs_log_is_no_parent),
        cmocka_unit_test(a_parent_that_stopped_after_the_fork_is_as_good_as_any),
        cmocka_unit_test(a_damaged_parent_hands_on_what_is_whole),
        cmocka_unit_test(a_forged_note_is_disbelieved),
        cmocka_unit_test(nobody_is_his_own_ancestor),
        cmocka_unit_test(ancestors_without_end_are_not_followed),
        cmocka_unit_test(a_parent_named_for_a_log_without_one_is_an_error),
        cmocka_unit_test(a_named_parent_may_lie_anywhere_and_its_own_beside_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
