// SPDX-License-Identifier: Apache-2.0
// The names of locations in one module, from the file that is there now, if it is the one that was recorded.
#ifndef HEAPTAPE_MODULE_NAMES_H
#define HEAPTAPE_MODULE_NAMES_H

#include "name_builder.h"

// build_id: in hexadecimal digits, "" for none. wanted: the numbers of the module's locations. Adds nothing where no file is
// found that has the build id.
void module_names_add(struct name_builder *builder, const char *path, const char *build_id,
                      const struct ht_location *locations, const uint32_t *wanted, size_t count);

#endif
