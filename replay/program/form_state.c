#include "form_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int ht_form_grow(struct ht_form_state *form, void *place, size_t *room, size_t needed, size_t element_bytes) {
    if (needed <= *room) return 0;
    size_t bigger = *room ? *room * 2 : 256;
    if (bigger < needed) bigger = needed;
    char *array;
    memcpy(&array, place, sizeof array);  // not by assignment: the pointer is one to anything
    char *moved = realloc(array, bigger * element_bytes);
    if (!moved) {
        errno = ENOMEM;
        return ht_error_system(form->error, form->path, "decoding the trace");
    }
    memset(moved + *room * element_bytes, 0, (bigger - *room) * element_bytes);
    memcpy(place, &moved, sizeof moved);
    *room = bigger;
    return 0;
}

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected) {
    return ht_error_input(form->error, form->path, place->offset, "event %" PRIu64 ": %s",
                          event / form->copies, expected);
}
