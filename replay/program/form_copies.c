// SPDX-License-Identifier: Apache-2.0
#include "form_copies.h"

enum { PORTION_ROWS = 4096 };

// So much of a section at a time.
struct portion {
    uint8_t op[PORTION_ROWS];
    uint32_t thread[PORTION_ROWS], slot[PORTION_ROWS];
    uint64_t time_ns[PORTION_ROWS], size[PORTION_ROWS], extra[PORTION_ROWS];
};

// Row `to` becomes the event of row `from`, for this copy. Slot 0 (free(NULL)) is everybody's.
static void put(struct portion *portion, uint32_t to, const struct ht_events *events, uint32_t from,
                uint32_t copies, uint32_t copy) {
    uint32_t slot = events->slot[from];
    portion->op[to] = events->op[from];
    portion->thread[to] = events->thread[from];
    portion->time_ns[to] = events->time_ns[from];
    portion->slot[to] = slot ? slot * copies + copy : 0;
    portion->size[to] = events->size[from];
    portion->extra[to] = events->extra[from];
}

int ht_form_visit_copies(struct ht_form_state *form, const struct ht_section_place *place,
                         const struct ht_events *events, ht_section_visitor *visit, void *context) {
    static_assert((int)HT_SCALE_MAX <= (int)PORTION_ROWS, "an event's copies fit into one portion");
    struct portion portion;
    uint32_t copies = form->copies, events_at_once = PORTION_ROWS / copies;
    for (uint32_t from = 0; from < events->rows; from += events_at_once) {
        uint32_t end = events->rows - from < events_at_once ? events->rows : from + events_at_once, rows = 0;
        for (uint32_t i = from; i < end; i++) {
            for (uint32_t copy = 0; copy < copies; copy++) put(&portion, rows++, events, i, copies, copy);
        }
        struct ht_events copied = {.rows = rows,
                                   .first_event = (events->first_event + from) * copies,
                                   .op = portion.op,
                                   .thread = portion.thread,
                                   .time_ns = portion.time_ns,
                                   .slot = portion.slot,
                                   .size = portion.size,
                                   .extra = portion.extra};
        int stop = visit(context, place, &copied);
        if (stop) return stop;
    }
    return 0;
}
