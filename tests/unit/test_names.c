// SPDX-License-Identifier: Apache-2.0
// Names of call sites: from this program's own symbols and DWARF, by build id; from perf maps; and how they are kept.
#include "unit_support.h"

#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "module_names.h"
#include "name_builder.h"
#include "site_names.h"

// ---- code whose names are known ----

static __attribute__((noinline)) uintptr_t return_address(void) {
    return (uintptr_t)__builtin_return_address(0);
}

enum { INLINED_LINE = __LINE__ + 1 };
static inline __attribute__((always_inline)) uintptr_t inlined_call(void) { return return_address(); }

__attribute__((noinline)) uintptr_t outer_call(void);
enum { OUTER_LINE = __LINE__ + 2 };
uintptr_t outer_call(void) {
    uintptr_t at = inlined_call();
    __asm__ volatile("" : "+r"(at));  // no tail call
    return at;
}

static int find_bias(struct dl_phdr_info *info, size_t size, void *bias) {
    (void)size;
    memcpy(bias, &info->dlpi_addr, sizeof info->dlpi_addr);
    return 1;  // the program comes first
}

// The return address within outer_call, less the load bias.
static uint64_t offset_in_program(void) {
    uintptr_t bias = 0;
    dl_iterate_phdr(find_bias, &bias);
    return outer_call() - bias;
}

static void program_path(char path[256]) {
    ssize_t bytes = readlink("/proc/self/exe", path, 255);
    assert_true(bytes > 0 && bytes < 255);
    path[bytes] = 0;
}

static void program_build_id(char digits[BUILD_ID_DIGITS_BYTES]) {
    char path[256];
    program_path(path);
    if (!file_build_id(path, NULL, digits)) skip();  // a linker that writes none
}

// ---- tables ----

// Of two modules, this program and one without a file, and of code in no module.
static struct ht_site_table table_of(const char *path, const char *build_id,
                                     const struct ht_location *locations, size_t count) {
    struct ht_site_table table = {.locations = calloc(count, sizeof *locations), .locations_count = count};
    assert_non_null(table.locations);
    memcpy(table.locations, locations, count * sizeof *locations);
    assert_true(
        asprintf(&table.modules_json,
                 "{\"modules\":[{\"path\":\"%s\",\"build_id\":\"%s\"},{\"path\":\"/nothing/there.so\"}]}",
                 path, build_id) > 0);
    return table;
}

static const struct ht_frame_name *name_at(const struct ht_site_table *table, uint32_t location,
                                           size_t which) {
    for (size_t i = 0; i < table->names_count; i++)
        if (table->names[i].location == location && which-- == 0) return &table->names[i];
    return NULL;
}

static void expect_name(const struct ht_site_table *table, uint32_t location, size_t which,
                        const char *function, const char *file, uint32_t line) {
    const struct ht_frame_name *name = name_at(table, location, which);
    assert_non_null(name);
    assert_string_equal(ht_site_string(table, name->function), function);
    const char *path = ht_site_string(table, name->file), *slash = strrchr(path, '/');
    assert_string_equal(slash ? slash + 1 : path, file);
    assert_int_equal(name->line, line);
}

// ---- modules ----

static void test_inlined_frames_of_a_program(void **unused) {
    (void)unused;
    char path[256], build_id[BUILD_ID_DIGITS_BYTES];
    program_path(path);
    program_build_id(build_id);
    const struct ht_location locations[] = {{64, 2}, {offset_in_program(), 1}, {1, 1}, {64, 0}};
    struct ht_site_table table = table_of(path, build_id, locations, 4);
    assert_true(site_names_resolve(&table, NULL));
    assert_int_equal(site_names_count(&table), 1);
    expect_name(&table, 1, 0, "inlined_call", "test_names.c", INLINED_LINE);
    expect_name(&table, 1, 1, "outer_call", "test_names.c", OUTER_LINE);
    assert_null(name_at(&table, 1, 2));
    ht_site_table_free(&table);
}

// Another build of the program lies where the recorded one was: its names would be wrong.
static void test_a_file_with_another_build_id_has_no_names(void **unused) {
    (void)unused;
    char path[256], build_id[BUILD_ID_DIGITS_BYTES];
    program_path(path);
    program_build_id(build_id);
    const struct ht_location locations[] = {{offset_in_program(), 1}};
    build_id[0] = build_id[0] == '0' ? '1' : '0';
    const char *const wrong[] = {build_id, "", "00"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ht_site_table table = table_of(path, wrong[i], locations, 1);
        assert_true(site_names_resolve(&table, NULL));
        assert_int_equal(table.names_count, 0);
        ht_site_table_free(&table);
    }
}

static void test_build_ids_of_files(void **unused) {
    (void)unused;
    char path[256], text[256], digits[BUILD_ID_DIGITS_BYTES];
    struct stat status;
    program_path(path);
    program_build_id(digits);
    assert_true(strlen(digits) >= 16 && strspn(digits, "0123456789abcdef") == strlen(digits));
    assert_int_equal(stat(path, &status), 0);
    struct timespec before = {.tv_sec = status.st_mtim.tv_sec - 1};
    assert_true(file_build_id(path, &status.st_mtim, digits));
    assert_false(file_build_id(path, &before, digits));
    assert_false(file_build_id("/nothing/there.so", NULL, digits));
    assert_false(file_build_id("/dev", NULL, digits));
    FILE *file = fopen(unit_path(text, "no.elf"), "w");
    assert_non_null(file);
    fputs("\177ELF and no more", file);
    fclose(file);
    assert_false(file_build_id(text, NULL, digits));
    unlink(text);
}

