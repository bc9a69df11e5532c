// SPDX-License-Identifier: Apache-2.0
// Functions that ask for memory on behalf of their callers.
#ifndef HEAPTAPE_WRAPPERS_H
#define HEAPTAPE_WRAPPERS_H

#include <stdbool.h>
#include <stddef.h>

#include "site_table.h"

// Those of the standard libraries of C++ and Rust, by their names or their files, and those whose own names end as that of an
// allocator's function does. The same as Frame.wraps of analysis/heaptape/sites/frames.py.
bool is_wrapper(const char *function, const char *file);

// Is the module, a path, the C library, the loader or the C++ library? What these allocate is for their callers. The same as
// Frame.in_runtime.
bool is_runtime_library(const char *module);

// ---- in modules without names, as stripped ones are: known by their place in the stacks alone ----

// A nameless return address is a wrapper's if more than half of its module's stacks lead to it, outside other wrappers, from eight
// callers or more. So are those below it that hardly anybody else calls (one or two callers). skipped: by location, whether all of
// its frames are wrappers or runtime libraries; those that are found are added to it. False for want of memory. The same as
// nameless_wrappers of analysis/heaptape/sites/frames.py.
bool nameless_wrappers_add(const struct ht_site_table *table, bool *skipped);

#endif
