// SPDX-License-Identifier: Apache-2.0
#include "cycle_trap.h"

#include <stdio.h>

#if defined(__x86_64__)

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "raw_clock.h"
#include "virtual_clock.h"

enum { CALIBRATION_NS = 3000000, VDSO_BYTES_MAX = 16384, CPU_BITS = 12 };

// A signal handler has no argument to carry state in.
static struct {
    uint64_t base_ticks, base_ns;
    double ticks_per_ns;
    uintptr_t vdso;
    _Atomic uintptr_t first_reader;
} trap;

static void set_trap(bool on) { prctl(PR_SET_TSC, on ? PR_TSC_SIGSEGV : PR_TSC_ENABLE); }

static bool in_vdso(uintptr_t address) {
    return trap.vdso && address >= trap.vdso && address - trap.vdso < VDSO_BYTES_MAX;
}

extern const char __executable_start, etext;  // the linker's

// The harness's own code is the executable's.
static bool is_ours(uintptr_t address) {
    return address >= (uintptr_t)&__executable_start && address < (uintptr_t)&etext;
}

// The kernel's own reading, which makes a real clock's time of it, must be real, and ours is meant to be.
static uint64_t real_ticks(void) {
    set_trap(false);
    uint64_t ticks = ht_ticks();
    set_trap(true);
    return ticks;
}

static uint64_t trace_ticks(uintptr_t reader) {
    uintptr_t nobody = 0;
    atomic_compare_exchange_strong(&trap.first_reader, &nobody, reader);
    return trap.base_ticks +
           (uint64_t)((double)(ht_virtual_clock_read_ns() - trap.base_ns) * trap.ticks_per_ns);
}

static void answer(greg_t *registers, uintptr_t at, bool with_cpu) {
    uint64_t ticks = in_vdso(at) || is_ours(at) ? real_ticks() : trace_ticks(at);
    registers[REG_RAX] = (greg_t)(uint32_t)ticks;
    registers[REG_RDX] = (greg_t)(ticks >> 32);
    if (with_cpu) {  // as Linux sets the register: allocators take the CPU's number from it
        unsigned cpu = 0, node = 0;
        syscall(SYS_getcpu, &cpu, &node, NULL);
        registers[REG_RCX] = (greg_t)(node << CPU_BITS | cpu);
    }
    registers[REG_RIP] += with_cpu ? 3 : 2;
}

// Every other fault ends the process as it would have: by the default action when the instruction is tried
// again, or, where somebody sent the signal, when it is sent again.
static void on_fault(int number, siginfo_t *info, void *context) {
    static const unsigned char rdtsc[] = {0x0f, 0x31}, rdtscp[] = {0x0f, 0x01, 0xf9};
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (info->si_code == SI_KERNEL) {
        if (!memcmp((const void *)at, rdtsc, sizeof rdtsc)) return answer(registers, at, false);
        if (!memcmp((const void *)at, rdtscp, sizeof rdtscp)) return answer(registers, at, true);
    }
    signal(number, SIG_DFL);
    if (info->si_code <= 0) raise(number);
}

static void calibrate(void) {
    struct timespec pause = {.tv_nsec = CALIBRATION_NS};
    uint64_t ticks = ht_ticks(), ns = ht_raw_clock_ns(CLOCK_MONOTONIC_RAW);
    syscall(SYS_nanosleep, &pause, NULL);
    trap.base_ticks = ht_ticks();
    ns = ht_raw_clock_ns(CLOCK_MONOTONIC_RAW) - ns;
    trap.ticks_per_ns = (double)(trap.base_ticks - ticks) / (double)ns;
}

bool ht_cycle_trap_start(void) {
    struct sigaction former, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, NULL, &former) || former.sa_handler != SIG_DFL) return false;
    calibrate();
    trap.base_ns = ht_virtual_clock_read_ns();
    trap.vdso = getauxval(AT_SYSINFO_EHDR);
    return sigaction(SIGSEGV, &action, NULL) == 0 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0;
}

void ht_cycle_trap_end(char *reader, size_t room) {
    Dl_info found = {0};
    void *address = (void *)trap.first_reader;
    set_trap(false);
    if (!address) return;
    const char *path = dladdr(address, &found) && found.dli_fname ? found.dli_fname : "code of no object";
    const char *slash = strrchr(path, '/');
    snprintf(reader, room, "%s", slash ? slash + 1 : path);
}

#else

bool ht_cycle_trap_start(void) { return false; }
void ht_cycle_trap_end(char *reader, size_t room) { snprintf(reader, room, "%s", ""); }

#endif
