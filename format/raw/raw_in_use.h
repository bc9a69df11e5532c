// SPDX-License-Identifier: Apache-2.0
// Is a raw log still being written?
#ifndef HEAPTAPE_RAW_IN_USE_H
#define HEAPTAPE_RAW_IN_USE_H

#include <stdbool.h>

#include "raw_reader.h"

// Does any process have the file open, or mapped, for writing? Asking the process that the header names would
// not do: its number may be one of another namespace. Only a file system without leases leaves no other way.
bool ht_raw_in_use(const struct ht_raw_log *log);

// Does the process that the header names have it mapped, as far as can be seen from here?
bool ht_raw_is_mapped(const struct ht_raw_log *log);

#endif
