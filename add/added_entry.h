// SPDX-License-Identifier: Apache-2.0
// An allocator's folder, made beside the others under a name that nothing lists, and there as a whole or not at all.
#ifndef HEAPTAPE_ADDED_ENTRY_H
#define HEAPTAPE_ADDED_ENTRY_H

#include <limits.h>
#include <stdbool.h>

#include "error.h"

struct added_entry {
    char all[PATH_MAX], partial[PATH_MAX];
    int fd;  // of partial, which is locked: one that nobody has locked is left over, and removed by the next
};

// 0, or -1 with an error.
int added_entry_begin(struct added_entry *entry, struct ht_error *error);
// Copies what fd has from its beginning into a new file.
int added_entry_put(const struct added_entry *entry, const char *name, int fd, struct ht_error *error);
int added_entry_put_text(const struct added_entry *entry, const char *name, const char *text,
                         struct ht_error *error);
// Gives it its name. False with errno, EEXIST where another is there.
bool added_entry_commit(struct added_entry *entry, const char *name);
// Removes what has no name yet.
void added_entry_abandon(struct added_entry *entry);

// 0, or -1 with an error: there is none of that name.
int added_entry_remove(const char *name, struct ht_error *error);

#endif
