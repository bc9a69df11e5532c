// SPDX-License-Identifier: Apache-2.0
// Has the kernel report to the launcher each system call by which an allocator gets, changes or gives back
// memory (syscall_count.h). The others run at full speed.
#ifndef HEAPTAPE_SYSCALL_FILTER_H
#define HEAPTAPE_SYSCALL_FILTER_H

// From now on, for this process and its threads to be, for good. socket_fd: where the listener is sent to.
// Returns 0, or errno where the kernel does not permit it; then nothing is counted and nothing changed.
int ht_syscall_filter_install(int socket_fd);

#endif
