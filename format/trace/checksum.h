// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_CHECKSUM_H
#define HEAPTAPE_CHECKSUM_H

// The one place that includes xxHash. What is hashed are mostly structs. xxHash inlined reads them, by default,
// as numbers of another type, and then the compiler may move the stores of their members behind the hash: gcc 14
// does. With the first two settings it reads them by memcpy, as bytes, at no cost.

#define XXH_FORCE_MEMORY_ACCESS 0
#define XXH_FORCE_ALIGN_CHECK   0
#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
