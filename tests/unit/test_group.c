// SPDX-License-Identifier: Apache-2.0
// Groups of processes: snapshots of their pages, and the trace of all.
#include "unit_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "group_snapshot.h"
#include "group_snapshot_layout.h"
#include "group_trace.h"
#include "group_writer.h"

// ---- snapshots of a group: read back as they were written, and refused in one line where a byte is another ----

enum { PAGE = 4096, LARGE_PAGES = 5000, FILE_BYTES_MAX = 1 << 16 };

static uint8_t small_states[] = {HT_PAGE_SHARED, HT_PAGE_EXCLUSIVE, HT_PAGE_SWAPPED};
static uint8_t large_states[LARGE_PAGES];
static struct ht_group_mapping root_mappings[] = {
    {0x10000, 0x13000, HT_MAPPING_HEAP, small_states},
    {0x20000, 0x20000 + LARGE_PAGES *PAGE, HT_MAPPING_ANONYMOUS, large_states},
};
static struct ht_group_mapping worker_mappings[] = {{0x11000, 0x12000, HT_MAPPING_FILE, small_states}};
static struct ht_group_member members[] = {
    {.pid = 100,
     .parent_pid = 1,
     .start_ticks = 77,
     .name = "fifteen letters",
     .rss_anon_bytes = 3 * PAGE,
     .pss_anon_bytes = 2 * PAGE,
     .rss_bytes = 9 * PAGE,
     .pss_bytes = 5 * PAGE,
     .swap_bytes = PAGE,
     .mapping = root_mappings,
     .mappings = 2},
    {.pid = 102, .parent_pid = 100, .name = "worker", .mapping = worker_mappings, .mappings = 1},
    {.pid = 99, .parent_pid = 102, .name = "sh", .executed = true, .ksm_bytes = PAGE, .huge_bytes = 1 << 21},
};

static struct ht_group_snapshots two_snapshots(struct ht_group_snapshot snapshot[2]) {
    for (size_t i = 0; i < LARGE_PAGES; i++) large_states[i] = (uint8_t)(i * i / 7 % HT_PAGE_STATES);
    snapshot[0] = (struct ht_group_snapshot){
        .time_ns = 5, .took_ns = 1, .reason = HT_SNAPSHOT_PEAK, .member = members, .members = 3};
    snapshot[1] = (struct ht_group_snapshot){
        .time_ns = 6, .took_ns = 2, .reason = HT_SNAPSHOT_LAST, .member = members, .members = 2};
    return (struct ht_group_snapshots){.run = "0123456789abcdef0123456789abcdef",
                                       .root_pid = 100,
                                       .page_bytes = PAGE,
                                       .snapshot = snapshot,
                                       .count = 2};
}

static void check_member(const struct ht_group_member *found, const struct ht_group_member *member) {
    assert_int_equal(found->pid, member->pid);
    assert_int_equal(found->parent_pid, member->parent_pid);
    assert_int_equal(found->start_ticks, member->start_ticks);
    assert_string_equal(found->name, member->name);
    assert_int_equal(found->executed, member->executed);
    assert_int_equal(found->rss_anon_bytes, member->rss_anon_bytes);
    assert_int_equal(found->pss_anon_bytes, member->pss_anon_bytes);
    assert_int_equal(found->rss_bytes, member->rss_bytes);
    assert_int_equal(found->pss_bytes, member->pss_bytes);
    assert_int_equal(found->swap_bytes, member->swap_bytes);
    assert_int_equal(found->ksm_bytes, member->ksm_bytes);
    assert_int_equal(found->huge_bytes, member->huge_bytes);
    assert_int_equal(found->mappings, member->mappings);
    for (size_t i = 0; i < found->mappings; i++) {
        const struct ht_group_mapping *one = &found->mapping[i], *other = &member->mapping[i];
        assert_true(one->start == other->start && one->end == other->end && one->kind == other->kind);
        assert_memory_equal(one->state, other->state, (one->end - one->start) / PAGE);
    }
}

static void test_round_trip(void **unused) {
    (void)unused;
    struct ht_group_snapshot snapshot[2];
    struct ht_group_snapshots written = two_snapshots(snapshot), found;
    struct ht_error error;
    struct stat status;
    char path[256];
    unit_path(path, "round.group");
    assert_int_equal(ht_group_snapshots_write(path, &written, &error), 0);
    assert_true(!stat(path, &status) && (status.st_mode & 0777) == 0600);
    assert_true(status.st_size < 4000);
    assert_int_equal(ht_group_snapshots_read(path, &found, &error), 0);
    assert_string_equal(found.run, written.run);
    assert_int_equal(found.root_pid, 100);
    assert_int_equal(found.page_bytes, PAGE);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(found.snapshot[i].time_ns, snapshot[i].time_ns);
        assert_int_equal(found.snapshot[i].took_ns, snapshot[i].took_ns);
        assert_int_equal(found.snapshot[i].reason, snapshot[i].reason);
        assert_int_equal(found.snapshot[i].members, snapshot[i].members);
        for (size_t j = 0; j < found.snapshot[i].members; j++)
            check_member(&found.snapshot[i].member[j], &members[j]);
    }
    ht_group_snapshots_free(&found);
    unlink(path);
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ht_write_all(fd, bytes, count));
    close(fd);
}

