// SPDX-License-Identifier: Apache-2.0
#include "fuzz_input.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES = 4 };

uint8_t fuzz_take_byte(struct fuzz_input *input) {
    uint8_t byte;
    fuzz_take(input, &byte, 1);
    return byte;
}

void fuzz_take(struct fuzz_input *input, void *to, size_t bytes) {
    size_t there = bytes < input->left ? bytes : input->left;
    memset(to, 0, bytes);
    if (there) memcpy(to, input->at, there);
    input->at += there;
    input->left -= there;
}

int fuzz_memory_file(unsigned number, char path[FUZZ_PATH_BYTES]) {
    static int kept[FILES];  // plus one; 0: not yet made
    FUZZ_EXPECT(number < FILES, "memory file %u", number);
    if (!kept[number]) kept[number] = memfd_create("heaptape-fuzz", MFD_CLOEXEC) + 1;
    FUZZ_EXPECT(kept[number] > 0, "no file in memory");
    snprintf(path, FUZZ_PATH_BYTES, "/proc/self/fd/%d", kept[number] - 1);
    return kept[number] - 1;
}

void fuzz_write(int fd, const void *bytes, size_t count, uint64_t offset) {
    FUZZ_EXPECT(!count || pwrite(fd, bytes, count, (off_t)offset) == (ssize_t)count, "cannot write");
}

void fuzz_reset(int fd, uint64_t bytes) {
    FUZZ_EXPECT(!ftruncate(fd, 0) && !ftruncate(fd, (off_t)bytes), "cannot resize");
}

void fuzz_broken(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("broken: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}
