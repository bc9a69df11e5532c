// SPDX-License-Identifier: Apache-2.0
#include "space.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grow.h"
#include "sorted.h"

static size_t read_file(int fd, uint64_t offset, uint8_t *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

// The segment that holds the address, or NULL.
static const struct space_segment *segment_at(const struct space *space, uint64_t address) {
    size_t behind = HT_FIRST_ABOVE(space->segments, space->segment_count, start, address);
    const struct space_segment *found = behind ? &space->segments[behind - 1] : NULL;
    return found && address - found->start < found->bytes ? found : NULL;
}

static size_t read_segments(const struct space *space, uint64_t address, uint8_t *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const struct space_segment *found = segment_at(space, address + done);
        if (!found) break;
        uint64_t inside = address + done - found->start, left = found->bytes - inside;
        size_t part = left < bytes - done ? (size_t)left : bytes - done;
        size_t got = read_file(found->fd, found->file_offset + inside, to + done, part);
        done += got;
        if (got < part) break;
    }
    return done;
}

// Up to the end of pages that are alike.
static size_t read_stretch(const struct space *space, const struct space_mapping *mapping, uint64_t address,
                           uint8_t *to, size_t bytes) {
    const uint64_t page = SPACE_PAGE_BYTES - 1;
    uint64_t end = address + bytes < mapping->end ? address + bytes : mapping->end;
    struct space_stretch stretch = space_stretch_at(space, address & ~page, (end + page) & ~page);
    size_t part = (size_t)((stretch.end < end ? stretch.end : end) - address);
    if (stretch.swapped) return 0;
    if (stretch.in_ram) return read_file(space->memory_fd, address, to, part);
    if (!mapping->anonymous) return read_segments(space, address, to, part);
    memset(to, 0, part);
    return part;
}

static size_t read_process(const struct space *space, uint64_t address, uint8_t *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const struct space_mapping *mapping = space_mapping_at(space, address + done);
        size_t got = mapping && !mapping->shared
                         ? read_stretch(space, mapping, address + done, to + done, bytes - done)
                         : 0;
        if (!got) break;
        done += got;
    }
    return done;
}

size_t space_read(const struct space *space, uint64_t address, void *to, size_t bytes) {
    if (!bytes || address + bytes < address || address + bytes > INT64_MAX) return 0;
    return space_is_core(space) ? read_segments(space, address, to, bytes)
                                : read_process(space, address, to, bytes);
}

bool space_read_all(const struct space *space, uint64_t address, void *to, size_t bytes) {
    return space_read(space, address, to, bytes) == bytes;
}

const struct space_mapping *space_mapping_from(const struct space *space, uint64_t address) {
    size_t found = HT_FIRST_ABOVE(space->mappings, space->mapping_count, end, address);
    return found < space->mapping_count ? &space->mappings[found] : NULL;
}

const struct space_mapping *space_mapping_at(const struct space *space, uint64_t address) {
    const struct space_mapping *mapping = space_mapping_from(space, address);
    return mapping && mapping->start <= address ? mapping : NULL;
}

static int by_start(const void *a, const void *b) {
    const struct space_mapping *one = a, *other = b;
    return (one->start > other->start) - (one->start < other->start);
}

static int by_segment_start(const void *a, const void *b) {
    const struct space_segment *one = a, *other = b;
    return (one->start > other->start) - (one->start < other->start);
}

void space_order(struct space *space) {
    if (space->segment_count)
        qsort(space->segments, space->segment_count, sizeof *space->segments, by_segment_start);
    if (!space->mapping_count) return;
    qsort(space->mappings, space->mapping_count, sizeof *space->mappings, by_start);
    size_t kept = 1;
    for (size_t i = 1; i < space->mapping_count; i++) {
        struct space_mapping *last = &space->mappings[kept - 1], *one = &space->mappings[i];
        if (one->start < last->end) continue;  // no kernel says that
        one->behind_file = one->anonymous && !*one->name && one->start == last->end &&
                           (!last->anonymous || last->behind_file);
        space->mappings[kept++] = *one;
    }
    space->mapping_count = kept;
}

// "start-end perms offset device inode   name"
static bool parse_line(char *line, struct space_mapping *mapping) {
    char permissions[8], *name;
    int length = 0;
    *mapping = (struct space_mapping){0};
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping->start,
               &mapping->end, permissions, &mapping->file_offset, &mapping->major_number,
               &mapping->minor_number, &mapping->inode, &length) < 7 ||
        !length || mapping->start >= mapping->end || strlen(permissions) != 4)
        return false;
    name = line + length;
    mapping->readable = permissions[0] == 'r';
    mapping->writable = permissions[1] == 'w';
    mapping->shared = permissions[3] == 's';
    mapping->anonymous = mapping->inode == 0;
    mapping->name = name;
    return true;
}

int space_parse_maps(struct space *space, char *text, const char *path, struct ht_error *error) {
    space->names = text;
    for (char *line = text, *next; *line; line = next) {
        char *end = strchr(line, '\n');
        next = end ? end + 1 : line + strlen(line);
        if (end) *end = 0;
        struct space_mapping mapping;
        if (!parse_line(line, &mapping))
            return ht_error_input(error, path, (uint64_t)(line - text),
                                  "expected a mapping, found another line");
        if (!strcmp(mapping.name, "[vsyscall]")) continue;
        if (!ht_grow(&space->mappings, &space->mapping_room, space->mapping_count + 1, sizeof mapping))
            return ht_error_memory(error, path, "the mappings");
        space->mappings[space->mapping_count++] = mapping;
    }
    space_order(space);
    return 0;
}

void space_free(struct space *space) {
    free(space->mappings);
    free(space->segments);
    free(space->names);
    for (size_t i = 0; i < space->file_count; i++) close(space->files[i]);
    free(space->files);
    if (space->memory_fd >= 0) close(space->memory_fd);
    if (space->pagemap_fd >= 0) close(space->pagemap_fd);
    *space = (struct space){.memory_fd = -1, .pagemap_fd = -1};
}

// ---- a window ----

void space_window_open(struct space_window *window, const struct space *space,
                       const struct space_runs *runs) {
    window->space = space;
    window->runs = runs;
    space_window_refresh(window);
}

static void fill(struct space_window *window, uint64_t address) {
    window->start = address & ~(SPACE_PAGE_BYTES - 1);
    window->end = window->start + SPACE_WINDOW_BYTES;
    memset(window->bytes, 0, sizeof window->bytes);
    for (size_t i = space_runs_find(window->runs, window->start);
         i < window->runs->count && window->runs->run[i].start < window->end; i++) {
        const struct space_run *run = &window->runs->run[i];
        uint64_t from = run->start > window->start ? run->start : window->start;
        uint64_t to = run->end < window->end ? run->end : window->end;
        (void)space_read(window->space, from, window->bytes + (from - window->start), to - from);
    }
}

const void *space_window_at(struct space_window *window, uint64_t address, size_t bytes) {
    if (address < window->start || address + bytes > window->end) fill(window, address);
    return window->bytes + (address - window->start);
}
