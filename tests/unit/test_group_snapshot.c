// SPDX-License-Identifier: Apache-2.0
// Snapshots of a group: read back as they were written, and refused in one line where a byte is another.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "group_snapshot.h"
#include "group_snapshot_layout.h"
#include "unit_support.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_no_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
