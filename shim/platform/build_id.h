// SPDX-License-Identifier: Apache-2.0
// The build id of a loaded object.
#ifndef HEAPTAPE_BUILD_ID_H
#define HEAPTAPE_BUILD_ID_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_BYTES_MAX = 64 };

// Reads it from the notes of the object, which is loaded at the bias and stays so meanwhile. Returns its length; 0: it has none,
// or a longer one.
size_t build_id_read(uintptr_t bias, const ElfW(Phdr) * segment, unsigned segments,
                     unsigned char id[BUILD_ID_BYTES_MAX]);

#endif
