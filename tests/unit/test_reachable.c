// SPDX-License-Identifier: Apache-2.0
// What is said of a program, by ELF files made here: each telling part alone, then thousands of damaged ones.
#include "unit_support.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "reachable.h"

// A file of fixed layout: header, segments, sections, then one area for each table.
enum { STRINGS = 0x400, DYNAMIC = 0x800, SYMBOLS = 0xa00, NAMES = 0xe00, DATA = 0x1000, FILE_BYTES = 0x1100 };

struct image {
    unsigned char bytes[FILE_BYTES];
    uint32_t strings, section_names;
    unsigned dynamics, symbols, sections;
};

static Elf64_Ehdr *header_of(struct image *image) { return (void *)image->bytes; }
static Elf64_Phdr *segment_of(struct image *image, unsigned i) {
    return (Elf64_Phdr *)(void *)(image->bytes + sizeof(Elf64_Ehdr)) + i;
}
static Elf64_Shdr *section_of(struct image *image, unsigned i) {
    return (Elf64_Shdr *)(void *)(image->bytes + 0x180) + i;
}

static uint32_t put_text(struct image *image, uint32_t area, uint32_t *used, const char *text) {
    uint32_t at = *used;
    strcpy((char *)image->bytes + area + at, text);
    *used += (uint32_t)strlen(text) + 1;
    return at;
}

static Elf64_Shdr *add_section(struct image *image, const char *name, uint32_t type, uint64_t offset,
                               uint64_t bytes) {
    Elf64_Shdr *section = section_of(image, image->sections++);
    *section = (Elf64_Shdr){.sh_name = put_text(image, NAMES, &image->section_names, name),
                            .sh_type = type,
                            .sh_offset = offset,
                            .sh_size = bytes};
    header_of(image)->e_shnum = (uint16_t)image->sections;
    return section;
}

static void add_dynamic(struct image *image, int64_t tag, uint64_t value) {
    Elf64_Dyn *entry = (Elf64_Dyn *)(void *)(image->bytes + DYNAMIC) + image->dynamics++;
    *entry = (Elf64_Dyn){tag, {value}};
}

static void add_needed(struct image *image, const char *library) {
    add_dynamic(image, DT_NEEDED, put_text(image, STRINGS, &image->strings, library));
}

static void add_symbol(struct image *image, const char *name, bool defined) {
    Elf64_Sym *symbol = (Elf64_Sym *)(void *)(image->bytes + SYMBOLS) + image->symbols++;
    *symbol = (Elf64_Sym){.st_name = put_text(image, STRINGS, &image->strings, name),
                          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                          .st_shndx = defined ? 1 : SHN_UNDEF};
}

// A program that asks for a loader, with symbols in a table of that type.
static void begin(struct image *image, const char *loader, uint32_t table_type) {
    *image = (struct image){.strings = 1, .section_names = 1};
    Elf64_Ehdr *header = header_of(image);
    *header = (Elf64_Ehdr){.e_type = ET_DYN,
                           .e_machine = EM_X86_64,
                           .e_phoff = sizeof *header,
                           .e_phentsize = sizeof(Elf64_Phdr),
                           .e_phnum = 3,
                           .e_shoff = 0x180,
                           .e_shentsize = sizeof(Elf64_Shdr)};
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    *segment_of(image, 0) = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = FILE_BYTES};
    *segment_of(image, 1) = (Elf64_Phdr){
        .p_type = PT_DYNAMIC, .p_offset = DYNAMIC, .p_vaddr = 0x10000 + DYNAMIC, .p_filesz = 0x200};
    if (loader)
        *segment_of(image, 2) =
            (Elf64_Phdr){.p_type = PT_INTERP,
                         .p_offset = STRINGS + put_text(image, STRINGS, &image->strings, loader),
                         .p_filesz = strlen(loader) + 1};
    add_section(image, "", SHT_NULL, 0, 0);
    add_section(image, ".shstrtab", SHT_STRTAB, NAMES, 0x200);
    add_section(image, ".dynstr", SHT_STRTAB, STRINGS, 0x400);
    add_section(image, ".symbols", table_type, SYMBOLS, 0x400)->sh_link = 2;
    header->e_shstrndx = 1;
    add_dynamic(image, DT_STRTAB, 0x10000 + STRINGS);
    add_dynamic(image, DT_STRSZ, 0x400);
}

