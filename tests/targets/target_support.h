// SPDX-License-Identifier: Apache-2.0
// What the targets share: counters that survive anything, a report without malloc, a random number.
// Nothing here calls malloc, or a target would record its own bookkeeping.
#ifndef HEAPTAPE_TARGET_SUPPORT_H
#define HEAPTAPE_TARGET_SUPPORT_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

// A target calls malloc(size) only through tally_malloc for the sizes that it counts; sizes between
// 7000 and 7999 are set aside for this, so that a recording can be searched for them.
enum { TALLY_FIRST = 7000, TALLY_SIZES = 1000 };

// One counter for each size, in a file that is mapped shared: a killed process, a forked child and
// an exec'd image all add to the same counters, and the test reads the file afterwards.
static volatile uint64_t *tally_counts;

__attribute__((noreturn)) static inline void target_fail(const char *what) {
    ssize_t ignored = write(2, what, strlen(what));
    ignored = write(2, "\n", 1);
    (void)ignored;
    _exit(99);
}

static inline void tally_open(const char *path) {
    size_t bytes = TALLY_SIZES * sizeof(uint64_t);
    int fd = -1, flags = MAP_SHARED | MAP_ANONYMOUS;
    if (path) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, (off_t)bytes)) target_fail("cannot open the counters file");
        flags = MAP_SHARED;
    }
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (mapped == MAP_FAILED) target_fail("cannot map the counters file");
    if (fd >= 0) close(fd);
    tally_counts = (volatile uint64_t *)mapped;
}

static inline void tally_count(size_t size) {
    __atomic_fetch_add(&tally_counts[size - TALLY_FIRST], 1, __ATOMIC_RELAXED);
}

// The size passes through a volatile, or the compiler would remove a malloc that is freed unused.
static inline void *tally_malloc(size_t size) {
    volatile size_t asked = size;
    char *block = (char *)malloc(asked);
    if (!block) target_fail("malloc failed");
    block[0] = (char)size;
    tally_count(size);
    return block;
}

// calls times malloc and free of one size.
static inline void tally_churn(size_t size, int calls) {
    for (int i = 0; i < calls; i++) free(tally_malloc(size));
}

static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545F4914F6CDD1Dull;
}

// A buffered file without stdio, whose buffer would come from malloc.
struct plain_writer {
    int fd;
    size_t used;
    char bytes[1 << 16];
};

static inline void writer_flush(struct plain_writer *out) {
    for (size_t done = 0; done < out->used;) {
        ssize_t wrote = write(out->fd, out->bytes + done, out->used - done);
        if (wrote <= 0) target_fail("write failed");
        done += (size_t)wrote;
    }
    out->used = 0;
}

static inline void writer_open(struct plain_writer *out, const char *path) {
    out->used = 0;
    out->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out->fd < 0) target_fail("cannot open the report");
}

__attribute__((format(printf, 2, 3))) static inline void writer_print(struct plain_writer *out,
                                                                      const char *format, ...) {
    va_list values;
    if (sizeof out->bytes - out->used < 512) writer_flush(out);
    va_start(values, format);
    out->used += (size_t)vsnprintf(out->bytes + out->used, sizeof out->bytes - out->used, format, values);
    va_end(values);
}

static inline void writer_close(struct plain_writer *out) {
    writer_flush(out);
    close(out->fd);
}

// A marker is a malloc of a size that nothing else asks for, freed at once; what a thread does
// between its two markers is the target's own work, what lies outside belongs to libc.
enum { MARKER_BEGIN = 54321, MARKER_END = 54323 };

static inline void marker(size_t size) {
    volatile size_t asked = size;
    char *volatile block = (char *)malloc(asked);
    free(block);
}

#ifdef __cplusplus
}
#endif
#endif
