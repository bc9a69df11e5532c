// SPDX-License-Identifier: Apache-2.0
// Executes an instruction (of AVX-512) that Valgrind does not know, at the begin of a cache line, and goes on behind it where that
// raises SIGILL.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { INSTRUCTION_BYTES = 6 };

static void go_on(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += INSTRUCTION_BYTES;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = go_on, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    char *block = malloc(100);
    __asm__ volatile("jmp 1f\n.p2align 6\n1: .byte 0x62, 0xf1, 0x7d, 0x48, 0xfe, 0xc0" ::: "xmm0");
    block[0] = 'w';
    printf("%cent on\n", block[0]);
    free(block);
    return 0;
}
