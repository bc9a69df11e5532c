// SPDX-License-Identifier: Apache-2.0
// Beginnings of functions, moved and read again: of real libraries and of this program, and some planted ones.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"
#include "hook_plan.h"
#include "linked_code.h"
#include "unit_support.h"

#ifdef HEAPTAPE_ZYDIS
#include <Zydis/Zydis.h>

enum { DISTANCE = 0x123450, SHIFT = 0x40000 };

struct instruction {
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t at;
};

static struct instruction read_at(const uint8_t *code, size_t bytes, uint64_t at) {
    struct instruction instruction = {.at = at};
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    assert_true(ZYAN_SUCCESS(
        ZydisDecoderDecodeFull(&decoder, code, bytes, &instruction.decoded, instruction.operand)));
    return instruction;
}

// What it refers to, relative to itself; 0 if to nothing.
static uint64_t target(const struct instruction *instruction) {
    uint64_t address = 0;
    for (unsigned i = 0; i < instruction->decoded.operand_count_visible; i++)
        if (ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&instruction->decoded, &instruction->operand[i],
                                                  instruction->at, &address)) &&
            (instruction->operand[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ||
             instruction->operand[i].mem.base == ZYDIS_REGISTER_RIP))
            return address;
    return 0;
}

// Reads the moved code along with the original one.
struct reading {
    const struct moved_code *moved;
    uint64_t to;
    unsigned at;
};

static struct instruction next_moved(struct reading *reading) {
    struct instruction instruction = read_at(reading->moved->bytes + reading->at,
                                             reading->moved->length - reading->at, reading->to + reading->at);
    reading->at += instruction.decoded.length;
    return instruction;
}

static void expect_push_of(struct reading *reading, uint64_t address) {
    struct instruction push = next_moved(reading), load = next_moved(reading), exchange = next_moved(reading);
    assert_int_equal(push.decoded.mnemonic, ZYDIS_MNEMONIC_PUSH);
    assert_int_equal(push.operand[0].reg.value, ZYDIS_REGISTER_RAX);
    assert_int_equal(load.decoded.mnemonic, ZYDIS_MNEMONIC_LEA);
    assert_int_equal(load.operand[0].reg.value, ZYDIS_REGISTER_RAX);
    assert_int_equal(target(&load), address);
    assert_int_equal(exchange.decoded.mnemonic, ZYDIS_MNEMONIC_XCHG);
    assert_int_equal(exchange.operand[0].mem.base, ZYDIS_REGISTER_RSP);
    assert_int_equal(exchange.operand[1].reg.value, ZYDIS_REGISTER_RAX);
}

