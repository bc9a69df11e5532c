// SPDX-License-Identifier: Apache-2.0
#include "build_id.h"

#include <string.h>

// Names and contents of notes are filled up to 4 bytes.
static size_t filled(size_t bytes) { return (bytes + 3) & ~(size_t)3; }

static size_t find_in_notes(const char *at, size_t left, unsigned char id[BUILD_ID_BYTES_MAX]) {
    while (left >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = (const char *)(note + 1);
        size_t before = sizeof *note + filled(note->n_namesz), bytes = note->n_descsz;
        if (before + bytes > left) break;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4) &&
            bytes <= BUILD_ID_BYTES_MAX) {
            memcpy(id, at + before, bytes);
            return bytes;
        }
        size_t whole = before + filled(bytes);
        if (whole >= left) break;
        at += whole;
        left -= whole;
    }
    return 0;
}

size_t build_id_read(uintptr_t bias, const ElfW(Phdr) * segment, unsigned segments,
                     unsigned char id[BUILD_ID_BYTES_MAX]) {
    size_t bytes = 0;
    for (unsigned i = 0; i < segments && !bytes; i++)
        if (segment[i].p_type == PT_NOTE)
            bytes = find_in_notes((const char *)(bias + segment[i].p_vaddr), segment[i].p_memsz, id);
    return bytes;
}
