// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include "sys.h"

static uint64_t faults_of(int whose) {
    struct rusage usage = {0};
    if (raw_syscall(SYS_getrusage, whose, (long)&usage, 0, 0, 0, 0)) return FAULTS_UNKNOWN;
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

// No process has had none: a kernel that says so (gVisor) does not count.
uint64_t faults_of_process(void) {
    uint64_t faults = faults_of(RUSAGE_SELF);
    return faults ? faults : FAULTS_UNKNOWN;
}

uint64_t faults_of_thread(void) { return faults_of(RUSAGE_THREAD); }