static void expect_same(struct reading *reading, const uint8_t *code, const struct instruction *original) {
    bool calls = original->decoded.mnemonic == ZYDIS_MNEMONIC_CALL;
    if (calls) expect_push_of(reading, original->at + original->decoded.length);
    unsigned begin = reading->at;
    struct instruction moved = next_moved(reading);
    assert_int_equal(moved.decoded.mnemonic, calls ? ZYDIS_MNEMONIC_JMP : original->decoded.mnemonic);
    assert_int_equal(target(&moved), target(original));
    if (!target(original)) assert_memory_equal(reading->moved->bytes + begin, code, original->decoded.length);
    else if (!calls && original->operand[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
        assert_int_equal(moved.decoded.operand_count, original->decoded.operand_count);
}

static void check_moved(const struct moved_code *moved, const uint8_t *code, size_t bytes, uint64_t from,
                        uint64_t to) {
    struct reading reading = {moved, to, 0};
    struct instruction original = {0};
    unsigned at = moved->patch;
    assert_true(moved->end - moved->patch >= HT_HOOK_PATCH_BYTES && moved->end <= bytes);
    for (; at < moved->end; at += original.decoded.length) {
        original = read_at(code + at, bytes - at, from + at);
        expect_same(&reading, code + at, &original);
    }
    assert_int_equal(at, moved->end);
    if (reading.at == moved->length) return;  // the last instruction leads away
    struct instruction back = next_moved(&reading);
    assert_int_equal(back.decoded.mnemonic, ZYDIS_MNEMONIC_JMP);
    assert_int_equal(target(&back), from + at);
    assert_int_equal(reading.at, moved->length);
}

// As the preloaded library adjusts it to another place.
static void check_shifted(struct moved_code moved, const uint8_t *code, size_t bytes, uint64_t from,
                          uint64_t to) {
    for (unsigned i = 0; i < moved.fields; i++) {
        int32_t field;
        memcpy(&field, moved.bytes + moved.field[i], sizeof field);
        field += SHIFT;
        memcpy(moved.bytes + moved.field[i], &field, sizeof field);
    }
    check_moved(&moved, code, bytes, from, to - SHIFT);
}

struct tally {
    const struct elf_file *elf;
    unsigned moved, refused, short_ones;
};

static void try_function(void *context, const struct elf_function *function) {
    struct tally *tally = context;
    struct moved_code moved;
    uint8_t *code = function->bytes < 1 << 20
                        ? elf_file_at_address(tally->elf, function->address, function->bytes)
                        : NULL;
    if (!code) return;
    const char *why =
        moved_code(&moved, code, function->bytes, function->address, function->address - DISTANCE);
    if (!why) {
        check_moved(&moved, code, function->bytes, function->address, function->address - DISTANCE);
        check_shifted(moved, code, function->bytes, function->address, function->address - DISTANCE);
    }
    tally->moved += !why;
    tally->refused += why && strcmp(why, "is too short") != 0;
    tally->short_ones += why && !strcmp(why, "is too short");
    free(code);
}

static struct tally try_file(const char *path) {
    struct elf_file elf;
    struct tally tally = {.elf = &elf};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tally;
    if (elf_file_open(&elf, fd)) {
        elf_file_each_function(&elf, SHT_SYMTAB, try_function, &tally);
        elf_file_each_function(&elf, SHT_DYNSYM, try_function, &tally);
    }
    elf_file_close(&elf);
    close(fd);
    return tally;
}

static void test_real_functions(void **state) {
    (void)state;
    static const char *const libraries[] = {
        "libc.so.6",      "libm.so.6",     "libjemalloc.so.2", "libmimalloc.so", "libtcmalloc_minimal.so.4",
        "libstdc++.so.6", "libcrypto.so.3"};
    unsigned moved = 0, refused = 0, too_short = 0;
    Dl_info libc;
    assert_true(dladdr((void *)(uintptr_t)&strlen, &libc));
    for (size_t i = 0; i <= sizeof libraries / sizeof *libraries; i++) {
        char path[PATH_MAX] = "/proc/self/exe";
        if (i < sizeof libraries / sizeof *libraries)
            snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(libc.dli_fname, '/') - libc.dli_fname),
                     libc.dli_fname, libraries[i]);
        struct tally tally = try_file(path);
        print_message("%s: %u moved, %u refused, %u too short\n", path, tally.moved, tally.refused,
                      tally.short_ones);
        moved += tally.moved;
        refused += tally.refused;
        too_short += tally.short_ones;
    }
    assert_true(moved > 3000);
    assert_true(refused < moved / 20 && too_short < moved / 4);
}

#define CODE(...)                                                                                            \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) { __VA_ARGS__ }

static void expect(const uint8_t *code, size_t bytes, const char *why) {
    struct moved_code moved;
    const char *got = moved_code(&moved, code, bytes, 0x10000, 0x8000);
    if (why) {
        assert_non_null(got);
        assert_string_equal(got, why);
    } else {
        if (got) fail_msg("%s", got);
        check_moved(&moved, code, bytes, 0x10000, 0x8000);
    }
}

