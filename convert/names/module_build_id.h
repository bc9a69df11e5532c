// SPDX-License-Identifier: Apache-2.0
// The build id of a module's file, for traces whose recorder did not keep it.
#ifndef HEAPTAPE_MODULE_BUILD_ID_H
#define HEAPTAPE_MODULE_BUILD_ID_H

#include <stdbool.h>
#include <time.h>

enum { BUILD_ID_DIGITS_BYTES = 2 * 64 + 1 };

// In hexadecimal digits. False where the file has none, cannot be read, or is newer than `not_after` (NULL: of any age).
bool module_build_id(const char *path, const struct timespec *not_after, char digits[BUILD_ID_DIGITS_BYTES]);

#endif
