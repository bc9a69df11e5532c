// SPDX-License-Identifier: Apache-2.0
// The memory of a process that never was: a C library with symbols, a banner and malloc's data, heaps of two arenas, a
// mapped chunk, a thread. An input changes words of it.
#ifndef HEAPTAPE_WALK_IMAGE_H
#define HEAPTAPE_WALK_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "glibc.h"

enum walk_region {
    REGION_CORE,  // a core's headers and notes
    REGION_TEXT,
    REGION_DATA,
    REGION_ZEROED,
    REGION_HEAP,
    REGION_ARENA,
    REGION_MAPPED,
    REGION_THREAD,
    REGIONS
};

struct walk_part {
    uint64_t address;
    size_t bytes;
    const char *name;  // as in /proc/PID/maps
    const char *permissions;
    uint64_t file_offset;
    uint8_t *at;
};

struct walk_image {
    struct walk_part parts[REGIONS];
    uint8_t *bytes;  // of a core file: all parts, one behind the other
    size_t size;
};

// Of glibc 2.MINOR, whose layout must be known. The image is the same memory in each call.
struct walk_image *walk_image_make(int minor);

#endif
