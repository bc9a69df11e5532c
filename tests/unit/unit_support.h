// SPDX-License-Identifier: Apache-2.0
// What the unit tests share: cmocka in the right order, repeatable random numbers, files that go away.
#ifndef HEAPTAPE_UNIT_SUPPORT_H
#define HEAPTAPE_UNIT_SUPPORT_H

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#define CMOCKA_DISABLE_DEPRECATION_WARNINGS  // cmocka 2 deprecates names whose successors cmocka 1 lacks
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef NDEBUG
#error "Assertions stay in, in every type of build: what is tested must have them"
#endif

// splitmix64: the same numbers on every machine.
static inline uint64_t unit_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

// A value of a random number of bits, so that all widths occur.
static inline uint64_t unit_random_width(uint64_t *state) {
    unsigned bits = (unsigned)(unit_random(state) % 65);
    return bits ? unit_random(state) >> (64 - bits) : 0;
}

// Whether this is a run of the tier `thorough` (heaptape_thorough_test), which leaves nothing out.
static inline bool unit_thorough(void) { return getenv("UNIT_THOROUGH") != NULL; }

// How many of a long row of like cases the tier `thorough` runs for one that the quick one does; a sanitized build, which
// takes several times as long for each, skips five times as many.
static inline size_t unit_stride(size_t quick) {
    if (unit_thorough()) return 1;
#ifdef UNIT_SANITIZED
    quick *= 5;
#endif
    return quick;
}

// A path of this process's own in the temporary folder.
static inline char *unit_path(char path[256], const char *name) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, 256, "%s/heaptape-unit-%d-%s", folder ? folder : "/tmp", (int)getpid(), name);
    return path;
}

#endif
