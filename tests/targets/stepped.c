// A signal handler that allocates at one of the first STEPS instructions that the recorder executes for an allocation: a child
// for each, stepped by the trap flag. Usage: stepped
#include <link.h>
#include <signal.h>
#include <ucontext.h>

#include "target_modes.h"

enum { STEPS = 320, BEFORE = 4000, IN_HANDLER = 600, AFTER = 300, TRAP_FLAG = 0x100 };

static uintptr_t recorder_start, recorder_end;
static volatile int steps_left;

static int find_recorder(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; strstr(info->dlpi_name, "libmalloc_wrap") && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        recorder_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        recorder_end = recorder_start + info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

static __attribute__((noinline)) void allocate(size_t bytes) { free(malloc(bytes)); }

static void step(int number, siginfo_t *unused, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    (void)number, (void)unused;
    if (at < recorder_start || at >= recorder_end || steps_left--) return;
    for (int i = 0; i < IN_HANDLER; i++) allocate(24);
    registers[REG_EFL] &= ~TRAP_FLAG;
}

static void step_through_one(int steps) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_NODEFER};
    steps_left = steps;
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < BEFORE; i++) allocate(32);
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"i"(TRAP_FLAG) : "memory", "cc");
    allocate(32);
    __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" ::"i"(~TRAP_FLAG) : "memory", "cc");
    // The first steps are there in any build: a handler that never ran would show nothing.
    if (steps < 20 && steps_left >= 0) _exit(1);
    for (int i = 0; i < AFTER; i++) allocate(24), allocate(32);
}

int main(void) {
    dl_iterate_phdr(find_recorder, NULL);
    if (!recorder_start) target_fail("there is no recorder");
    for (int steps = 0; steps < STEPS; steps++) {
        pid_t pid = fork();
        if (!pid) {
            step_through_one(steps);
            _exit(0);
        }
        if (child_status(pid)) target_fail("the handler did not run");
    }
    return 0;
}
