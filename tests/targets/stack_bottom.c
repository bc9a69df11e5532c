// SPDX-License-Identifier: Apache-2.0
// A signal comes where the first thread's stack ends: nothing can be read below its last word in use. The handler, on a stack of
// its own, allocates.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

enum { PAGE_BYTES = 4096, ROUNDS = 20 };

static sigjmp_buf back;
static char *volatile lowest;

static void on_overflow(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static void on_trap(int number) {
    (void)number;
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *volatile block = malloc(10 + i);
        free(block);
    }
}

// Page by page, as the kernel makes the stack longer.
static void find_lowest(void) {
    lowest = (char *)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(PAGE_BYTES - 1));
    if (sigsetjmp(back, 1)) return;
    for (;; lowest -= PAGE_BYTES) (void)*(volatile char *)(lowest - PAGE_BYTES);
}

// Who asks for the frame's address has a frame pointer, by which its caller is found.
static __attribute__((noinline)) void trap_there(void) {
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tint3\n\tmovq %%rbx, %%rsp"
                     :
                     : "r"(lowest), "r"(__builtin_frame_address(0))
                     : "rbx", "memory");
#endif
}

int main(void) {
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction overflow = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
    struct sigaction trap = {.sa_handler = on_trap, .sa_flags = SA_ONSTACK};
    void *volatile block = malloc(10);
    free(block);
    if (sigaltstack(&alternate, NULL) || sigaction(SIGSEGV, &overflow, NULL) ||
        sigaction(SIGTRAP, &trap, NULL))
        return 1;
    find_lowest();
    signal(SIGSEGV, SIG_DFL);
    trap_there();
    return 0;
}