static const char glibc_loader[] = "/lib64/ld-linux-x86-64.so.2";

static void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

// The shim of these tests: for x86-64 and glibc.
static void write_library(char path[256]) {
    struct image image;
    begin(&image, NULL, SHT_DYNSYM);
    add_needed(&image, "libc.so.6");
    write_file(unit_path(path, "shim"), image.bytes, FILE_BYTES);
}

static void judge(struct reach *reach, const void *bytes, size_t count) {
    char program[256], library[256];
    write_library(library);
    write_file(unit_path(program, "program"), bytes, count);
    reach_of(reach, (char *[]){program, NULL}, library);
    assert_string_equal(reach->program, program);
    unlink(program);
    unlink(library);
}

static void expect(struct image *image, enum reach_level level, const char *words) {
    struct reach reach;
    judge(&reach, image->bytes, FILE_BYTES);
    assert_int_equal(reach.level, level);
    if (*words) assert_non_null(strstr(reach.why, words));
    else assert_string_equal(reach.why, "");
}

static void test_plain_program(void **state) {
    (void)state;
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_needed(&image, "libjemalloc.so.2");
    add_symbol(&image, "malloc", false);
    add_symbol(&image, "mallctl", false);
    add_symbol(&image, "main", true);
    expect(&image, REACH_FULL, "");
    add_symbol(&image, "jemalloc_purge", true);  // Redis'
    struct reach reach;
    judge(&reach, image.bytes, FILE_BYTES);
    assert_int_equal(reach.level, REACH_FULL);
    assert_string_equal(reach.loads, "jemalloc");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "jemalloc_purge", true);
    expect(&image, REACH_PARTLY, "has jemalloc linked in");
}

static void test_loading(void **state) {
    (void)state;
    struct image image;
    begin(&image, NULL, SHT_DYNSYM);
    expect(&image, REACH_NONE, "statically linked");
    add_dynamic(&image, DT_SONAME, put_text(&image, STRINGS, &image.strings, "ld-linux-x86-64.so.2"));
    add_symbol(&image, "malloc", true);
    add_symbol(&image, "free", true);
    expect(&image, REACH_FULL, "");
    begin(&image, "/lib/ld-musl-x86_64.so.1", SHT_DYNSYM);
    expect(&image, REACH_NONE, "is built for musl; this shim for glibc");
    begin(&image, glibc_loader, SHT_DYNSYM);
    header_of(&image)->e_machine = EM_AARCH64;
    expect(&image, REACH_NONE, "is built for aarch64; this shim for x86-64");
    header_of(&image)->e_machine = EM_386;
    header_of(&image)->e_ident[EI_CLASS] = ELFCLASS32;
    expect(&image, REACH_NONE, "is built for 32-bit x86");
}

static void test_own_malloc(void **state) {
    (void)state;
    static const char *const telltale[][2] = {
        {"mallctl", "jemalloc"}, {"tc_malloc", "tcmalloc"}, {"mi_malloc", "mimalloc"}};
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "malloc", true);
    expect(&image, REACH_FULL, "");  // half an allocator is none
    add_symbol(&image, "free", true);
    expect(&image, REACH_NONE, "has a malloc of its own linked in");
    for (unsigned i = 0; i < 3; i++) {
        begin(&image, glibc_loader, SHT_DYNSYM);
        add_symbol(&image, "malloc", true);
        add_symbol(&image, "free", true);
        add_symbol(&image, telltale[i][0], true);
        expect(&image, REACH_NONE, telltale[i][1]);
        begin(&image, glibc_loader, SHT_SYMTAB);
        add_symbol(&image, telltale[i][0], true);
        expect(&image, REACH_PARTLY, telltale[i][1]);
    }
    begin(&image, glibc_loader, SHT_SYMTAB);
    add_symbol(&image, "malloc", true);
    add_symbol(&image, "free", true);
    expect(&image, REACH_PARTLY, "only its libraries' calls");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_section(&image, ".rodata", SHT_PROGBITS, DATA, 0x100);
    strcpy((char *)image.bytes + DATA + 7, "<jemalloc>: out of memory");
    expect(&image, REACH_PARTLY, "jemalloc");
}

