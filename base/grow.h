// SPDX-License-Identifier: Apache-2.0
// Arrays that grow.
#ifndef HEAPTAPE_GROW_H
#define HEAPTAPE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Makes room for so many items in the array whose address lies at `place`, new items being zero. False for want of
// memory: nothing has changed then.
static inline bool ht_grow(void *place, size_t *room, size_t needed, size_t item_bytes) {
    enum { ROOM_MIN = 16 };
    if (needed <= *room) return true;
    size_t bigger = *room ? *room * 2 : ROOM_MIN;
    if (bigger < needed) bigger = needed;
    char *array;
    memcpy(&array, place, sizeof array);  // not by assignment: the pointer is one to anything
    char *moved = realloc(array, bigger * item_bytes);
    if (!moved) return false;
    memset(moved + *room * item_bytes, 0, (bigger - *room) * item_bytes);
    memcpy(place, &moved, sizeof moved);
    *room = bigger;
    return true;
}

#endif
