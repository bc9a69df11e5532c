// SPDX-License-Identifier: Apache-2.0
#include "call_on_stack.h"

#ifdef __x86_64__
// rbx, which the function preserves, is where the unwinder finds the caller's stack.
__asm__(".text\n"
        ".globl call_on_stack\n"
        ".hidden call_on_stack\n"
        ".type call_on_stack, @function\n"
        "call_on_stack:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbx, -16\n"
        "mov %rsp, %rbx\n"
        ".cfi_def_cfa_register %rbx\n"
        "mov %rdx, %rsp\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        "mov %rbx, %rsp\n"
        ".cfi_def_cfa_register %rsp\n"
        "pop %rbx\n"
        ".cfi_restore %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_on_stack, . - call_on_stack\n");
#else
// Call sites, for which this is, are recorded on x86-64 only.
void call_on_stack(void (*function)(void *), void *argument, void *top) {
    (void)top;
    function(argument);
}
#endif
