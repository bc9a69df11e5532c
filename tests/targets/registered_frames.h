// SPDX-License-Identifier: Apache-2.0
// What programs do that make code: its frames are described at run time, and registered. And calls by many ways, each a stack.
#ifndef HEAPTAPE_TESTS_REGISTERED_FRAMES_H
#define HEAPTAPE_TESTS_REGISTERED_FRAMES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 14, CODE_BYTES = 64 };

extern void __register_frame(void *begin);

static char code[CODE_BYTES];
static __thread void *volatile sink;

static uint8_t *put(uint8_t *at, uint64_t value, size_t bytes) {
    memcpy(at, &value, bytes);
    return at + bytes;
}

// A section .eh_frame of one function, with absolute addresses, and the zero that ends it.
static void describe(uint8_t frames[128]) {
    static const uint8_t common[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
    memset(frames, 0, 128);
    uint8_t *at = put(frames, 4 + sizeof common, 4);
    at = put(at, 0, 4);
    memcpy(at, common, sizeof common);
    at += sizeof common;
    at = put(at, 4 + 8 + 8 + 4, 4);
    at = put(at, (uint64_t)(at - frames), 4);
    at = put(at, (uintptr_t)code, 8);
    put(at, CODE_BYTES, 8);
}

// Its frame is of no fixed size, so that libgcc is asked each time.
static __attribute__((noinline)) void descend(unsigned depth, unsigned way) {
    sink = __builtin_alloca(16 + (way & 3) * 16);
    if (!depth) {
        sink = malloc(10);
        free(sink);
    } else if (way & 1) {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop");
    } else {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop; nop");
    }
}

#endif
