// SPDX-License-Identifier: Apache-2.0
#include "call_kernel.h"

#include <assert.h>

void ht_call_kernel_make(struct ht_call_kernel *kernel, struct ht_random *random) {
    for (uint32_t i = 0; i < HT_KERNEL_CALLS + HT_KERNEL_CLASSES; i++) {
        uint32_t class =
            i < HT_KERNEL_CALLS ? ht_random_below(random, HT_KERNEL_CLASSES) : i - HT_KERNEL_CALLS;
        kernel->block[i].class = class;
        if (i < HT_KERNEL_CALLS) {
            kernel->size[i] = 16 * class + 1;
            kernel->held[i] = &kernel->block[i];
        } else {
            kernel->free[class] = &kernel->block[i];
            kernel->count[class] = 1;
        }
    }
}

void ht_call_kernel_run(struct ht_call_kernel *kernel, uint64_t from, uint64_t to) {
#ifdef __x86_64__
    __asm__ volatile("1: mov (%[size],%[i],8), %%rax\n"
                     "add $15, %%rax\n"
                     "shr $4, %%rax\n"
                     "sub $1, %%rax\n"
                     "cmp $63, %%rax\n"
                     "ja 2f\n"
                     "mov (%[free],%%rax,8), %%rdx\n"
                     "test %%rdx, %%rdx\n"
                     "je 2f\n"
                     "mov (%%rdx), %%rcx\n"
                     "mov %%rcx, (%[free],%%rax,8)\n"
                     "subl $1, (%[count],%%rax,4)\n"
                     "mov (%[held],%[i],8), %%rcx\n"
                     "mov %%rdx, (%[held],%[i],8)\n"
                     "mov 8(%%rcx), %%rax\n"
                     "cmpl $7, (%[count],%%rax,4)\n"
                     "jae 2f\n"
                     "mov (%[free],%%rax,8), %%rdx\n"
                     "mov %%rdx, (%%rcx)\n"
                     "mov %%rcx, (%[free],%%rax,8)\n"
                     "addl $1, (%[count],%%rax,4)\n"
                     "add $1, %[i]\n"
                     "cmp %[to], %[i]\n"
                     "jb 1b\n"
                     "2:\n"
                     : [i] "+r"(from)
                     : [size] "r"(kernel->size), [free] "r"(kernel->free), [count] "r"(kernel->count),
                       [held] "r"(kernel->held), [to] "r"(to)
                     : "rax", "rcx", "rdx", "cc", "memory");
    assert(from == to);  // no list was empty: the instructions are those counted
#else
    (void)kernel, (void)from, (void)to;
#endif
}
