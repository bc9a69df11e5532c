// SPDX-License-Identifier: Apache-2.0
// The importers in-process, so that sanitizers look at them: the golden files whole and cut off anywhere, and
// the numbers of the texts at their bounds.
#include "unit_support.h"

#include <string.h>

#include "import_run.h"
#include "import_text.h"

enum { FILE_BYTES_MAX = 4096 };

static const struct {
    const char *name, *format;
} files[] = {
    {"android.txt", "android"},
    {"android_timed.txt", "android"},
    {"logalloc.log", "logalloc"},
    {"logalloc_munged.log", "logalloc"},
    {"malloc_lab.rep", "rep"},
    {"malloc_wrap.txt", "malloc_wrap"},
    {"malloc_wrap_raw.txt", "malloc_wrap_raw"},
    {"mtrace.txt", "mtrace"},
};

static size_t read_golden(const char *name, char bytes[FILE_BYTES_MAX]) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN_IMPORTS, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, FILE_BYTES_MAX, file);
    fclose(file);
    assert_in_range(count, 1, FILE_BYTES_MAX - 1);
    return count;
}

// Imports the bytes from a file. What is refused must be told in one line, as bad input.
static int import_bytes(const char *bytes, size_t count, const char *format, bool lenient) {
    char input[256], output[256];
    struct ht_error error = {0};
    FILE *file = fopen(unit_path(input, "foreign"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
    const struct convert_request request = {.input = input,
                                            .output = unit_path(output, "imported.bin"),
                                            .level = 1,
                                            .time_unit_ns = 32,
                                            .lenient = lenient,
                                            .quiet = true};
    int status = import_run(&request, format ? import_format_named(format) : NULL, &error);
    if (status) {
        assert_int_equal(error.status, HT_EXIT_INPUT);
        assert_null(strchr(error.message, '\n'));
        assert_non_null(strstr(error.message, "expected"));
        assert_int_equal(access(output, F_OK), -1);
    } else {
        assert_int_equal(unlink(output), 0);
    }
    unlink(input);
    return status;
}

static void whole_files_are_recognized(void **state) {
    char bytes[FILE_BYTES_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t count = read_golden(files[i].name, bytes);
        assert_int_equal(import_bytes(bytes, count, NULL, false), 0);
    }
}

static void cut_files_are_read_or_refused(void **state) {
    char bytes[FILE_BYTES_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t count = read_golden(files[i].name, bytes);
        for (size_t cut = i % 3, odd = 0; cut < count; cut += 3 * unit_stride(5), odd = !odd) {
            import_bytes(bytes, cut, files[i].format, odd);
            import_bytes(bytes, cut, NULL, false);
        }
    }
}

static bool whole_number(const char *text, bool (*read)(struct import_text *, uint64_t *), uint64_t *value) {
    struct import_text at = {text, text + strlen(text) - 1};  // behind it stands a newline
    return read(&at, value) && at.at == at.end;
}

static void numbers_at_their_bounds(void **state) {
    uint64_t value;
    (void)state;
    assert_true(whole_number("18446744073709551615\n", text_decimal, &value));
    assert_int_equal(value, UINT64_MAX);
    assert_false(whole_number("18446744073709551616\n", text_decimal, &value));
    assert_false(whole_number("99999999999999999999\n", text_decimal, &value));
    assert_true(whole_number("00000000000000000000000007\n", text_decimal, &value));
    assert_int_equal(value, 7);
    assert_false(whole_number("\n", text_decimal, &value));
    assert_false(whole_number("-1\n", text_decimal, &value));
    assert_true(whole_number("fFfFfFfFfFfFfFfF\n", text_hex, &value));
    assert_int_equal(value, UINT64_MAX);
    assert_false(whole_number("10000000000000000\n", text_hex, &value));
    assert_false(whole_number("g\n", text_hex, &value));
    assert_false(whole_number("0x\n", text_0x, &value));
    assert_true(whole_number("(nil)\n", text_pointer, &value));
    assert_int_equal(value, 0);
    assert_true(whole_number("0x10\n", text_number, &value));
    assert_int_equal(value, 16);
    assert_true(whole_number("010\n", text_number, &value));
    assert_int_equal(value, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_are_recognized),
        cmocka_unit_test(cut_files_are_read_or_refused),
        cmocka_unit_test(numbers_at_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
