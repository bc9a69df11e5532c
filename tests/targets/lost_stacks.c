// SPDX-License-Identifier: Apache-2.0
// Stacks of which no unwinder finds the end:
//     lost_stacks nowhere|beyond|untold|round
// nowhere: a coroutine's first function never returns, and what lies where its return address would be is no address.
// beyond: code changes the stack, by instructions that no table tells of. What passes for the caller's frame lies beyond the new
// stack, where there is no memory.
// untold: the table of code that was made at run time says who handles its exceptions, but not where its frame ends. LuaJIT's does.
// round: a coroutine's first frame is its own caller.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "target_support.h"

extern void __register_frame(void *begin);

enum { STACK_BYTES = 64 << 10, PAGE_BYTES = 4096, ROUNDS = 300 };

static __attribute__((noinline)) void allocate(void) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *volatile block = malloc(10 + i % 3);
        free(block);
    }
    __asm__ volatile("");
}

static char *map_stack(void) {
    char *at =
        mmap(NULL, STACK_BYTES + PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + STACK_BYTES, PAGE_BYTES, PROT_NONE)) target_fail("no stack");
    return at + STACK_BYTES;
}

// In a coroutine, as if it had been called from the address at the top of a stack.
static __attribute__((noinline)) void run_from(uintptr_t *top, uintptr_t *frame) {
#if defined(__x86_64__)
    __asm__ volatile("pushq %%rbp\n\tmovq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tmovq %1, %%rbp\n\t"
                     "leaq 1f(%%rip), %%r12\n\tjmp in_coroutine\n1:\n\tmovq %%rbx, %%rsp\n\tpopq %%rbp"
                     : "+a"(top), "+c"(frame)
                     :
                     : "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
#else
    (void)top;
    (void)frame;
#endif
}

static void run_nowhere(void) {
    uintptr_t *top = (uintptr_t *)map_stack() - 9;
    *top = UINT64_C(0xdeaddeaddeaddead);
    run_from(top, NULL);
}

#if defined(__x86_64__)
// A function with a frame pointer, whose call returns to `behind_call`.
extern const char behind_call[];
__asm__(".text\n\t.cfi_startproc\n\tpushq %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset 6, -16\n\t"
        "movq %rsp, %rbp\n\t.cfi_def_cfa_register 6\n\tcall abort\nbehind_call:\n\tnop\n\t.cfi_endproc");
#endif

static void run_round(void) {
#if defined(__x86_64__)
    uintptr_t *top = (uintptr_t *)map_stack() - 9, *frame = top + 2;
    top[0] = frame[1] = (uintptr_t)behind_call;
    frame[0] = (uintptr_t)frame;
    run_from(top, frame);
#endif
}

// It leaves by a jump.
void in_coroutine(void);
__attribute__((used)) void in_coroutine(void) {
    allocate();
#if defined(__x86_64__)
    __asm__ volatile("jmpq *%%r12" ::: "memory");
#endif
}

static __attribute__((noinline)) void run_beyond(void) {
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp"
                     :
                     : "r"(map_stack()), "r"(allocate)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
#endif
}

static void *make_code(void) {
    // sub $8, %rsp; mov $10, %edi; mov $malloc, %rax; call *%rax; add $8, %rsp; ret
    static const uint8_t before[] = {0x48, 0x83, 0xec, 8, 0xbf, 10, 0, 0, 0, 0x48, 0xb8},
                         behind[] = {0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
    void *(*function)(size_t) = malloc;
    uint8_t *code = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) target_fail("no memory");
    memcpy(code, before, sizeof before);
    memcpy(code + sizeof before, &function, sizeof function);
    memcpy(code + sizeof before + sizeof function, behind, sizeof behind);
    if (mprotect(code, PAGE_BYTES, PROT_READ | PROT_EXEC)) target_fail("cannot execute it");
    return code;
}

// A section .eh_frame of one function, with absolute addresses and without instructions, and the zero that ends it.
static void describe(const void *code) {
    static const uint8_t common[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0, 0, 0};
    static struct {
        uint32_t common_bytes, zero;
        uint8_t common[sizeof common];
        uint32_t bytes, back;
        uint64_t start, length;
        uint32_t rest, end;
    } __attribute__((packed)) frames = {.common_bytes = 4 + sizeof common, .bytes = 4 + 8 + 8 + 4};
    memcpy(frames.common, common, sizeof common);
    frames.back = (uint32_t)((char *)&frames.back - (char *)&frames);
    frames.start = (uintptr_t)code;
    frames.length = PAGE_BYTES;
    __register_frame(&frames);
}

static void run_untold(void) {
#if defined(__x86_64__)
    void *code = make_code(), *(*function)(void);
    describe(code);
    memcpy(&function, &code, sizeof function);
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *volatile block = function();
        free(block);
    }
#endif
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "nowhere")) run_nowhere();
    else if (!strcmp(argv[1], "beyond")) run_beyond();
    else if (!strcmp(argv[1], "untold")) run_untold();
    else run_round();
    return 0;
}
