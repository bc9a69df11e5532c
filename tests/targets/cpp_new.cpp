// SPDX-License-Identifier: Apache-2.0
// Every form of operator new and delete, a size of its own for each. Usage: cpp_new COUNTS [ROUNDS]
#include <new>

#include "target_support.h"

namespace {
// Multiples of 128, so that no library rounds an aligned request up to another size.
enum Size : size_t {
    PLAIN = 7040,
    ARRAY = 7168,
    NOTHROW = 7296,
    NOTHROW_ARRAY = 7424,
    ALIGNED = 7552,
    ALIGNED_ARRAY = 7680,
    ALIGNED_NOTHROW = 7808,
    ALIGNED_NOTHROW_ARRAY = 7936,
};
constexpr std::align_val_t alignment{128};

void *counted(void *block, size_t size) {
    if (!block) target_fail("operator new returned nothing");
    if (size >= ALIGNED && reinterpret_cast<uintptr_t>(block) % 128) target_fail("not aligned");
    *static_cast<volatile char *>(block) = 1;
    tally_count(size);
    return block;
}

void one_of_each(size_t plain, size_t array) {
    operator delete(counted(operator new(plain), plain));
    operator delete(counted(operator new(plain), plain), plain);
    operator delete[](counted(operator new[](array), array));
    operator delete[](counted(operator new[](array), array), array);
}

void one_of_each_nothrow() {
    void *block = operator new(NOTHROW, std::nothrow);
    operator delete(counted(block, NOTHROW), std::nothrow);
    block = operator new[](NOTHROW_ARRAY, std::nothrow);
    operator delete[](counted(block, NOTHROW_ARRAY), std::nothrow);
}

void one_of_each_aligned() {
    operator delete(counted(operator new(ALIGNED, alignment), ALIGNED), alignment);
    operator delete(counted(operator new(ALIGNED, alignment), ALIGNED), ALIGNED, alignment);
    operator delete[](counted(operator new[](ALIGNED_ARRAY, alignment), ALIGNED_ARRAY), alignment);
    operator delete[](counted(operator new[](ALIGNED_ARRAY, alignment), ALIGNED_ARRAY), size_t{ALIGNED_ARRAY},
                      alignment);
    void *block = operator new(ALIGNED_NOTHROW, alignment, std::nothrow);
    operator delete(counted(block, ALIGNED_NOTHROW), alignment, std::nothrow);
    block = operator new[](ALIGNED_NOTHROW_ARRAY, alignment, std::nothrow);
    operator delete[](counted(block, ALIGNED_NOTHROW_ARRAY), alignment, std::nothrow);
}

// The nothrow form answers nullptr, the throwing one throws; both through volatile, so that the
// compiler can't decide them beforehand.
void must_fail() {
    volatile size_t huge = SIZE_MAX / 2;
    if (operator new(huge, std::nothrow)) target_fail("a huge new succeeded");
#ifndef OWN_MIMALLOC  // compiled as C it cannot throw, and aborts
    try {
        operator delete(operator new(huge));
        target_fail("a huge new did not throw");
    } catch (const std::bad_alloc &) {
    }
#endif
}

void *reserve;

void give_up_reserve() {
    operator delete(reserve);
    std::set_new_handler(nullptr);
}

// A handler that frees what was kept for hard times, from within operator new.
void must_fail_with_a_handler() {
    reserve = counted(operator new(PLAIN), PLAIN);
    std::set_new_handler(give_up_reserve);
    must_fail();
    std::set_new_handler(nullptr);
    for (int i = 0; i < 10; i++) operator delete(counted(operator new(PLAIN), PLAIN));
}
}  // namespace

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : nullptr);
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    for (int i = 0; i < rounds; i++) {
        one_of_each(PLAIN, ARRAY);
        one_of_each_nothrow();
        one_of_each_aligned();
    }
    must_fail();
    must_fail_with_a_handler();
    return 16;
}