// The text by which a program finds the recorder: it hands its calls over, whatever allocator is linked in.
static void test_calls_that_are_handed_over(void **state) {
    (void)state;
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "malloc", true);
    add_symbol(&image, "free", true);
    add_section(&image, ".rodata", SHT_PROGBITS, DATA, 0x100);
    expect(&image, REACH_NONE, "heaptape/recorder.h hands its calls to the recorder");
    strcpy((char *)image.bytes + DATA + 7, "heaptape_recorder");
    expect(&image, REACH_FULL, "");
}

static void test_rust(void **state) {
    (void)state;
    static const char *const own[] = {"__rust_alloc", "_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc"};
    struct image image;
    for (unsigned i = 0; i < 2; i++) {
        begin(&image, glibc_loader, SHT_SYMTAB);
        add_symbol(&image, "_rjem_malloc", true);
        add_symbol(&image, own[i], true);
        expect(&image, REACH_PARTLY,
               "has jemalloc linked in, whose calls no preloaded library sees: they are not recorded "
               "(the crate heaptape-alloc hands its calls to the recorder)");
        begin(&image, glibc_loader, SHT_SYMTAB);
        add_symbol(&image, own[i], true);
        expect(&image, REACH_PARTLY, "has a #[global_allocator] of its own");
    }
    begin(&image, glibc_loader, SHT_SYMTAB);
    add_symbol(&image, "my__rust_alloc", true);
    expect(&image, REACH_FULL, "");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_section(&image, ".rodata", SHT_PROGBITS, DATA, 0x100);
    strcpy((char *)image.bytes + DATA + 7, "<jemalloc>: out of memory");
    strcpy((char *)image.bytes + DATA + 0x50,
           "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src");
    expect(&image, REACH_PARTLY,
           "has jemalloc linked in, whose calls no preloaded library sees: they are not recorded "
           "(the crate heaptape-alloc");
}

// Whatever of it the linker has left.
static void test_any_symbol_of_an_allocator(void **state) {
    (void)state;
    static const char *const telltale[][2] = {
        {"mi_malloc_aligned", "mimalloc"},
        {"mi_free", "mimalloc"},
        {"mi_heap_collect", "mimalloc"},
        {"_rjem_sdallocx", "jemalloc"},
        {"je_arena_boot", "jemalloc"},
        {"jemalloc_constructor", "jemalloc"},
        {"sn_rust_dealloc", "snmalloc"},
        {"rpaligned_alloc", "rpmalloc"},
        {"rpmalloc_initialize", "rpmalloc"},
        {"tc_deletearray", "tcmalloc"},
        {"_ZN8tcmalloc10CentralFreeList4InitEv", "tcmalloc"},
        {"_ZN5scudo9AllocatorE", "scudo"},
        {"_ZN14partition_alloc13PartitionRoot4InitEv", "PartitionAlloc"},
        {"GC_malloc_atomic", "Boehm"},
        {"scalable_free", "tbbmalloc"},
        {"h_malloc_usable_size", "hardened_malloc"}};
    static const char *const others[] = {
        "mi_open", "mi_create", "_mi_read_cache", "je",       "je_ne_sais_quoi", "free_tc_new",
        "rp",      "GC",        "scudo",          "my_malloc"};
    struct image image;
    for (unsigned i = 0; i < sizeof telltale / sizeof *telltale; i++) {
        begin(&image, glibc_loader, SHT_SYMTAB);
        add_symbol(&image, telltale[i][0], true);
        expect(&image, REACH_PARTLY, telltale[i][1]);
        begin(&image, glibc_loader, SHT_DYNSYM);
        add_symbol(&image, telltale[i][0], false);  // a library's, where all is seen
        expect(&image, REACH_FULL, "");
    }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        begin(&image, glibc_loader, SHT_SYMTAB);
        add_symbol(&image, others[i], true);
        expect(&image, REACH_FULL, "");
    }
}

