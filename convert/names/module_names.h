// SPDX-License-Identifier: Apache-2.0
// The names of locations in one module, from the file that is there now, if it is the one that was recorded.
#ifndef HEAPTAPE_MODULE_NAMES_H
#define HEAPTAPE_MODULE_NAMES_H

#include <stdbool.h>
#include <time.h>

#include "name_builder.h"

// build_id: in hexadecimal digits, "" for none. wanted: the numbers of the module's locations. Adds nothing where no file is
// found that has the build id.
void module_names_add(struct name_builder *builder, const char *path, const char *build_id,
                      const struct ht_location *locations, const uint32_t *wanted, size_t count);

enum { BUILD_ID_DIGITS_BYTES = 2 * 64 + 1 };

// The build id of a module's file, in hexadecimal digits, for traces whose recorder did not keep it. False if the file has none,
// cannot be read, or is newer than `not_after` (NULL: it may have any age).
bool file_build_id(const char *path, const struct timespec *not_after, char digits[BUILD_ID_DIGITS_BYTES]);

#endif
