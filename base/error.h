// SPDX-License-Identifier: Apache-2.0
// Errors in input: one line with the file, the offset, what was expected and what was found.
#ifndef HEAPTAPE_ERROR_H
#define HEAPTAPE_ERROR_H

#include <stdint.h>

// Exit statuses of every program here.
enum ht_exit {
    HT_EXIT_DONE = 0,
    HT_EXIT_FAILED = 1,
    HT_EXIT_USAGE = 2,
    HT_EXIT_INPUT = 3,
    HT_EXIT_HOLDS = 4,     // a condition of --fail-if is shown to hold
    HT_EXIT_UNDECIDED = 5  // a condition is neither shown to hold nor shown not to
};

struct ht_error {
    int status;          // the exit status this error deserves: HT_EXIT_FAILED or HT_EXIT_INPUT
    char message[1024];  // without a trailing newline
};

// "PATH: offset N: MESSAGE", status HT_EXIT_INPUT. Returns -1 for the caller to return.
int ht_error_input(struct ht_error *error, const char *path, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// "PATH: MESSAGE: strerror(errno)" where errno is not 0, status HT_EXIT_FAILED. Returns -1.
int ht_error_system(struct ht_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// "EXPECTED, found VALUE", for checks that return what is wrong. Valid until the thread's next call.
const char *ht_found(const char *expected, uint64_t value) __attribute__((cold));
// The same for want of memory.
int ht_error_memory(struct ht_error *error, const char *path, const char *what);

#endif
