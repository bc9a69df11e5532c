// SPDX-License-Identifier: Apache-2.0
// Words in the memory of a loaded object, where nothing else has its version.
#ifndef HEAPTAPE_OBJECT_TEXT_H
#define HEAPTAPE_OBJECT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// Searches the read-only parts of the object that has this address for the first place of these words,
// and puts into text what follows up to the end of the line or string, blanks at its beginning left out.
bool ht_object_text(const void *address, const char *words, char *text, size_t room);

#endif
