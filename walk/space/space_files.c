// SPDX-License-Identifier: Apache-2.0
// The files that are mapped: what of them is in nobody's memory is read from them, and not through the process, whose
// memory it would then be part of.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "all_bytes.h"
#include "grow.h"
#include "space.h"

enum { FILES_MAX = 512 };

// ---- file systems that need not answer ----

static bool is_of_a_server(const char *kind) {
    static const char *const kinds[] = {"fuse", "nfs", "cifs",   "smb",   "9p",
                                        "ceph", "afs", "autofs", "lustre"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(kind, kinds[i], strlen(kinds[i]))) return true;
    return false;
}

// A line is "36 35 98:0 /folder /where rw,noatime master:1 - ext4 /dev/root rw", its names without blanks.
static bool need_not_answer(const struct space_mapping *mapping, const char *mounts) {
    for (const char *line = mounts, *next; line && *line; line = next) {
        unsigned major_number, minor_number;
        const char *end = strchr(line, '\n'), *kind = strstr(line, " - ");
        next = end ? end + 1 : line + strlen(line);
        if (!kind || kind >= next || sscanf(line, "%*u %*u %u:%u", &major_number, &minor_number) != 2)
            continue;
        if (major_number == mapping->major_number && minor_number == mapping->minor_number)
            return is_of_a_server(kind + strlen(" - "));
    }
    return false;
}

// ---- opening ----

// Is it the file that is mapped there? Its first page, which has its build ID, is in the core, and mostly in RAM.
static bool is_same(const struct space *space, const struct space_mapping *first, int fd,
                    const struct stat *file) {
    char mapped[SPACE_PAGE_BYTES], in_file[SPACE_PAGE_BYTES];
    if (first->inode && first->inode == file->st_ino &&
        makedev(first->major_number, first->minor_number) == file->st_dev)
        return true;
    return space_read_all(space, first->start, mapped, sizeof mapped) &&
           ht_read_at(fd, in_file, sizeof in_file, 0) && !memcmp(mapped, in_file, sizeof mapped);
}

// A name may lead to anything, which to open may change it: it is first looked at.
static int open_regular(const char *folder, const char *name, struct stat *file) {
    char path[PATH_MAX], number[64];
    int fd = -1;
    if (*name != '/' || snprintf(path, sizeof path, "%s%s", folder, name) >= (int)sizeof path) return -1;
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0) return -1;
    snprintf(number, sizeof number, "/proc/self/fd/%d", place);
    if (!fstat(place, file) && S_ISREG(file->st_mode))
        fd = open(number, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    close(place);
    return fd;
}

static int open_same(const struct space *space, const struct space_mapping *first, const char *folder) {
    struct stat file;
    int fd = open_regular(folder, first->name, &file);
    if (fd >= 0 && is_same(space, first, fd, &file)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

// ---- segments ----

struct files {
    struct space *space;
    const char *folder, *mounts;
    struct space_segment *segments;
    size_t segment_count, segment_room;
};

// -1: it is not to be had. A name is one of the process's own folders, or, where it changed its root, of all.
static int add_file(struct files *files, const struct space_mapping *first) {
    struct space *space = files->space;
    if (space->file_count == FILES_MAX || need_not_answer(first, files->mounts) ||
        !ht_grow(&space->files, &space->file_room, space->file_count + 1, sizeof *space->files))
        return -1;
    int fd = open_same(space, first, files->folder);
    if (fd < 0 && *files->folder) fd = open_same(space, first, "");
    if (fd >= 0) space->files[space->file_count++] = fd;
    return fd;
}

static bool may_be_read(const struct space *space, const struct space_mapping *mapping) {
    if (mapping->anonymous || mapping->shared || !mapping->readable) return false;
    return !space_is_core(space) || !mapping->writable;  // what was written to is in the core
}

// False for want of memory.
static bool add_mapping(struct files *files, const struct space_mapping *mapping, int fd) {
    uint64_t begun = 0;
    char byte;
    if (space_is_core(files->space)) {
        if (!mapping->file_offset) begun = SPACE_PAGE_BYTES;  // that page is in the core
        if (mapping->start + begun >= mapping->end ||
            space_read(files->space, mapping->start + begun, &byte, 1))
            return true;
    }
    if (!ht_grow(&files->segments, &files->segment_room, files->segment_count + 1, sizeof *files->segments))
        return false;
    files->segments[files->segment_count++] = (struct space_segment){
        mapping->start + begun, mapping->end - mapping->start - begun, mapping->file_offset + begun, fd};
    return true;
}

static bool add_all(struct files *files) {
    const struct space *space = files->space;
    const struct space_mapping *first = NULL;
    int fd = -1;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        if (!may_be_read(space, mapping)) continue;
        if (!mapping->file_offset) {
            first = mapping;
            fd = add_file(files, first);
        }
        if (fd >= 0 && !strcmp(mapping->name, first->name) && !add_mapping(files, mapping, fd)) return false;
    }
    return true;
}

int space_add_files(struct space *space, const char *folder, const char *mounts, struct ht_error *error) {
    struct files files = {.space = space, .folder = folder, .mounts = mounts};
    size_t count = space->segment_count;
    bool enough = add_all(&files) && ht_grow(&space->segments, &space->segment_room,
                                             count + files.segment_count, sizeof *space->segments);
    if (enough && files.segment_count) {
        memcpy(space->segments + count, files.segments, files.segment_count * sizeof *files.segments);
        space->segment_count += files.segment_count;
        space_order(space);
    }
    free(files.segments);
    return enough ? 0 : ht_error_memory(error, "walk", "segments");
}
