// SPDX-License-Identifier: Apache-2.0
// Which file systems logs may be mapped from.
#include "unit_support.h"

#include <string.h>

#include "file_systems.h"

static const char *kind_of(unsigned long magic, unsigned long files) {
    struct statfs status = {0};
    status.f_type = (__typeof__(status.f_type))magic;
    status.f_files = files;
    return file_system_unfit(&status);
}

static void pages_that_stay_real(void **state) {
    (void)state;
    static const unsigned long ext4 = 0xef53, xfs = 0x58465342, tmpfs = 0x01021994, f2fs = 0xf2f52010;
    assert_null(kind_of(ext4, 1000));
    assert_null(kind_of(xfs, 1000));
    assert_null(kind_of(tmpfs, 0));
    assert_null(kind_of(f2fs, 1000));
    assert_null(kind_of(0x794c7630, 1000));  // an overlay over one of them
}

static void pages_that_may_go(void **state) {
    (void)state;
    assert_non_null(strstr(kind_of(0x9123683e, 0), "btrfs"));
    assert_non_null(strstr(kind_of(0x794c7630, 0), "overlay over btrfs"));
    assert_non_null(strstr(kind_of(0x6969, 1000), "NFS"));
    assert_non_null(strstr(kind_of(0xff534d42, 1000), "CIFS"));
    // Of a kernel that keeps the number in 64 bits, with its sign or without.
    assert_non_null(strstr(kind_of((unsigned long)(int)0xff534d42, 1000), "CIFS"));
    assert_non_null(strstr(kind_of(0x65735546, 1000), "FUSE"));
}

static const char *upper_of(const char *line, unsigned major_number, unsigned minor_number) {
    static char folder[16];
    return overlay_upper_folder(line, major_number, minor_number, folder, sizeof folder) ? folder : NULL;
}

static void what_an_overlay_writes_to(void **state) {
    (void)state;
    static const char plain[] =
        "36 35 0:52 / / rw shared:1 - overlay none rw,lowerdir=/l:/m,upperdir=/u,workdir=/w";
    assert_string_equal(upper_of(plain, 0, 52), "/u");
    assert_null(upper_of(plain, 0, 53));
    assert_null(upper_of(plain, 1, 52));
    assert_string_equal(upper_of("1 2 3:4 / / rw - overlay a rw,upperdir=/u\n", 3, 4), "/u");
    assert_string_equal(upper_of("1 2 3:4 / / rw - overlay a rw,upperdir=/a\\040b\\134,c,index=off", 3, 4),
                        "/a b,c");
    assert_string_equal(upper_of("1 2 3:4 / / rw - overlay a rw,upperdir=/a\\134\\134b", 3, 4), "/a\\b");
    assert_string_equal(upper_of("1 2 3:4 / / rw - overlay a rw,upperdir=/23456789abcdef", 3, 4),
                        "/23456789abcdef");
    assert_null(upper_of("1 2 3:4 / / rw - overlay a rw,upperdir=/23456789abcdef0", 3, 4));
    assert_null(upper_of("1 2 3:4 / / ro - overlay a ro,lowerdir=/l", 3, 4));
    assert_null(upper_of("1 2 3:4 / / rw - ext4 /dev/sda1 rw,upperdir=/u", 3, 4));
    assert_null(upper_of("1 2 3:", 3, 4));
    assert_null(upper_of("", 0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_that_stay_real),
                                       cmocka_unit_test(what_an_overlay_writes_to),
                                       cmocka_unit_test(pages_that_may_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