static void check_refused(const char *path) {
    struct ht_group_snapshots found;
    struct ht_error error = {0};
    assert_int_equal(ht_group_snapshots_read(path, &found, &error), -1);
    assert_int_equal(error.status, HT_EXIT_INPUT);
    assert_non_null(strstr(error.message, ": offset "));
    assert_non_null(strstr(error.message, "expected "));
    assert_non_null(strstr(error.message, ", found "));
    assert_null(strchr(error.message, '\n'));
    ht_group_snapshots_free(&found);
}

static void test_damage(void **unused) {
    (void)unused;
    static uint8_t bytes[FILE_BYTES_MAX];
    struct ht_group_snapshot snapshot[2];
    struct ht_group_snapshots written = two_snapshots(snapshot);
    struct ht_error error;
    char path[256];
    unit_path(path, "damaged.group");
    assert_int_equal(ht_group_snapshots_write(path, &written, &error), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(count > (ssize_t)sizeof(struct ht_snapshots_header) && count < FILE_BYTES_MAX);
    for (ssize_t i = 0; i < count; i += 1 + i / 100) {
        bytes[i] ^= 0x41;
        write_bytes(path, bytes, (size_t)count);
        check_refused(path);
        bytes[i] ^= 0x41;
        write_bytes(path, bytes, (size_t)i);
        check_refused(path);
    }
    write_bytes(path, bytes, (size_t)count + 1);
    check_refused(path);
    unlink(path);
}

// A file that cannot be made leaves nothing, and says which it was.
static void test_no_folder(void **unused) {
    (void)unused;
    struct ht_group_snapshot snapshot[2];
    struct ht_group_snapshots written = two_snapshots(snapshot);
    struct ht_error error;
    char path[256];
    unit_path(path, "nowhere/x.group");
    assert_int_equal(ht_group_snapshots_write(path, &written, &error), -1);
    assert_non_null(strstr(error.message, "x.group: cannot create: No such file"));
    assert_true(ht_group_snapshots_path(path, sizeof path, "/logs", 4711));
    assert_string_equal(path, "/logs/malloc-footprint.4711.group");
    assert_false(ht_group_snapshots_path(path, 10, "/logs", 4711));
}

// ---- the trace of a group: what is written is read, and what contradicts itself is refused ----

static char path[] = "/tmp/heaptape-group-XXXXXX";

// A trace of so many mallocs of 8 bytes; the first ones are inherited.
static int make_member(unsigned inherited, unsigned calls) {
    struct ht_error error;
    int fd = memfd_create("member", MFD_CLOEXEC);
    struct ht_trace_writer *writer = ht_trace_create_in(fd, "member", 1, 3, &error);
    assert_non_null(writer);
    assert_int_equal(ht_trace_put_context(writer, "{\"pid\":1,\"page_bytes\":4096}"), 0);
    for (unsigned i = 0; i < inherited + calls; i++)
        ht_trace_put_event(writer, ht_op(i < inherited ? HT_INHERIT : HT_MALLOC, HT_PLAIN), 0,
                           i < inherited ? 0 : i, i + 1, true, 8, 0);
    const struct ht_thread thread = {.tid = 1, .calls = calls};
    assert_int_equal(ht_trace_finish(writer, &thread, 1, "{}", NULL, &error), 0);
    return fd;
}

static void put_member(struct ht_trace_writer *writer, uint32_t process, unsigned inherited, unsigned calls) {
    struct ht_error error;
    int fd = make_member(inherited, calls);
    assert_int_equal(ht_group_put_member(writer, process, fd, &error), 0);
    close(fd);
}

static struct ht_trace_writer *begin(void) {
    struct ht_error error;
    struct ht_trace_writer *writer = ht_group_create(path, 1, 3, &error);
    assert_non_null(writer);
    put_member(writer, 0, 0, 10);
    put_member(writer, 1, 3, 4);
    const struct ht_group_layout layout = {
        .page = (uint32_t[]){4, 0, 2}, .offset = (uint16_t[]){4095, 16, 0}, .blocks = 3, .pages = 5};
    assert_int_equal(ht_group_put_layout(writer, 1, &layout), 0);
    return writer;
}

static void test_what_is_written_is_read(void **state) {
    (void)state;
    struct ht_group_content content;
    struct ht_error error;
    struct ht_group_layout layout;
    static const uint8_t states[5] = {1, 2, 0, 6, 3};
    assert_true(ht_group_content_make(&content, 2, 1));
    content.page_bytes = 4096;
    content.process[0] = (struct ht_group_process){
        .pid = 10, .parent = HT_GROUP_NO_PARENT, .end_ns = 9, .fork_thread = UINT32_MAX, .name = "one"};
    content.process[1] = (struct ht_group_process){.pid = 11,
                                                   .parent = 0,
                                                   .start_ns = 3,
                                                   .end_ns = 8,
                                                   .fork_event = 10,
                                                   .fork_thread = 2,
                                                   .inherited = 3,
                                                   .name = "two"};
    content.layout_pages[1] = 5;
    content.moment[0] = (struct ht_group_moment){7, 1, 100, 20, 150, 1, 2, 3};
    content.presence[1] = (struct ht_group_presence){true, 60, 50, 10};
    struct ht_trace_writer *writer = begin();
    ht_group_put_page_states(writer, 1, 0, states, 5);
    assert_int_equal(ht_group_finish(writer, json_object(), &content, NULL, &error), 0);
    struct ht_group_trace *group = ht_group_open(path, &error);
    assert_non_null(group);
    assert_int_equal(ht_group_processes(group), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_memory_equal(ht_group_process(group, i), &content.process[i], sizeof content.process[i]);
        struct ht_trace_reader *member = ht_group_member_open(group, i, &error);
        assert_non_null(member);
        assert_int_equal(ht_trace_records(member), i ? 7 : 10);
        ht_trace_close(member);
    }
    assert_memory_equal(ht_group_moment(group, 0), &content.moment[0], sizeof content.moment[0]);
    assert_false(ht_group_presence(group, 0, 0)->there);
    assert_memory_equal(ht_group_presence(group, 1, 0), &content.presence[1], sizeof content.presence[1]);
    assert_null(ht_group_page_states(group, 0, 0, &error));
    assert_int_equal(error.status, 0);
    uint8_t *found = ht_group_page_states(group, 1, 0, &error);
    assert_memory_equal(found, states, 5);
    assert_int_equal(ht_group_layout_read(group, 1, &layout, &error), 0);
    assert_true(layout.blocks == 3 && layout.pages == 5 && layout.page[0] == 4 && layout.offset[0] == 4095);
    ht_group_layout_free(&layout);
    ht_group_close(group);
    free(found);
    ht_group_content_free(&content);
    assert_null(ht_trace_open(path, &error));
    assert_non_null(strstr(error.message, "group of processes"));
}

static const char ROOT[] =
    "{\"pid\":10,\"parent\":null,\"name\":\"one\",\"start_ns\":0,\"end_ns\":9,\"presence\":[]}";

// What the context's `group` is, and a part of the message; NULL: it is read, all of it.
static const struct refused {
    const char *page_bytes, *child, *moments, *line;
} refused[] = {
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]", NULL},
    {"4097", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]",
     "page_bytes"},
    {"0", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]",
     "page_bytes"},
    {"4096", "\"parent\":1,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]",
     "lower number"},
    {"4096", "\"parent\":0,\"fork_event\":-1,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]",
     "fork_event"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":4,\"layout_pages\":5,\"start_ns\":3", "[]",
     "as many blocks"},
    {"4096", "\"parent\":null,\"start_ns\":3", "[]", "as many blocks"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":30", "[]",
     "ends after"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":1e300,\"start_ns\":3", "[]",
     "layout_pages"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":300000000,\"start_ns\":3", "[]",
     "layout_pages"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[{}]",
     "moment"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3",
     "[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7]", "16 moments"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "{}",
     "list of"},
    // The sections are sound: it shows when they are read.
    {"4096", "\"parent\":0,\"fork_event\":11,\"inherited\":3,\"layout_pages\":5,\"start_ns\":3", "[]",
     "within the parent"},
    {"4096", "\"parent\":0,\"fork_event\":10,\"inherited\":3,\"layout_pages\":4,\"start_ns\":3", "[]",
     "page of the layout"},
};

