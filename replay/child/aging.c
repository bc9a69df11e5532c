// SPDX-License-Identifier: Apache-2.0
#include "aging.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "random_numbers.h"

enum { WRITTEN = 0x5a, SEED = 1 };

// Takes a random one out of `count`.
static void *take_any(struct ht_random *random, void **blocks, uint64_t count) {
    uint64_t taken = ht_random_next(random) % count;
    void *block = blocks[taken];
    blocks[taken] = blocks[count - 1];
    return block;
}

bool ht_age_heap(const struct ht_aging *aging, void **blocks) {
    struct ht_random random = {SEED};
    uint64_t to_free = 0;
    for (uint64_t i = 0; i < aging->blocks; i++) {
        uint64_t bytes = ht_aging_bytes(aging, i);
        void *block = malloc(bytes);
        if (!block && bytes) return false;
        if (block) memset(block, WRITTEN, bytes);
        if (!ht_aging_keeps(aging, i)) blocks[to_free++] = block;
    }
    for (; to_free; to_free--) free(take_any(&random, blocks, to_free));
    return true;
}

bool ht_age_without_heap(const struct ht_aging *aging) {
    if (!aging->kept_bytes) return true;
    void *memory = mmap(NULL, aging->kept_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory != MAP_FAILED;
}
