// SPDX-License-Identifier: Apache-2.0
#include "live_births.h"

#include <stdlib.h>

#include "ops.h"
#include "slot_table.h"

struct finding {
    struct slot_table births;  // of uint64_t: the event of the live block, and 1
    struct ht_op_shape shape[256];
    bool over;
};

static bool take_section(struct finding *finding, const struct ht_events *events, uint64_t at_ns) {
    if (!slot_table_reach(&finding->births, events->slot, events->rows)) return false;
    uint64_t *birth = finding->births.items;
    for (uint32_t i = 0; i < events->rows && !finding->over; i++) {
        const struct ht_op_shape shape = finding->shape[events->op[i]];
        finding->over = events->time_ns[i] > at_ns;
        if (finding->over || !shape.slot) continue;
        if (shape.makes_object) birth[events->slot[i]] = events->first_event + i + 1;
        else if (shape.ends_object) birth[events->slot[i]] = 0;
    }
    return true;
}

static bool mark(struct live_births *births, const struct finding *finding) {
    births->word = calloc(births->events / 64 + 1, sizeof *births->word);
    if (!births->word) return false;
    const uint64_t *birth = finding->births.items;
    for (uint64_t slot = 0; (slot = slot_table_next(&finding->births, slot)) < finding->births.room; slot++) {
        uint64_t event = birth[slot] - 1;  // of no block: beyond all
        if (event < births->events) births->word[event / 64] |= UINT64_C(1) << event % 64;
    }
    return true;
}

int live_births_find(struct live_births *births, struct ht_trace_reader *reader, const char *path,
                     uint64_t at_ns, struct ht_error *error) {
    struct finding finding = {.births = slot_table_of(sizeof(uint64_t))};
    int status = 0;
    bool room = true;
    for (unsigned op = 0; op < 256; op++) finding.shape[op] = ht_op_shape((uint8_t)op);
    *births = (struct live_births){.word = NULL};
    for (size_t i = 0; i < ht_trace_sections(reader) && !status && room && !finding.over; i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        status = ht_trace_events(reader, i, &events, error);
        if (status) break;
        room = take_section(&finding, &events, at_ns);
        births->events = events.first_event + events.rows;
    }
    if (!status && (!room || !mark(births, &finding))) status = ht_error_memory(error, path, "cannot slice");
    slot_table_free(&finding.births);
    return status;
}

void live_births_free(struct live_births *births) { free(births->word); }
