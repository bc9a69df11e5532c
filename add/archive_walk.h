// SPDX-License-Identifier: Apache-2.0
// Goes through the files of an archive that a stranger has made, and writes nothing: .deb (the archives in it), .rpm, .whl, .zip,
// .tar.*, .pkg.tar.zst, .apk, .crate. It ends with an error where the archive is damaged, takes more than its share of entries,
// bytes or levels, or has entries that no package needs: names that lead out of it, hard links, devices, files that run as
// another user.
#ifndef HEAPTAPE_ARCHIVE_WALK_H
#define HEAPTAPE_ARCHIVE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

// A regular file, while it is visited.
struct archive_file {
    const char *name;  // its path in the archive
    bool is_executable;
    const uint8_t *begin;  // its first bytes
    size_t begin_bytes;
    void *walk;
};

// Visits are in the archive's order; 0, or -1 with an error, which ends the walk. What the visitor does not read is passed over.
typedef int archive_visitor(void *context, struct archive_file *file, struct ht_error *error);

// path: for messages. 0, or -1 with an error.
int archive_walk(int fd, const char *path, archive_visitor *visit, void *context, struct ht_error *error);

// Writes the file's contents to fd, which may be called once during its visit.
int archive_file_copy(struct archive_file *file, int fd, struct ht_error *error);

#endif
