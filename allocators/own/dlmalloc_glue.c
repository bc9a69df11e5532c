// SPDX-License-Identifier: Apache-2.0
// What C11 wants of a malloc, and dlmalloc is too old to have.
#include <stddef.h>

void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
