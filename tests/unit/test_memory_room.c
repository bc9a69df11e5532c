// SPDX-License-Identifier: Apache-2.0
// What control groups of both versions leave, read from files that the test makes.
#include "unit_support.h"

#include <string.h>
#include <sys/stat.h>

#include "memory_room.h"

enum { MIB = 1 << 20 };
static char root[256];

// A file below the root, its folders made.
static void file(const char *name, const char *content) {
    char path[1024];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *made = fopen(path, "w");
    assert_non_null(made);
    fputs(content, made);
    fclose(made);
}

static int begin(void **state) {
    (void)state;
    unit_path(root, "room");
    mkdir(root, 0700);
    file("/proc/meminfo", "MemTotal:  8192000 kB\nMemFree: 1 kB\nMemAvailable:    1048576 kB\n");
    return 0;
}

static int end(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void what_the_machine_has(void **state) {
    (void)state;
    assert_int_equal(memory_room_bytes(root), 1024 * (uint64_t)MIB);
    file("/proc/self/cgroup", "0::/a\n");
    assert_int_equal(memory_room_bytes(root), 1024 * (uint64_t)MIB);
}

static void nothing_is_known(void **state) {
    (void)state;
    assert_true(memory_room_bytes("/nowhere") == UINT64_MAX);
}

static void the_second_version(void **state) {
    (void)state;
    file("/proc/self/cgroup", "0::/a/b\n");
    file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    file("/sys/fs/cgroup/a/b/memory.current", "1\n");
    assert_int_equal(memory_room_bytes(root), 1024 * (uint64_t)MIB);
    // The limit of the group above; what it keeps of files could be dropped.
    file("/sys/fs/cgroup/a/memory.max", "67108864\n");
    file("/sys/fs/cgroup/a/memory.current", "33554432\n");
    assert_int_equal(memory_room_bytes(root), 32 * MIB);
    file("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 9\ninactive_file 8388608\nactive_file 4194304\n");
    assert_int_equal(memory_room_bytes(root), 44 * MIB);
    file("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
    assert_int_equal(memory_room_bytes(root), MIB - 1);
}

static void the_first_version(void **state) {
    (void)state;
    file("/proc/self/cgroup", "9:pids:/x\n5:cpu,memory:/a/b\n1:name=systemd:/y\n0::/\n");
    file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000000\n");
    assert_int_equal(memory_room_bytes(root), 1024 * (uint64_t)MIB);
    file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "16777216\n");
    file("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "4194304\n");
    file("/sys/fs/cgroup/memory/a/b/memory.stat",
         "cache 1\ninactive_file 7\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
    assert_int_equal(memory_room_bytes(root), 13 * MIB);
    file("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "33554432\n");
    assert_int_equal(memory_room_bytes(root), 0);
}

// The path is the host's, where only the group itself is mounted; or the group is above what is mounted.
static void in_a_container(void **state) {
    (void)state;
    file("/sys/fs/cgroup/memory.max", "10485760\n");
    file("/sys/fs/cgroup/memory.current", "0\n");
    file("/proc/self/cgroup", "0::/system.slice/docker-0123.scope\n");
    assert_int_equal(memory_room_bytes(root), 10 * MIB);
    file("/proc/self/cgroup", "0::/../../other\n");
    assert_int_equal(memory_room_bytes(root), 10 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(what_the_machine_has, begin, end),
                                       cmocka_unit_test_setup_teardown(nothing_is_known, begin, end),
                                       cmocka_unit_test_setup_teardown(the_second_version, begin, end),
                                       cmocka_unit_test_setup_teardown(the_first_version, begin, end),
                                       cmocka_unit_test_setup_teardown(in_a_container, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
