// SPDX-License-Identifier: Apache-2.0
#include "demangle.h"

#include <libiberty/demangle.h>
#include <string.h>

// libiberty's functions that allocate link code of other licences, those with a callback do not.
struct written {
    char *text;
    size_t bytes;
};

static void write_part(const char *part, size_t bytes, void *opaque) {
    struct written *written = opaque;
    size_t room = DEMANGLED_BYTES_MAX - 1 - written->bytes;
    if (bytes > room) bytes = room;
    memcpy(written->text + written->bytes, part, bytes);
    written->bytes += bytes;
}

bool is_mangled(const char *symbol) {
    return symbol && symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R');
}

const char *demangled(const char *symbol, char *text) {
    if (!is_mangled(symbol)) return symbol;
    struct written written = {.text = text};
    // Older Rust names are C++ names with a hash at the end.
    bool done = rust_demangle_callback(symbol, 0, write_part, &written);
    if (!done) {
        written.bytes = 0;
        done = cplus_demangle_v3_callback(symbol, 0, write_part, &written);
    }
    text[written.bytes] = 0;
    return done && written.bytes ? text : symbol;
}