static void test_sanitizers_and_runtimes(void **state) {
    (void)state;
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_needed(&image, "libtsan.so.2");
    expect(&image, REACH_NONE, "thread sanitizer");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "__asan_init", false);
    expect(&image, REACH_FULL, "");
    add_symbol(&image, "__asan_init", true);
    expect(&image, REACH_NONE, "address sanitizer");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_needed(&image, "libjli.so");
    expect(&image, REACH_PARTLY, "Java");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "_ZN2v87Isolate3NewERKNS0_12CreateParamsE", true);
    expect(&image, REACH_PARTLY, "V8");
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_section(&image, ".go.buildinfo", SHT_PROGBITS, DATA, 0x10);
    expect(&image, REACH_PARTLY, "Go");
}

static void test_runtime_that_hands_over(void **state) {
    (void)state;
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_symbol(&image, "PyObject_Malloc", true);
    unsetenv("PYTHONMALLOC");
    expect(&image, REACH_PARTLY, "PYTHONMALLOC=malloc");
    setenv("PYTHONMALLOC", "pymalloc", 1);
    expect(&image, REACH_PARTLY, "PYTHONMALLOC=malloc");
    setenv("PYTHONMALLOC", "malloc", 1);
    expect(&image, REACH_FULL, "");
    unsetenv("PYTHONMALLOC");
}

static void judge_script(const char *first_line, struct image *interpreter, enum reach_level level,
                         const char *words) {
    char path[256], line[600];
    struct reach reach;
    write_file(unit_path(path, "interpreter"), interpreter->bytes, FILE_BYTES);
    int length = snprintf(line, sizeof line, first_line, path);
    judge(&reach, line, (size_t)length);
    unlink(path);
    assert_int_equal(reach.level, level);
    if (*words) assert_non_null(strstr(reach.why, words));
    else assert_string_equal(reach.why, "");
}

static void test_scripts(void **state) {
    (void)state;
    struct image image;
    begin(&image, glibc_loader, SHT_DYNSYM);
    add_needed(&image, "libasan.so.8");
    judge_script("#!%s\n", &image, REACH_NONE, "is run by ");
    judge_script("#! \t%s -x\necho\n", &image, REACH_NONE, "which is built with the address sanitizer");
    judge_script("#!/usr/bin/env %s\n", &image, REACH_NONE, "which is built with the address sanitizer");
    judge_script("#!/usr/bin/env -S A=1 -u B %s -x\r\n", &image, REACH_NONE, "address sanitizer");
    judge_script("#!/usr/bin/env -i\n#%s", &image, REACH_FULL, "");
    judge_script("#!\n#%s", &image, REACH_FULL, "");
    judge_script("#! /no/such/interpreter%s\n", &image, REACH_FULL, "");
    begin(&image, NULL, SHT_DYNSYM);
    judge_script("#!%s\n", &image, REACH_PARTLY, "only the programs that it starts");
}

static void test_script_that_interprets_itself(void **state) {
    (void)state;
    char path[256], line[300];
    struct reach reach;
    int length = snprintf(line, sizeof line, "#!%s\n", unit_path(path, "program"));
    judge(&reach, line, (size_t)length);
    assert_int_equal(reach.level, REACH_FULL);
}

