// SPDX-License-Identifier: Apache-2.0
// Whether a program calls its allocator by names that are no standard ones (mallocx, mi_malloc).
#ifndef HEAPTAPE_OWN_FUNCTIONS_H
#define HEAPTAPE_OWN_FUNCTIONS_H

#include <stdbool.h>

// The names are those that the library `full` has and `plain` has not. True if the executable, a library that it is linked with
// or one in LD_PRELOAD asks for one of them, and will get it; and no one asks, by a weak symbol, for another that it would not
// get without the recorder. A file that cannot be found or read says nothing.
bool calls_own_functions(const char *executable, const char *plain, const char *full);

#endif
