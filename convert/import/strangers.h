// SPDX-License-Identifier: Apache-2.0
// Files that many have and that no trace can be made of: which they are, and what they lack.
#ifndef HEAPTAPE_STRANGERS_H
#define HEAPTAPE_STRANGERS_H

#include <stddef.h>

// "ltrace's output, which ...", by a file's first bytes. NULL if it is none of them.
const char *stranger_named(const char *head, size_t bytes);

#endif
