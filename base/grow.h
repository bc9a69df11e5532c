// Arrays that grow.
#ifndef HEAPTAPE_GROW_H
#define HEAPTAPE_GROW_H

#include <stdbool.h>
#include <stddef.h>

// Makes room for so many items in the array whose address lies at `place`, new items being zero. False for want of
// memory: nothing has changed then.
bool ht_grow(void *place, size_t *room, size_t needed, size_t item_bytes);

#endif
