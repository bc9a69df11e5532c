// SPDX-License-Identifier: Apache-2.0
// malloc_wrap's converted text: the number of ids plus one, then m ID SIZE | c ID N SIZE | r NEW OLD SIZE | f
// ID. It has one id per distinct address, reused when the address is; slots are the ids here. Id 0 is NULL.
#include "export_format.h"

enum { NUMBER_WIDTH = 20 };

static void put_call(struct exporter *exporter, const struct export_call *call) {
    struct export_text *text = &exporter->text;
    static const char letter[] = {
        [EXPORT_MALLOC] = 'm',       [EXPORT_CALLOC] = 'c', [EXPORT_REALLOC] = 'r',  [EXPORT_RELEASE] = 'r',
        [EXPORT_REALLOC_NULL] = 'r', [EXPORT_FREE] = 'f',   [EXPORT_FREE_NULL] = 'f'};
    enum export_action action = call->action;
    if (action == EXPORT_NOTHING) return;
    export_text_line(text);
    export_put_char(text, letter[action]);
    export_put_char(text, ' ');
    export_put_decimal(text, action == EXPORT_RELEASE || action == EXPORT_FREE_NULL ? 0 : call->slot);
    if (action != EXPORT_FREE && action != EXPORT_FREE_NULL) {
        export_put_char(text, ' ');
        if (action == EXPORT_CALLOC) {
            export_put_decimal(text, call->count);
            export_put_char(text, ' ');
        } else if (action != EXPORT_MALLOC) {
            export_put_decimal(text, action == EXPORT_REALLOC_NULL ? 0 : call->slot);
            export_put_char(text, ' ');
        }
        export_put_decimal(text, call->size);
    }
    export_put_char(text, '\n');
    exporter->lines++;
}

static void put_header(const struct exporter *exporter, char *header) {
    export_padded_number(header, NUMBER_WIDTH, (uint64_t)exporter->slot_max + 1);
}

const struct export_format export_malloc_wrap = {.name = "malloc_wrap",
                                                 .suffix = ".malloc_wrap.txt",
                                                 .unsaid = "threads, times, samples, residency",
                                                 .abilities = EXPORT_HAS_CALLOC | EXPORT_HAS_REALLOC_NULL |
                                                              EXPORT_HAS_RELEASE | EXPORT_HAS_FREE_NULL |
                                                              EXPORT_HAS_SIZE_0,
                                                 .header_bytes = NUMBER_WIDTH + 1,
                                                 .call = put_call,
                                                 .header = put_header};
