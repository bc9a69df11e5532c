// A preloaded library that stands where a recorder stands and records nothing: the price of being there.
#include <errno.h>
#include <stdlib.h>

#include "next_malloc.h"

void *malloc(size_t size) { return next_known() ? next.malloc(size) : NULL; }
void *calloc(size_t count, size_t size) { return next_known() ? next.calloc(count, size) : NULL; }
void *realloc(void *block, size_t size) { return next_known() ? next.realloc(block, size) : NULL; }
void free(void *block) {
    if (next_known()) next.free(block);
}
int posix_memalign(void **result, size_t alignment, size_t size) {
    return next_known() ? next.posix_memalign(result, alignment, size) : ENOMEM;
}
void *aligned_alloc(size_t alignment, size_t size) {
    return next_known() ? next.aligned_alloc(alignment, size) : NULL;
}
