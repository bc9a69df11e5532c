// SPDX-License-Identifier: Apache-2.0
// A signal behind each instruction: SIGTRAP, from begin_steps() on.
#ifndef HEAPTAPE_SINGLE_STEPS_H
#define HEAPTAPE_SINGLE_STEPS_H

#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
// Past the red zone, which the compiler may use.
#define SET_FLAGS(change)                                                                                    \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change "\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::   \
                         : "memory", "cc")
static void begin_steps(void) { SET_FLAGS("orq $0x100, (%%rsp)"); }
static void end_steps(void) { SET_FLAGS("andq $~0x100, (%%rsp)"); }
static void stop_steps_of(ucontext_t *context) { context->uc_mcontext.gregs[REG_EFL] &= ~0x100; }
#else
static void begin_steps(void) { _exit(77); }
static void end_steps(void) {}
static void stop_steps_of(ucontext_t *context) { (void)context; }
#endif

#endif
