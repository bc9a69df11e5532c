// SPDX-License-Identifier: Apache-2.0
// What the first malloc_wrap's converter made of its text: a number, then one call a line, with ids instead
// of addresses. The number bounds the ids: it is that of the ids plus one, or in older files that of the
// calls.
#include "import_formats.h"

struct converted {
    bool bounded;
    uint64_t bound;
};

static const char EXPECTED[] = "m ID SIZE, c ID COUNT SIZE, r NEWID OLDID SIZE or f ID";

static bool read_number(struct import_text *line, uint64_t *value) {
    return text_is(line, ' ') && text_decimal(line, value);
}

static bool read_line(struct import_text *line, struct import_call *call) {
    char letter = *line->at;
    if (letter != 'm' && letter != 'c' && letter != 'r' && letter != 'f') return false;
    line->at++;
    call->function = letter == 'm'   ? HT_MALLOC
                     : letter == 'c' ? HT_CALLOC
                     : letter == 'r' ? HT_REALLOC
                                     : HT_FREE;
    if (!read_number(line, &call->address)) return false;
    if (letter == 'c' && !read_number(line, &call->extra)) return false;
    if (letter == 'r' && !read_number(line, &call->old_address)) return false;
    if (letter != 'f' && !read_number(line, &call->size)) return false;
    return text_ends(line);
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct converted *state = import->state;
    struct import_call call = {0};
    if (!state->bounded) {
        text_skip_blanks(line);
        state->bounded = text_decimal(line, &state->bound) && text_ends(line);
        return state->bounded ? NULL : "the number of ids plus one";
    }
    if (!read_line(line, &call)) return EXPECTED;
    if (call.address > state->bound || call.old_address > state->bound)
        return "an id within the number that the file begins with";
    return import_sink_call(&import->sink, &call);
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line;
    struct import_call call = {0};
    uint64_t number;
    if (!import_first_line(head, bytes, &line) || !text_decimal(&line, &number) || !text_ends(&line))
        return false;
    size_t used = (size_t)(line.end - head);
    return import_first_line(head + used, bytes - used, &line) && read_line(&line, &call);
}

const struct import_format import_malloc_wrap = {.name = "malloc_wrap",
                                                 .title = "malloc_wrap's converted text",
                                                 .sniff = sniff,
                                                 .state_bytes = sizeof(struct converted),
                                                 .line = take_line};
