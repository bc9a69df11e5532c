// SPDX-License-Identifier: Apache-2.0
// Counts the system calls by which a child's allocator gets, changes and gives back memory, of every
// allocator, the C library's own included: the child's kernel asks here before it executes each of them
// (a seccomp filter with a listener, perf_counters.h), and is allowed to continue.
#ifndef HEAPTAPE_SYSCALL_COUNT_H
#define HEAPTAPE_SYSCALL_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ht_syscall {
    HT_SYSCALL_MMAP,
    HT_SYSCALL_MUNMAP,
    HT_SYSCALL_MREMAP,
    HT_SYSCALL_MADVISE,
    HT_SYSCALL_BRK,
    HT_SYSCALL_MPROTECT,
    HT_SYSCALLS
};

extern const char *const ht_syscall_names[HT_SYSCALLS];

struct ht_syscall_counts {
    uint64_t calls[HT_SYSCALLS];
    uint64_t bytes[HT_SYSCALLS];  // lengths as asked for, of mremap the new one; none of brk
};

struct ht_syscall_counter;
struct seccomp_notif;

// Starts to wait for a child's listener. child_socket: what the child is to send it through. A child whose
// replay is not over after limit_ns is killed. NULL, with problem, if that cannot be had. listens: false where another
// listener has the child's calls, because a process can have only one: what it hears of them it passes on to
// ht_syscall_count_take, once the child's replay begins.
struct ht_syscall_counter *ht_syscall_count_start(uint64_t limit_ns, bool listens, int *child_socket,
                                                  char *problem, size_t room);
void ht_syscall_count_begin(struct ht_syscall_counter *counter);
// False: the child took too long, and was killed.
bool ht_syscall_count_take(struct ht_syscall_counter *counter, const struct seccomp_notif *asked);

// The child has ended. True: its calls have been counted; else there was no listener, or the child was
// killed (over_limit).
bool ht_syscall_count_stop(struct ht_syscall_counter *counter, struct ht_syscall_counts *counts,
                           bool *over_limit);

#endif