static int read_all(struct ht_error *error) {
    struct ht_group_trace *group = ht_group_open(path, error);
    struct ht_group_layout layout;
    int status = group ? 0 : -1;
    for (uint32_t i = 0; group && i < ht_group_processes(group) && !status; i++) {
        struct ht_trace_reader *member = ht_group_member_open(group, i, error);
        if (!member || ht_group_layout_read(group, i, &layout, error)) status = -1;
        else ht_group_layout_free(&layout);
        ht_trace_close(member);
    }
    ht_group_close(group);
    return status;
}

static void test_contradictions_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct ht_error error = {0};
        char *text;
        struct ht_trace_writer *writer = begin();
        assert_true(
            asprintf(
                &text,
                "{\"group\":{\"page_bytes\":%s,\"processes\":[%s,{\"pid\":11,\"name\":\"two\",\"end_ns\":8,%s,\"fork_thread\":null,\"presence\":[]}],\"moments\":%s}}",
                refused[i].page_bytes, ROOT, refused[i].child, refused[i].moments) > 0);
        assert_int_equal(ht_trace_put_context(writer, text), 0);
        free(text);
        assert_int_equal(ht_trace_finish_group(writer, NULL, &error), 0);
        int status = read_all(&error);
        if (refused[i].line && !(status && strstr(error.message, refused[i].line)))
            fail_msg("%zu: expected %s, found %s", i, refused[i].line, status ? error.message : "no error");
        if (!refused[i].line && status) fail_msg("%zu: %s", i, error.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_contradictions_are_refused),
    };
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return status;
}