// A shell that becomes a program at once is that program; whatever the shell has to read more closely stays the shell.
static void test_exec_of_a_shell(void **state) {
    (void)state;
    static const struct {
        const char *words[4];
        const char *program;
    } cases[] = {
        {{"sh", "-c", "exec /bin/true --option"}, "/bin/true"},
        {{"/bin/sh", "-c", " exec  /bin/true"}, "/bin/true"},
        {{"sh", "-c", "exec /bin/true\n"}, "/bin/true"},
        {{"sh", "-c", "exec /bin/t*e"}, "sh"},
        {{"sh", "-c", "exec \"/bin/true\""}, "sh"},
        {{"sh", "-c", "exec -a name /bin/true"}, "sh"},
        {{"sh", "-c", "exec A=1"}, "sh"},
        {{"sh", "-c", "exec "}, "sh"},
        {{"sh", "-c", "exec /bin/true;"}, "sh"},
        {{"sh", "-c", "execute /bin/true"}, "sh"},
        {{"sh", "-c"}, "sh"},
        {{"sh", "-e", "exec /bin/true"}, "sh"},
        {{"/bin/echo", "-c", "exec /bin/true"}, "/bin/echo"},
    };
    char library[256];
    write_library(library);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reach reach;
        reach_of(&reach, (char *const *)(uintptr_t)cases[i].words, library);
        const char *slash = strrchr(reach.program, '/');
        assert_string_equal(*cases[i].program == '/' ? reach.program : slash + 1, cases[i].program);
    }
    unlink(library);
}

static void test_absent_programs(void **state) {
    (void)state;
    struct reach reach;
    char library[256];
    write_library(library);
    const char *const names[] = {"", "/", "/dev/null", "no-such-program-anywhere", "/no/such/program", "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        reach_of(&reach, (char *[]){(char *)(uintptr_t)names[i], NULL}, library);
        assert_int_equal(reach.level, REACH_FULL);
    }
    char self[] = "/proc/self/exe";
    reach_of(&reach, (char *[]){self, NULL}, "/no/such/library");
    assert_int_equal(reach.level, REACH_FULL);
    unlink(library);
}

// Any answer is right, as long as there is one.
static void test_damaged_files(void **state) {
    (void)state;
    static const uint64_t telling[] = {0,          1,          7,          UINT32_MAX,     UINT64_MAX,
                                       FILE_BYTES, 0xffff,     1ull << 63, UINT64_MAX - 7, FILE_BYTES - 1,
                                       0x10000,    1ull << 40, 0x400};
    uint64_t random = 11;
    struct reach reach;
    for (unsigned round = 0; round < 3000; round++) {
        struct image image;
        begin(&image, glibc_loader, round % 2 ? SHT_DYNSYM : SHT_SYMTAB);
        add_needed(&image, "libm.so.6");
        add_symbol(&image, "je_malloc", true);
        for (unsigned damage = 0; damage < 1 + round % 6; damage++) {
            // The headers and tables are where it hurts; the first six bytes only say what the file is.
            uint64_t at = 6 + unit_random(&random) % (DATA - 14);
            uint64_t value =
                unit_random(&random) % 2 ? unit_random_width(&random) : telling[unit_random(&random) % 13];
            memcpy(image.bytes + (at < 0x400 ? at / 4 * 4 + 4 : at), &value, 1u << unit_random(&random) % 4);
        }
        judge(&reach, image.bytes, round % 3 ? FILE_BYTES : unit_random(&random) % FILE_BYTES);
        assert_true(reach.level <= REACH_NONE && strlen(reach.why) < sizeof reach.why);
        assert_true((reach.level == REACH_FULL) == !*reach.why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_program),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_own_malloc),
        cmocka_unit_test(test_calls_that_are_handed_over),
        cmocka_unit_test(test_rust),
        cmocka_unit_test(test_any_symbol_of_an_allocator),
        cmocka_unit_test(test_sanitizers_and_runtimes),
        cmocka_unit_test(test_runtime_that_hands_over),
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_script_that_interprets_itself),
        cmocka_unit_test(test_exec_of_a_shell),
        cmocka_unit_test(test_absent_programs),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
