// SPDX-License-Identifier: Apache-2.0
#include "form_state.h"

#include <inttypes.h>

#include "grow.h"

int ht_form_grow(struct ht_form_state *form, void *place, size_t *room, size_t needed, size_t element_bytes) {
    if (ht_grow(place, room, needed, element_bytes)) return 0;
    return ht_error_memory(form->error, form->path, "decoding the trace");
}

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected) {
    return ht_error_input(form->error, form->path, place->offset, "event %" PRIu64 ": %s",
                          event / form->copies, expected);
}
