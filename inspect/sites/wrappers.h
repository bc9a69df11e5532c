// SPDX-License-Identifier: Apache-2.0
// Functions that ask for memory on behalf of their callers.
#ifndef HEAPTAPE_WRAPPERS_H
#define HEAPTAPE_WRAPPERS_H

#include <stdbool.h>
#include <stddef.h>

enum { BARE_NAME_BYTES = 1024 };

// Writes the name without return type, arguments and those of templates: of "int ns::pool<int>::get(int)" ns::pool::get.
// What does not fit is cut.
void bare_name(const char *function, char name[BARE_NAME_BYTES]);

// Those of the standard libraries of C++ and Rust, by their names or their files, and those whose own names end as that of an
// allocator's function does. The same as Frame.wraps of analysis/heaptape/sites/frames.py.
bool is_wrapper(const char *function, const char *file);

// Is the module, a path, the C library, the loader or the C++ library? What these allocate is for their callers. The same as
// Frame.in_runtime.
bool is_runtime_library(const char *module);

#endif
