// SPDX-License-Identifier: Apache-2.0
// The text of the first malloc_wrap: lines in the form of C, the addresses as names of variables.
#include "import_formats.h"

static const char EXPECTED[] =
    "xADDR = malloc(SIZE);, xADDR = calloc(COUNT, SIZE);, xNEW = realloc(xOLD, SIZE); or free(xADDR);";

static bool read_variable(struct import_text *line, uint64_t *address) {
    return text_is(line, 'x') && text_hex(line, address);
}

// What follows "xADDR = ".
static bool read_call(struct import_text *line, struct import_call *call) {
    switch (*line->at) {
    case 'm':
        call->function = HT_MALLOC;
        return text_word(line, "malloc(") && text_decimal(line, &call->size);
    case 'c':
        call->function = HT_CALLOC;
        return text_word(line, "calloc(") && text_decimal(line, &call->extra) && text_word(line, ", ") &&
               text_decimal(line, &call->size);
    case 'r':
        call->function = HT_REALLOC;
        return text_word(line, "realloc(") && read_variable(line, &call->old_address) &&
               text_word(line, ", ") && text_decimal(line, &call->size);
    default: return false;
    }
}

static bool read_line(struct import_text *line, struct import_call *call) {
    if (*line->at == 'f') {
        call->function = HT_FREE;
        if (!text_word(line, "free(") || !read_variable(line, &call->address)) return false;
    } else if (!read_variable(line, &call->address) || !text_word(line, " = ") || !read_call(line, call)) {
        return false;
    }
    return text_word(line, ");") && text_ends(line);
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct import_call call = {0};
    if (!read_line(line, &call)) return EXPECTED;
    return import_sink_call(&import->sink, &call);
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line;
    struct import_call call = {0};
    return import_first_line(head, bytes, &line) && read_line(&line, &call);
}

const struct import_format import_malloc_wrap_raw = {
    .name = "malloc_wrap_raw", .title = "malloc_wrap's own text", .sniff = sniff, .line = take_line};
