// SPDX-License-Identifier: Apache-2.0
// The list of loaded objects, which the loader locks against changes while a function visits it. Another thread may hold that
// lock for as long as it likes: in a callback of the program's (dl_iterate_phdr), which waits for what the calling thread has
// yet to do, or in the parent of a forked child, for ever.
#ifndef HEAPTAPE_LOADER_H
#define HEAPTAPE_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"

// False: another thread holds the lock. One that holds it may take it again.
HIDDEN bool loader_lock(void);
HIDDEN void loader_unlock(void);
// Does what dl_iterate_phdr does, without waiting. False: another thread holds the lock, and nothing was visited.
HIDDEN bool loader_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);
// In a forked child of a process that had several threads.
HIDDEN void loader_may_be_locked(void);

struct loaded_object {
    uintptr_t start, end;  // of all its segments
    const char *name;      // as the loader has it: "" for the program itself
};
// The object that the address lies in. All zero and "" if there is none, or another thread holds the lock.
HIDDEN struct loaded_object loader_object_of(const void *address);

// Is the address in one of its segments?
HIDDEN bool loader_object_has(const struct dl_phdr_info *info, const void *address);

// NULL if no loaded object defines the symbol, or another thread holds the lock of the loader's list.
HIDDEN void *symbol_behind_us(const char *name);
HIDDEN void *symbol_anywhere(const char *name);
HIDDEN void *symbol_of(struct dl_phdr_info *object, const char *name);
HIDDEN void *symbol_inside(const void *object, const char *name);  // in the one that lies at the address

enum { BUILD_ID_BYTES_MAX = 64 };

// Reads it from the notes of the object, which is loaded at the bias and stays so meanwhile. Returns its length; 0: it has none,
// or a longer one.
HIDDEN size_t build_id_read(uintptr_t bias, const ElfW(Phdr) * segment, unsigned segments,
                            unsigned char id[BUILD_ID_BYTES_MAX]);

#endif
