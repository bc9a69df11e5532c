// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ht_error_input(struct ht_error *error, const char *path, uint64_t offset, const char *format, ...) {
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    error->status = HT_EXIT_INPUT;
    snprintf(error->message, sizeof error->message, "%s: offset %" PRIu64 ": %s", path, offset, what);
    return -1;
}

const char *ht_found(const char *expected, uint64_t value) {
    static _Thread_local char text[160];
    snprintf(text, sizeof text, "%s, found %" PRIu64, expected, value);
    return text;
}

int ht_error_system(struct ht_error *error, const char *path, const char *format, ...) {
    int number = errno;
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    error->status = HT_EXIT_FAILED;
    if (number) snprintf(error->message, sizeof error->message, "%s: %s: %s", path, what, strerror(number));
    else snprintf(error->message, sizeof error->message, "%s: %s", path, what);
    return -1;
}

int ht_error_memory(struct ht_error *error, const char *path, const char *what) {
    errno = ENOMEM;
    return ht_error_system(error, path, "%s", what);
}
