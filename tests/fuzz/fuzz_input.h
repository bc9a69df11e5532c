// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: bytes taken from an input one by one, and files that live in memory.
#ifndef HEAPTAPE_FUZZ_INPUT_H
#define HEAPTAPE_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef NDEBUG
#error "Assertions stay in, in every type of build: what is fuzzed must have them"
#endif

// What libFuzzer calls, and the driver of the kept inputs.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

// The rest of an input. Behind its end there are zeros.
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_take_byte(struct fuzz_input *input);
// Copies `bytes` bytes, zeros where the input ends first.
void fuzz_take(struct fuzz_input *input, void *to, size_t bytes);

enum { FUZZ_PATH_BYTES = 64 };

// A file in memory, made once and used again; its path opens it anew. number: 0 to 3.
int fuzz_memory_file(unsigned number, char path[FUZZ_PATH_BYTES]);
void fuzz_write(int fd, const void *bytes, size_t count, uint64_t offset);
// Empties the file and makes it `bytes` long.
void fuzz_reset(int fd, uint64_t bytes);

// Stops with a sentence: a property that a target holds the code to is broken.
#define FUZZ_EXPECT(condition, ...)                                                                          \
    do {                                                                                                     \
        if (!(condition)) fuzz_broken(__VA_ARGS__);                                                          \
    } while (0)
_Noreturn void fuzz_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
