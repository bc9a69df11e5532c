// SPDX-License-Identifier: Apache-2.0
// A thread of the launcher that a child's kernel asks before it executes some of the child's system calls (a seccomp
// filter with a listener). The child waits with the call until it is answered.
#ifndef HEAPTAPE_KERNEL_LISTENER_H
#define HEAPTAPE_KERNEL_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seccomp_notif;
struct seccomp_notif_resp;

// Fills in the answer to one call; it begins as the order to continue with the call. False: nothing is answered any
// more.
typedef bool ht_answer_call(void *context, int listener, const struct seccomp_notif *asked,
                            struct seccomp_notif_resp *answer);

struct ht_kernel_listener {
    pthread_t thread;
    int sockets[2];      // ours; the one that the filter's listener is sent through
    _Atomic bool ended;  // the child has
    bool listened;
    ht_answer_call *answer;
    void *context;
};

// False, with errno, without a thread or sockets.
bool ht_kernel_listener_start(struct ht_kernel_listener *listener, ht_answer_call *answer, void *context);
// The child has ended. True if it had such a filter.
bool ht_kernel_listener_stop(struct ht_kernel_listener *listener);

// From and to the memory of the child that asked. What can be read is, up to this many bytes; -1 with errno: nothing can.
ptrdiff_t ht_asked_read(const struct seccomp_notif *asked, uint64_t address, void *bytes, size_t count);
// False, with errno, if not all can be written.
bool ht_asked_write(const struct seccomp_notif *asked, uint64_t address, const void *bytes, size_t count);

// The call is not executed: it fails with this errno, or returns this value.
void ht_answer_error(struct seccomp_notif_resp *answer, int number);
void ht_answer_value(struct seccomp_notif_resp *answer, int64_t value);

// Counts the system calls by which a child's allocator gets, changes and gives back memory, of every
// allocator, the C library's own included: the child's kernel asks here before it executes each of them
// (a seccomp filter with a listener, perf_counters.h), and is allowed to continue.

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