// ---- perf maps ----

static void test_names_of_generated_code(void **unused) {
    (void)unused;
    char path[256];
    FILE *file = fopen(unit_path(path, "perf.map"), "w");
    assert_non_null(file);
    fputs("1000 10 py::first:/a b.py\nnonsense\n2000 0 empty\n3000 zz bad\n4000 20\n"
          "1000 20 py::second\nffffffffffffffff 5 wraps\n5000 8 js last",
          file);
    fclose(file);
    // Return addresses: the call lies before them.
    const struct ht_location locations[] = {{0x1000, 0}, {0x1001, 0}, {0x1020, 0}, {0x1021, 0},
                                            {0x2001, 0}, {0x5008, 0}, {0x1001, 2}};
    struct ht_site_table table = table_of("", "", locations, 7);
    assert_true(site_names_resolve(&table, path));
    assert_int_equal(table.names_count, 3);
    expect_name(&table, 1, 0, "py::second", "", 0);
    expect_name(&table, 2, 0, "py::second", "", 0);
    expect_name(&table, 5, 0, "js last", "", 0);
    ht_site_table_free(&table);
    unlink(path);
}

static void test_whose_perf_map_it_is(void **unused) {
    (void)unused;
    char path[PERF_MAP_PATH_BYTES], own[PERF_MAP_PATH_BYTES];
    snprintf(own, sizeof own, "/tmp/perf-%d.map", (int)getpid());
    json_t *context = json_pack("{s:i, s:I}", "pid", (int)getpid(), "start_realtime_ns", (json_int_t)0);
    assert_null(site_names_perf_map(context, path));
    FILE *file = fopen(own, "w");
    assert_non_null(file);
    fclose(file);
    assert_string_equal(site_names_perf_map(context, path), own);
    // It was complete before the recording began: another process's of this number.
    json_object_set_new(context, "start_realtime_ns", json_integer(INT64_C(9000000000000000000)));
    assert_null(site_names_perf_map(context, path));
    unlink(own);
    json_decref(context);
}

// ---- how they are kept ----

static void test_new_names_replace_those_of_their_location(void **unused) {
    (void)unused;
    const struct ht_location locations[] = {{1, 0}, {2, 0}, {3, 0}};
    struct ht_site_table table = table_of("", "", locations, 3);
    struct name_builder builder;
    for (unsigned round = 0; round < 2; round++) {
        assert_true(name_builder_init(&builder));
        // Not in the order of locations; the second round knows nothing of location 0.
        name_builder_add(&builder, 2, round ? "new" : "old", "a.c", 7);
        name_builder_add(&builder, 2, "outer", "a.c", 8);
        if (!round) name_builder_add(&builder, 0, "kept", NULL, 0);
        assert_true(name_builder_give(&builder, &table));
        name_builder_free(&builder);
    }
    assert_int_equal(table.names_count, 3);
    assert_int_equal(site_names_count(&table), 2);
    expect_name(&table, 0, 0, "kept", "", 0);
    expect_name(&table, 2, 0, "new", "a.c", 7);
    expect_name(&table, 2, 1, "outer", "a.c", 8);
    assert_int_equal(table.strings_count, 4);  // each once
    ht_site_table_free(&table);
}

static void test_long_names_are_cut(void **unused) {
    (void)unused;
    static char name[3 * HT_NAME_BYTES_MAX];
    const struct ht_location locations[] = {{1, 0}};
    struct ht_site_table table = table_of("", "", locations, 1);
    struct name_builder builder;
    memset(name, 'x', sizeof name - 1);
    assert_true(name_builder_init(&builder));
    name_builder_add(&builder, 0, name, "", 0);
    assert_true(name_builder_give(&builder, &table));
    assert_int_equal(strlen(ht_site_string(&table, table.names[0].function)), HT_NAME_BYTES_MAX);
    assert_int_equal(table.names[0].file, 0);
    name_builder_free(&builder);
    ht_site_table_free(&table);
}

static void test_demangled(void **unused) {
    (void)unused;
    static const char *const names[][2] = {
        {"_ZN4farm4BarnIlE5buildEi", "farm::Barn<long>::build"},
        {"_ZN4core3fmt5Write9write_str17h0123456789abcdefE", "core::fmt::Write::write_str"},
        {"_ZNope", "_ZNope"},
        {"plain", "plain"},
        {"", ""}};
    char text[DEMANGLED_BYTES_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(demangled(names[i][0], text), names[i][1]);
    assert_true(is_mangled("_ZN1aE") && is_mangled("_RNvC1a4main") && !is_mangled("main"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inlined_frames_of_a_program),
        cmocka_unit_test(test_a_file_with_another_build_id_has_no_names),
        cmocka_unit_test(test_build_ids_of_files),
        cmocka_unit_test(test_names_of_generated_code),
        cmocka_unit_test(test_whose_perf_map_it_is),
        cmocka_unit_test(test_new_names_replace_those_of_their_location),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_demangled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
