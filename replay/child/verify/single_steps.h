// SPDX-License-Identifier: Apache-2.0
// A signal behind each instruction: SIGTRAP, from begin_steps() on.
#ifndef HEAPTAPE_SINGLE_STEPS_H
#define HEAPTAPE_SINGLE_STEPS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
enum { CAN_STEP = 1 };
// Past the red zone, which the compiler may use.
#define SET_FLAGS(change)                                                                                    \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change "\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::   \
                         : "memory", "cc")
static inline void begin_steps(void) { SET_FLAGS("orq $0x100, (%%rsp)"); }
static inline void end_steps(void) { SET_FLAGS("andq $~0x100, (%%rsp)"); }
static inline void stop_steps_of(ucontext_t *context) { context->uc_mcontext.gregs[REG_EFL] &= ~0x100; }

static inline bool is_system_call(const greg_t *registers, long number) {
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    return code[0] == 0x0f && code[1] == 0x05 && registers[REG_RAX] == number;
}

// For the handler, at each step. The kernel kills a process that blocks SIGTRAP and steps, and glibc's fork() blocks all signals
// since 2.41: if the next instruction is such a system call, it gets the same set without SIGTRAP.
static inline void keep_steps_of(ucontext_t *context) {
    static uint64_t others;
    static greg_t replaced;
    greg_t *registers = context->uc_mcontext.gregs;
    if (replaced) registers[REG_RSI] = replaced;  // the compiler counts on it
    replaced = 0;
    if (!is_system_call(registers, SYS_rt_sigprocmask) || registers[REG_RDI] == SIG_UNBLOCK ||
        !registers[REG_RSI])
        return;
    replaced = registers[REG_RSI];
    memcpy(&others, (const void *)replaced, sizeof others);
    others &= ~(UINT64_C(1) << (SIGTRAP - 1));
    registers[REG_RSI] = (greg_t)&others;
}
#else
enum { CAN_STEP = 0 };
static inline void begin_steps(void) { _exit(77); }
static inline void end_steps(void) {}
static inline void stop_steps_of(ucontext_t *context) { (void)context; }
static inline void keep_steps_of(ucontext_t *context) { (void)context; }
#endif

#endif
