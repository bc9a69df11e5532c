// How launcher and measured child agree on the processors that a child is shown (--cpus).
#ifndef HEAPTAPE_PROCESSOR_NUMBER_H
#define HEAPTAPE_PROCESSOR_NUMBER_H

#include <stdint.h>
#include <sys/types.h>

// As many as cpu_set_t holds: allocators ask with one.
enum { HT_PROCESSORS_MAX = 1024 };

// In the environment of a child, with the number.
#define HT_PROCESSORS_VARIABLE "HEAPTAPE_PROCESSORS="

// Rooms by which the launcher knows a sched_getaffinity of the harness. Without a buffer, which the kernel refuses: the
// replay begins, and with it the count of system calls. And for the answer that is true (the kernel writes no more than
// its own mask has).
enum { HT_BEGIN_COUNTING = 0x100008, HT_TRUE_AFFINITY = 0x100010 };

// On which processor a thread is said to run: threads that start one after the other are on one after the other.
static inline uint32_t ht_processor_number(pid_t thread, uint32_t processors) {
    return (uint32_t)thread % processors;
}

#endif
