// SPDX-License-Identifier: Apache-2.0
// What these programs share: a list of their live blocks that is not in malloc's memory, and the wait to be looked at.
// A program writes the list itself, so that a walk can be checked under any glibc, also where no recorder runs.
#ifndef HEAPTAPE_LIVE_BLOCKS_H
#define HEAPTAPE_LIVE_BLOCKS_H

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct block {
    void *address;
    size_t bytes;
};
enum { BLOCKS_MAX = 1 << 25, LINE_MAX_BYTES = 64 };
static struct block *blocks;
static atomic_size_t blocks_used;

static inline void *map_pages(size_t bytes) {
    void *pages =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) _exit(99);
    return pages;
}

static inline unsigned next_random(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

// Writes to the whole block and notes it; returns its number. Threads may call it at the same time.
static inline size_t keep(void *address, size_t bytes) {
    size_t number = atomic_fetch_add(&blocks_used, 1);
    if (!address || number >= BLOCKS_MAX) _exit(98);
    memset(address, 0x5a, bytes);
    blocks[number] = (struct block){address, bytes};
    return number;
}

static inline void release(size_t number) {
    free(blocks[number].address);
    blocks[number].address = NULL;
}

// Prints "ready BLOCKS BYTES USABLE_BYTES" and waits to be killed. list: a file for `address,bytes` of each block, or NULL.
static inline void wait_with(const char *list) {
    size_t used = atomic_load(&blocks_used), live = 0, bytes = 0, usable = 0, length = 0;
    char *text = list ? map_pages((used + 1) * LINE_MAX_BYTES) : NULL;
    for (size_t i = 0; i < used; i++) {
        if (!blocks[i].address) continue;
        live++;
        bytes += blocks[i].bytes;
        usable += malloc_usable_size(blocks[i].address);
        if (text) length += (size_t)sprintf(text + length, "%p,%zu\n", blocks[i].address, blocks[i].bytes);
    }
    if (list) {
        int file = open(list, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        for (size_t at = 0; at < length;) {
            ssize_t written = write(file, text + at, length - at);
            if (written <= 0) _exit(97);
            at += (size_t)written;
        }
        close(file);
        munmap(text, (used + 1) * LINE_MAX_BYTES);
    }
    char line[100];  // not dprintf, which allocates, and would free after the line is read
    int length_of_line = snprintf(line, sizeof line, "ready %zu %zu %zu\n", live, bytes, usable);
    if (write(1, line, (size_t)length_of_line) != length_of_line) _exit(97);
    alarm(3600);
    for (;;) pause();
}

#endif
