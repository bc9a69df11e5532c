// SPDX-License-Identifier: Apache-2.0
// A program with an allocator of its own, exported, as Chromium, Firefox and Rust programs have it. All of
// libc's calls come here too; no preloaded library is ever asked. Usage: own_malloc COUNTS
#include <errno.h>

#include "target_support.h"

enum { SIZE_OWN = 7660, ARENA_BYTES = 64 << 20 };

static char arena[ARENA_BYTES];
static size_t arena_used;
static unsigned long calls;

void *malloc(size_t size) {
    size_t need = (size + 31) & ~(size_t)15;
    size_t start = __atomic_fetch_add(&arena_used, need, __ATOMIC_RELAXED);
    if (need < size || start + need > ARENA_BYTES) return errno = ENOMEM, NULL;
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    memcpy(arena + start, &size, sizeof size);
    return arena + start + 16;
}

void free(void *block) {
    // A block of somebody else's would mean that somebody else was asked.
    if (block && (uintptr_t)block - (uintptr_t)arena >= ARENA_BYTES) target_fail("a foreign block");
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
}

void *realloc(void *old, size_t size) {
    size_t kept = 0;
    void *block = malloc(size);
    if (old) memcpy(&kept, (char *)old - 16, sizeof kept);
    if (block && old) memcpy(block, old, kept < size ? kept : size);
    return block;
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    tally_churn(SIZE_OWN, 1000);
    free(strdup("libc's own calls"));
    printf("%s\n", calls >= 1001 ? "all served" : "not all served");
    return 0;
}
