// SPDX-License-Identifier: Apache-2.0
// A log that is read while it is written: a chunk is begun just behind the reader.
#include "unit_support.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "raw_reader.h"

enum { CHUNK_BYTES = 16 * HT_CHUNK_ALIGN, PAGE = HT_CHUNK_ALIGN };

static struct {
    char path[256];
    int fd;
    bool begins;  // at the reader's next step
    bool has_header;
} program;

static void write_at(uint64_t offset, const void *bytes, size_t count) {
    assert_int_equal(pwrite(program.fd, bytes, count, (off_t)offset), count);
}

static void begin_chunk(void) {
    const struct ht_raw_chunk chunk = {.magic = HT_CHUNK_MAGIC, .bytes = CHUNK_BYTES};
    const uint64_t records[] = {0x1122334455667788, 0x1122334455667788};
    if (program.has_header) write_at(HT_RAW_HEADER_BYTES, &chunk, sizeof chunk);
    for (uint64_t page = 1; page < 5; page++)
        write_at(HT_RAW_HEADER_BYTES + page * PAGE, records, sizeof records);
}

// In the C library's place, for the code under test, which steps from page to page by it.
off_t __wrap_lseek(int fd, off_t offset, int from);
off_t __wrap_lseek(int fd, off_t offset, int from) {
    if (program.begins) begin_chunk();
    program.begins = false;
    return syscall(SYS_lseek, fd, offset, from);
}

static struct ht_raw_log make_log(bool has_header) {
    static const char zeros[CHUNK_BYTES];
    program.fd = open(unit_path(program.path, "begun.mraw"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(program.fd >= 0);
    write_at(HT_RAW_HEADER_BYTES, zeros, sizeof zeros);
    program.begins = true;
    program.has_header = has_header;
    return (struct ht_raw_log){
        .path = program.path, .fd = program.fd, .chunks_end = HT_RAW_HEADER_BYTES + CHUNK_BYTES};
}

static void remove_log(void) {
    close(program.fd);
    unlink(program.path);
}

static void a_chunk_that_begins_meanwhile_is_found(void **state) {
    (void)state;
    struct ht_raw_log log = make_log(true);
    struct ht_raw_chunk chunk;
    struct ht_error error = {0};
    uint64_t at = 0;
    assert_int_equal(ht_raw_next_chunk(&log, 0, &chunk, &at, &error), 1);
    assert_int_equal(at, HT_RAW_HEADER_BYTES);
    assert_int_equal(chunk.bytes, CHUNK_BYTES);
    assert_false(program.begins);
    remove_log();
}

static void records_without_a_chunk_are_damage(void **state) {
    (void)state;
    struct ht_raw_log log = make_log(false);
    struct ht_raw_chunk chunk;
    struct ht_error error = {0};
    uint64_t at = 0;
    assert_int_equal(ht_raw_next_chunk(&log, 0, &chunk, &at, &error), -1);
    assert_non_null(strstr(error.message, "offset 20480: expected a chunk (HTWN), found 0x55667788"));
    remove_log();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_chunk_that_begins_meanwhile_is_found),
                                       cmocka_unit_test(records_without_a_chunk_are_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
