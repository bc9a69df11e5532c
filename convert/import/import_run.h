// SPDX-License-Identifier: Apache-2.0
// From a foreign trace to ours: opens the input, finds its format, and writes the trace.
#ifndef HEAPTAPE_IMPORT_RUN_H
#define HEAPTAPE_IMPORT_RUN_H

#include "convert_request.h"
#include "import_formats.h"

// format: NULL to find out. Returns 0 or -1 with error.
int import_run(const struct convert_request *request, const struct import_format *format,
               struct ht_error *error);

// Is the input in a format that its first bytes tell? If not, error says what was expected.
bool import_knows(const char *path, const char *member, struct ht_error *error);

#endif
