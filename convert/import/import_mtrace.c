// SPDX-License-Identifier: Apache-2.0
// The text of glibc's mtrace(3): where the call came from, a sign, an address and mostly a size.
#include <string.h>

#include "import_formats.h"
#include "name_builder.h"
#include "ops.h"

// A realloc is two lines, between which another thread's or a forked child's may come.
enum { OPEN_MAX = 64 };

struct mtrace {
    uint64_t open[OPEN_MAX];  // old blocks of the reallocs whose second line is to come, oldest first
    unsigned opened;
};

static const char ANY[] =
    "= Start, = End, or [@ WHERE] and + PTR SIZE, - PTR, < PTR, > PTR SIZE or ! PTR SIZE";

static bool is_sign(char c) { return c == '+' || c == '-' || c == '<' || c == '>' || c == '!'; }

// Steps over "@ WHERE ", in which anything may stand: the sign is the last one that an address follows. *where: what stands there.
static bool skip_where(struct import_text *line, struct import_text *where) {
    *where = (struct import_text){line->at, line->at};
    if (*line->at != '@') return true;
    if (line->end - line->at < 4) return false;
    for (const char *at = line->end - 4; at > line->at; at--) {
        if (at[-1] == ' ' && is_sign(*at) && at[1] == ' ' && (at[2] == '0' || at[2] == '(')) {
            *where = (struct import_text){line->at + 2, at - 1};
            line->at = at;
            return true;
        }
    }
    return false;
}

static bool read_line(struct import_text *line, struct import_text *where, char *sign, uint64_t *address,
                      uint64_t *size) {
    if (!skip_where(line, where)) return false;
    *sign = *line->at;
    if (!is_sign(*sign)) return false;
    line->at++;
    if (!text_is(line, ' ') || !text_pointer(line, address)) return false;
    if (*sign != '-' && *sign != '<' && (!text_is(line, ' ') || !text_number(line, size))) return false;
    return text_ends(line);
}

// Where the last such byte is; NULL: nowhere.
static const char *find_last(const struct import_text *text, char wanted) {
    return text->at < text->end ? memrchr(text->at, wanted, (size_t)(text->end - text->at)) : NULL;
}

// The caller: [FILE:][(SYMBOL+OFFSET)][ADDRESS], the address less the file's load bias. Before glibc 2.35 it is the whole
// address, for which the file's bias is not known. 0: another form.
static uint32_t site_of(struct import_sites *sites, struct import_text where) {
    static const uint64_t offsets_end = UINT64_C(1) << 40;
    char symbol[256] = "", demangled_name[DEMANGLED_BYTES_MAX];
    uint64_t address;
    bool known;
    const char *bracket = find_last(&where, '[');
    if (!bracket) return 0;
    struct import_text inside = {bracket + 1, where.end};
    if (!text_0x(&inside, &address) || !text_is(&inside, ']') || inside.at != where.end) return 0;
    where.end = bracket;
    const char *open = where.end > where.at && where.end[-1] == ')' ? find_last(&where, '(') : NULL;
    if (open) {
        struct import_text name = {open + 1, where.end - 1};
        const char *plus = find_last(&name, '+'), *minus = plus ? NULL : find_last(&name, '-');
        if (plus || minus) name.end = plus ? plus : minus;
        size_t bytes = (size_t)(name.end - name.at);
        if (bytes < sizeof symbol) memcpy(symbol, name.at, bytes);
        where.end = open;
    }
    bool in_file = where.end > where.at && where.end[-1] == ':' && address < offsets_end;
    uint32_t module = in_file ? import_sites_module(sites, where.at, (size_t)(where.end - 1 - where.at)) : 0,
             location = import_sites_location(sites, module, address, &known);
    if (!known && *symbol) import_sites_name(sites, location, demangled(symbol, demangled_name), NULL, 0);
    return import_sites_number(sites, import_sites_caller(sites, 0, location), HT_SITE_CUT);
}

// Which realloc's end is it? The one that kept its address, else the oldest.
static uint64_t close_realloc(struct mtrace *state, uint64_t address) {
    unsigned i = 0;
    while (i < state->opened && state->open[i] != address) i++;
    if (i == state->opened) i = 0;
    uint64_t old = state->open[i];
    for (state->opened--; i < state->opened; i++) state->open[i] = state->open[i + 1];
    return old;
}

// Tracing begins and ends, possibly more than once in a file.
static bool read_mark(struct import_text *line) {
    return text_word(line, "= ") && text_word(line, *line->at == 'S' ? "Start" : "End") && text_ends(line);
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct mtrace *state = import->state;
    struct import_call call = {0};
    struct import_text where;
    char sign;
    if (*line->at == '=') return read_mark(line) ? NULL : ANY;
    if (!read_line(line, &where, &sign, &call.address, &call.size)) return ANY;
    if (sign != '-' && sign != '<') call.site = site_of(&import->sites, where);
    switch (sign) {
    case '+': call.function = HT_MALLOC; break;
    case '-': call.function = HT_FREE; break;
    case '<':
        if (state->opened == OPEN_MAX) return "the second line of a realloc (>), after so many first ones";
        state->open[state->opened++] = call.address;
        return NULL;
    case '>':
        if (!state->opened) return "the first line of the realloc (<) before its second";
        call.function = HT_REALLOC;
        call.old_address = close_realloc(state, call.address);
        break;
    default:
        call.function = HT_REALLOC;
        call.old_address = call.address;
        call.address = 0;
        call.failed = true;
    }
    return import_sink_call(&import->sink, &call);
}

// A file that ends within a realloc: the block is as it was.
static int count_unfinished(struct import *import, struct ht_error *error) {
    const struct mtrace *state = import->state;
    (void)error;
    import->sink.heap.totals.unfinished += state->opened;
    return 0;
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line, where;
    char sign;
    uint64_t address, size;
    if (!import_first_line(head, bytes, &line)) return false;
    return *line.at == '=' ? read_mark(&line) : read_line(&line, &where, &sign, &address, &size);
}

const struct import_format import_mtrace = {.name = "mtrace",
                                            .title = "glibc mtrace(3)",
                                            .sniff = sniff,
                                            .state_bytes = sizeof(struct mtrace),
                                            .has_sites = true,
                                            .line = take_line,
                                            .end = count_unfinished};
