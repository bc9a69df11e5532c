// SPDX-License-Identifier: Apache-2.0
// The library that deepbind_main opens.
#include <stdlib.h>

enum { SIZE_UNSEEN = 7645 };

__attribute__((visibility("default"))) void *plugin_make(void) { return malloc(SIZE_UNSEEN); }
__attribute__((visibility("default"))) void plugin_drop(void *block) { free(block); }
__attribute__((visibility("default"))) void *plugin_larger(void *block) { return realloc(block, 100000); }
