// SPDX-License-Identifier: Apache-2.0
// How much memory is left: to the machine, and to the control groups that the process is in.
#ifndef HEAPTAPE_MEMORY_ROOM_H
#define HEAPTAPE_MEMORY_ROOM_H

#include <stdint.h>

// The least of what any of them leaves, pages of files that could be dropped counted in; UINT64_MAX if
// nothing is known. `root` is "" except in tests. Opens and closes files; no two threads at once, the caller
// sees to that.
__attribute__((visibility("hidden"))) uint64_t memory_room_bytes(const char *root);

#endif
