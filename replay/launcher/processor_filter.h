// SPDX-License-Identifier: Apache-2.0
// The seccomp filter of a child that is to see another number of processors: the calls by which a process learns it go
// to the launcher (shown_processors.h). All other calls pass as before: the kernel looks them up in a bitmap.
#ifndef HEAPTAPE_PROCESSOR_FILTER_H
#define HEAPTAPE_PROCESSOR_FILTER_H

#include <stdbool.h>

// Between fork and exec: filters this process and all that it becomes, and sends the listener through the socket.
// memory: calls that change the address space go to the launcher, too. False with errno.
bool ht_processor_filter_install(int socket_fd, bool memory);

#endif