static void test_planted_functions(void **state) {
    (void)state;
    static const char in_place[] = "begins with an instruction that works in its place only",
                      back[] = "jumps back to its beginning", too_short[] = "is too short",
                      nonsense[] = "has bytes that are no instructions";
    expect(CODE(0xc3), too_short);
    expect(CODE(0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90), too_short);   // what lies behind is another's
    expect(CODE(0xeb, 0x10, 0x90, 0x90, 0x90), too_short);         // jmp
    expect(CODE(0xf3, 0x0f, 0x1e, 0xfa, 0xc3), too_short);         // endbr64; ret
    expect(CODE(0x31, 0xc0, 0xff, 0xc0, 0xeb, 0xfc, 0xc3), back);  // a loop
    expect(CODE(0x48, 0x85, 0xff, 0x48, 0x85, 0xff, 0x75, 0xf8, 0xc3), back);  // to the entry
    expect(CODE(0x74, 0x01, 0x90, 0x48, 0x89, 0xf8, 0xc3), back);              // into what is displaced
    expect(CODE(0xe3, 0x10, 0x48, 0x89, 0xf8, 0xc3), in_place);                // jrcxz
    expect(CODE(0xe2, 0x10, 0x48, 0x89, 0xf8, 0xc3), in_place);                // loop
    expect(CODE(0xff, 0xd0, 0x48, 0x89, 0xf8, 0xc3), in_place);                // call *%rax
    expect(CODE(0x06, 0x48, 0x89, 0xf8, 0xc3, 0x90), nonsense);                // none in 64 bits
    expect(CODE(0x48, 0x89, 0xf8, 0x48, 0x89, 0xf8, 0x06), nonsense);          // behind the beginning
    expect(CODE(0xe8, 0, 1, 0, 0), NULL);                                      // call
    expect(CODE(0xe9, 0, 1, 0, 0), NULL);                                      // jmp
    expect(CODE(0xff, 0x25, 0, 1, 0, 0), NULL);                                // jmp *0x100(%rip)
    expect(CODE(0x48, 0x83, 0xec, 0x08, 0xff, 0x15, 0, 1, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3), NULL);
    expect(CODE(0x74, 0x20, 0x75, 0x20, 0x53, 0x5b, 0xc3), NULL);              // two short jumps
    expect(CODE(0x83, 0x3d, 0, 1, 0, 0, 0x05, 0xc3), NULL);                    // cmpl $5, 0x100(%rip)
    expect(CODE(0xc7, 0x05, 0, 1, 0, 0, 1, 2, 3, 4, 0xc3), NULL);              // movl $…, 0x100(%rip)
    expect(CODE(0xc5, 0xfa, 0x6f, 0x05, 0, 1, 0, 0, 0xc3), NULL);              // vmovdqu 0x100(%rip), %xmm0
    expect(CODE(0x62, 0xf1, 0x7e, 0x48, 0x6f, 0x05, 0, 1, 0, 0, 0xc3), NULL);  // with 512 bits
    expect(CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x8b, 0x05, 0, 1, 0, 0, 0xc3), NULL);  // endbr64
    expect(CODE(0x48, 0x89, 0xf8, 0x31, 0xc9, 0xe8, 0xf6, 0xff, 0xff, 0xff, 0xc3), NULL);  // calls itself
    expect(CODE(0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xc3), NULL);                    // %fs:0
}

static void test_too_far(void **state) {
    (void)state;
    struct moved_code moved;
    static const uint8_t load[] = {0x8b, 0x05, 0, 1, 0, 0, 0xc3};
    assert_string_equal(moved_code(&moved, load, sizeof load, 0x10000, UINT64_C(0x200000000)),
                        "refers to what is too far away");
}

static void test_functions_that_are_jumps(void **state) {
    (void)state;
    uint64_t to;
    assert_true(moved_code_is_jump(CODE(0xeb, 0x10), 0x10000, &to));
    assert_int_equal(to, 0x10012);
    assert_true(moved_code_is_jump(CODE(0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0xf7, 0xff, 0xff, 0xff), 0x10000, &to));
    assert_int_equal(to, 0x10000);
    assert_false(moved_code_is_jump(CODE(0xe8, 0, 1, 0, 0), 0x10000, &to));
    assert_false(moved_code_is_jump(CODE(0xff, 0x25, 0, 1, 0, 0), 0x10000, &to));
    assert_false(moved_code_is_jump(CODE(0x74, 0x10), 0x10000, &to));
}

#endif

int main(void) {
#ifdef HEAPTAPE_ZYDIS
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_functions), cmocka_unit_test(test_planted_functions),
        cmocka_unit_test(test_too_far), cmocka_unit_test(test_functions_that_are_jumps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 77;
#endif
}
