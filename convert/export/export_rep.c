// SPDX-License-Identifier: Apache-2.0
// The .rep files of CS:APP's malloc lab: suggested heap size, ids, operations and weight, then a ID SIZE |
// r ID SIZE | f ID. Ids are given in order of birth and never again: some drivers take no id twice. None
// takes NULL for an answer, so that sizes of 0 become 1.
#include <stdlib.h>

#include "export_format.h"

enum { NUMBER_WIDTH = 20, NUMBERS = 4 };

struct rep_state {
    uint64_t births;
};

static bool begin(struct exporter *exporter) {
    exporter->own = calloc(1, sizeof(struct rep_state));
    return exporter->own != NULL;
}

static void end(struct exporter *exporter) { free(exporter->own); }

// The id of the call's object, which a birth gives; false if there is none.
static bool find_id(struct exporter *exporter, const struct export_call *call, uint64_t *id) {
    struct rep_state *state = exporter->own;
    uint64_t *id_plus_1 = export_number(exporter, call->slot);
    if (call->action == EXPORT_MALLOC) *id_plus_1 = ++state->births;
    if (*id_plus_1 == 0) {
        exporter->wrong = "expected an object that was allocated before";
        return false;
    }
    *id = *id_plus_1 - 1;
    return true;
}

static void put_call(struct exporter *exporter, const struct export_call *call) {
    struct export_text *text = &exporter->text;
    uint64_t id;
    if (call->action == EXPORT_NOTHING || !find_id(exporter, call, &id)) return;
    export_text_line(text);
    export_put_char(text, call->action == EXPORT_MALLOC ? 'a' : call->action == EXPORT_REALLOC ? 'r' : 'f');
    export_put_char(text, ' ');
    export_put_decimal(text, id);
    if (call->action != EXPORT_FREE) {
        export_put_char(text, ' ');
        export_put_decimal(text, call->size);
    }
    export_put_char(text, '\n');
    exporter->lines++;
}

static void put_header(const struct exporter *exporter, char *header) {
    const struct rep_state *state = exporter->own;
    const uint64_t numbers[NUMBERS] = {exporter->peak_live_bytes, state->births, exporter->lines, 1};
    for (size_t i = 0; i < NUMBERS; i++)
        export_padded_number(header + i * (NUMBER_WIDTH + 1), NUMBER_WIDTH, numbers[i]);
}

const struct export_format export_rep = {.name = "rep",
                                         .suffix = ".rep",
                                         .unsaid = "threads, times, samples, residency",
                                         .header_bytes = NUMBERS * (NUMBER_WIDTH + 1),
                                         .begin = begin,
                                         .call = put_call,
                                         .end = end,
                                         .header = put_header};
