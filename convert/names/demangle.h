// SPDX-License-Identifier: Apache-2.0
// The names of C++ and Rust functions as their sources have them.
#ifndef HEAPTAPE_DEMANGLE_H
#define HEAPTAPE_DEMANGLE_H

#include <stdbool.h>

enum { DEMANGLED_BYTES_MAX = 4096 };

// Does it look like a linker's name of a C++ or Rust function?
bool is_mangled(const char *symbol);

// The function's name without parameters, or the symbol itself. text holds DEMANGLED_BYTES_MAX bytes.
const char *demangled(const char *symbol, char *text);

#endif
