#include "grow.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

bool ht_grow(void *place, size_t *room, size_t needed, size_t item_bytes) {
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
