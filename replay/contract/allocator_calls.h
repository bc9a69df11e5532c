// SPDX-License-Identifier: Apache-2.0
// The names under which the measured child calls the allocator. They are the C names, so that the dynamic
// linker decides which library they reach, by the same path for every allocator. Only a sanitized build
// differs: there the sanitizer owns those names, so the null allocator (the only one built then) is called by
// its own.
#ifndef HEAPTAPE_ALLOCATOR_CALLS_H
#define HEAPTAPE_ALLOCATOR_CALLS_H

#include <stddef.h>
#include <stdlib.h>

#ifdef HEAPTAPE_NULL_BY_NAME
void *ht_null_malloc(size_t size);
void *ht_null_calloc(size_t count, size_t size);
void *ht_null_realloc(void *block, size_t size);
void ht_null_free(void *block);
int ht_null_posix_memalign(void **block, size_t alignment, size_t size);
#define HT_CALL_MALLOC         ht_null_malloc
#define HT_CALL_CALLOC         ht_null_calloc
#define HT_CALL_REALLOC        ht_null_realloc
#define HT_CALL_FREE           ht_null_free
#define HT_CALL_POSIX_MEMALIGN ht_null_posix_memalign
#else
#define HT_CALL_MALLOC         malloc
#define HT_CALL_CALLOC         calloc
#define HT_CALL_REALLOC        realloc
#define HT_CALL_FREE           free
#define HT_CALL_POSIX_MEMALIGN posix_memalign
#endif

#endif
