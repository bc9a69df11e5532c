// SPDX-License-Identifier: Apache-2.0
// Sizes of frames by the .eh_frame tables, against elfutils' reader of the same: all code of the libraries that this program
// has loaded.
#include "unit_support.h"

#include <alloca.h>
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame_size.h"

// Where elfutils says that the frame ends. It has an expression also where the table has a register and an offset.
static struct frame_base expected_base(Dwarf_CFI *cfi, uintptr_t address, uintptr_t bias) {
    struct frame_base base = {FRAME_BASE_UNKNOWN, 0, 0};
    Dwarf_Frame *frame;
    Dwarf_Op *ops;
    size_t count;
    if (!cfi || dwarf_cfi_addrframe(cfi, address - 1 - bias, &frame)) return base;
    if (!dwarf_frame_cfa(frame, &ops, &count) && count == 1) {
        bool is_wide = ops->atom == DW_OP_bregx;
        if (is_wide || (ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31)) {
            base.state = FRAME_BASE_KNOWN;
            base.number = is_wide ? ops->number : (Dwarf_Word)ops->atom - DW_OP_breg0;
            base.offset = is_wide ? ops->number2 : ops->number;
        }
    }
    free(frame);
    return base;
}

struct tally {
    unsigned asked, found, expected;
};

static int compare_module(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr start,
                          void *argument) {
    (void)data;
    (void)name;
    struct tally *tally = argument;
    Dwarf_Addr bias;
    Dwarf_CFI *cfi = dwfl_module_eh_cfi(module, &bias);
    Dwarf_Addr end;
    dwfl_module_info(module, NULL, NULL, &end, NULL, NULL, NULL, NULL);
    uintptr_t step = unit_stride(97);
    for (uintptr_t address = start + 1; cfi && address < end; address += step) {
        struct frame_base base = frame_base(address), told = expected_base(cfi, address, bias);
        uintptr_t size = frame_size(address), expected = told.number == FRAME_STACK_POINTER ? told.offset : 0;
        tally->asked++;
        tally->found += size != 0;
        tally->expected += expected != 0;
        if (size) assert_int_equal(size, expected);
        if (told.state == FRAME_BASE_KNOWN && base.state == FRAME_BASE_KNOWN) {
            assert_int_equal(base.number, told.number);
            assert_int_equal(base.offset, told.offset);
        }
        assert_int_not_equal(base.state, FRAME_BASE_MISSING);
    }
    return DWARF_CB_OK;
}

static void test_all_code_of_libraries(void **unused) {
    (void)unused;
    static char *no_path;
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .debuginfo_path = &no_path};
    struct tally tally = {0};
    Dwfl *dwfl = dwfl_begin(&callbacks);
    assert_non_null(dwfl);
    assert_int_equal(dwfl_linux_proc_report(dwfl, getpid()), 0);
    assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
    dwfl_getmodules(dwfl, compare_module, &tally, 0);
    dwfl_end(dwfl);
    // What it leaves to the unwinder: procedure linkage tables, signal frames.
    assert_true(tally.asked > 10000);
    assert_true(tally.found > tally.expected / 10 * 9);
}

// The address that it returns to, and where its own frame ends.
static __attribute__((noinline)) uintptr_t size_at_caller(uintptr_t *cfa) {
    *cfa = (uintptr_t)__builtin_dwarf_cfa();
    return frame_size((uintptr_t)__builtin_return_address(0));
}

static __attribute__((noinline)) void check_fixed(void) {
    char room[200];
    uintptr_t cfa, size;
    __asm__ volatile("" ::"r"(room) : "memory");
    size = size_at_caller(&cfa);
    // Builds without optimization have a frame pointer, and leave it to the unwinder.
    if (size) assert_int_equal(cfa + size, (uintptr_t)__builtin_dwarf_cfa());
}

static __attribute__((noinline)) void check_varying(size_t bytes) {
    volatile char *room = alloca(bytes);
    uintptr_t cfa;
    room[bytes - 1] = 1;
    assert_int_equal(size_at_caller(&cfa), 0);
}

static void test_frames_of_this_program(void **unused) {
    (void)unused;
    check_fixed();
    for (size_t bytes = 16; bytes < 4096; bytes *= 2) check_varying(bytes);
}

static void test_no_code(void **unused) {
    (void)unused;
    static char data[64];
    assert_int_equal(frame_size((uintptr_t)data), 0);
    assert_int_equal(frame_size(4096), 0);
    assert_int_equal(frame_size(1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_code_of_libraries),
        cmocka_unit_test(test_frames_of_this_program),
        cmocka_unit_test(test_no_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
