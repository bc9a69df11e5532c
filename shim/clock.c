// Clocks by system call: the program may have replaced libc's.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "recorder.h"

static uint64_t read_clock_ns(clockid_t clock) {
    struct timespec now;
    if (syscall(SYS_clock_gettime, clock, &now)) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_mono_ns(void) { return read_clock_ns(CLOCK_MONOTONIC); }
uint64_t clock_realtime_ns(void) { return read_clock_ns(CLOCK_REALTIME); }
uint64_t clock_process_cpu_ns(void) { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
uint64_t clock_thread_cpu_ns(void) { return read_clock_ns(CLOCK_THREAD_CPUTIME_ID); }
