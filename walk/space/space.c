// SPDX-License-Identifier: Apache-2.0
#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "all_bytes.h"
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

void space_order(struct space *space) {
    if (space->segment_count)
        qsort(space->segments, space->segment_count, sizeof *space->segments, ht_by_word);
    if (!space->mapping_count) return;
    qsort(space->mappings, space->mapping_count, sizeof *space->mappings, ht_by_word);
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

// ---- which pages are in RAM ----
//
// The kernel's page tables: PAGEMAP_SCAN of Linux 6.7, else an entry a page.

struct scanned_region {
    uint64_t start, end, categories;
};
// Of a call that asks for more, Linux 6.18 tells of some pages twice.
enum { REGIONS_MAX = 512, ENTRIES_MAX = 1024 };

enum { IS_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4, IS_ZERO = 1 << 5, IS_HUGE = 1 << 6 };

// Of Documentation/admin-guide/mm/pagemap.rst.
#define ENTRY_PRESENT   (UINT64_C(1) << 63)
#define ENTRY_SWAPPED   (UINT64_C(1) << 62)
#define ENTRY_OF_A_FILE (UINT64_C(1) << 61)

static bool add_run(struct space_runs *runs, uint64_t start, uint64_t end) {
    runs->bytes += end - start;
    if (runs->count && runs->run[runs->count - 1].end == start) {
        runs->run[runs->count - 1].end = end;
        return true;
    }
    if (!ht_grow(&runs->run, &runs->room, runs->count + 1, sizeof *runs->run)) return false;
    runs->run[runs->count++] = (struct space_run){start, end};
    return true;
}

static bool add_region(struct space_runs *runs, const struct scanned_region *region) {
    uint64_t bytes = region->end - region->start;
    if (region->categories & IS_SWAPPED) {
        runs->swapped_bytes += bytes;
        return true;
    }
    if (region->categories & (IS_ZERO | IS_FILE)) return true;
    if (region->categories & IS_HUGE) runs->huge_bytes += bytes;
    return add_run(runs, region->start, region->end);
}

// 1: added; 0: this kernel cannot; -1: for want of memory.
static int scan(const struct space *space, uint64_t start, uint64_t end, struct space_runs *runs) {
    struct scanned_region regions[REGIONS_MAX];
    for (uint64_t at = start; at < end;) {
        struct space_scan arguments = {
            .size = sizeof arguments,
            .start = at,
            .end = end,
            .regions = (uintptr_t)regions,
            .region_room = REGIONS_MAX,
            .any_of = IS_PRESENT | IS_SWAPPED,
            .wanted = IS_FILE | IS_PRESENT | IS_SWAPPED | IS_ZERO | IS_HUGE,
        };
        int found = ioctl(space->pagemap_fd, SPACE_SCAN_CALL, &arguments);
        if (found < 0) return at == start ? 0 : 1;
        for (int i = 0; i < found; i++)
            if (!add_region(runs, &regions[i])) return -1;
        if (arguments.walk_end <= at) break;
        at = arguments.walk_end;
    }
    return 1;
}

static bool read_entries(const struct space *space, uint64_t start, uint64_t end, struct space_runs *runs) {
    uint64_t entries[ENTRIES_MAX];
    for (uint64_t at = start; at < end;) {
        uint64_t wanted = (end - at) / SPACE_PAGE_BYTES;
        if (wanted > ENTRIES_MAX) wanted = ENTRIES_MAX;
        ssize_t got = pread(space->pagemap_fd, entries, wanted * sizeof *entries,
                            (off_t)(at / SPACE_PAGE_BYTES * sizeof *entries));
        if (got < 0 && errno == EINTR) continue;
        if (got < (ssize_t)sizeof *entries) break;
        size_t count = (size_t)got / sizeof *entries;
        for (size_t i = 0; i < count; i++, at += SPACE_PAGE_BYTES) {
            if (entries[i] & ENTRY_SWAPPED) runs->swapped_bytes += SPACE_PAGE_BYTES;
            else if (entries[i] & ENTRY_PRESENT && !(entries[i] & ENTRY_OF_A_FILE) &&
                     !add_run(runs, at, at + SPACE_PAGE_BYTES))
                return false;
        }
    }
    return true;
}

// ---- pages that are alike ----

// The first region of pages of these categories, all or any of them. As the call returns: 1, 0 if there is none, or -1.
static int scan_first(const struct space *space, uint64_t start, uint64_t end, uint64_t all_of,
                      uint64_t any_of, struct scanned_region *region) {
    struct space_scan arguments = {
        .size = sizeof arguments,
        .start = start,
        .end = end,
        .regions = (uintptr_t)region,
        .region_room = 1,
        .all_of = all_of,
        .any_of = any_of,
        .wanted = all_of | any_of,
    };
    return ioctl(space->pagemap_fd, SPACE_SCAN_CALL, &arguments);
}

static struct space_stretch scan_stretch(const struct space *space, uint64_t start, uint64_t end) {
    struct scanned_region region = {0};
    int found = scan_first(space, start, end, 0, IS_PRESENT | IS_SWAPPED, &region);
    if (found < 0) return (struct space_stretch){0};
    if (!found) return (struct space_stretch){.end = end};
    if (region.start > start) return (struct space_stretch){.end = region.start};
    return (struct space_stretch){.end = region.end,
                                  .in_ram = region.categories & IS_PRESENT,
                                  .swapped = region.categories & IS_SWAPPED};
}

struct space_run space_zero_run(const struct space *space, uint64_t start, uint64_t end) {
    struct scanned_region region = {0};
    int found = scan_first(space, start, end, IS_ZERO, 0, &region);
    return found > 0 ? (struct space_run){region.start, region.end} : (struct space_run){end, end};
}

static struct space_stretch entries_stretch(const struct space *space, uint64_t start, uint64_t end) {
    enum { SOME = 64 };
    uint64_t entries[SOME] = {0}, wanted = (end - start) / SPACE_PAGE_BYTES;
    if (wanted > SOME) wanted = SOME;
    ssize_t got = pread(space->pagemap_fd, entries, wanted * sizeof *entries,
                        (off_t)(start / SPACE_PAGE_BYTES * sizeof *entries));
    if (got < (ssize_t)sizeof *entries) return (struct space_stretch){.end = end, .swapped = true};
    const uint64_t kinds = ENTRY_PRESENT | ENTRY_SWAPPED;
    size_t count = 1;
    while (count < (size_t)got / sizeof *entries && ((entries[count] ^ entries[0]) & kinds) == 0) count++;
    return (struct space_stretch){.end = start + count * SPACE_PAGE_BYTES,
                                  .in_ram = entries[0] & ENTRY_PRESENT,
                                  .swapped = entries[0] & ENTRY_SWAPPED};
}

struct space_stretch space_stretch_at(const struct space *space, uint64_t start, uint64_t end) {
    // The entries of few pages are told faster.
    bool few = end - start <= 8 * SPACE_PAGE_BYTES;
    struct space_stretch stretch = {0};
    if (!few && !space->no_scan) stretch = scan_stretch(space, start, end);
    return stretch.end > start ? stretch : entries_stretch(space, start, end);
}

// ---- a core ----

// A core has what was dumped: whether it was in RAM is unknown. The kernel leaves holes in the file for pages that were
// never touched.
static bool add_segment(const struct space_segment *segment, uint64_t start, uint64_t end,
                        struct space_runs *runs) {
    const uint64_t page = SPACE_PAGE_BYTES - 1;
    off_t first = (off_t)(segment->file_offset + (start - segment->start)),
          last = first + (off_t)(end - start);
    for (off_t at = first; at < last;) {
        off_t data = lseek(segment->fd, at, SEEK_DATA),
              hole = data < 0 ? -1 : lseek(segment->fd, data, SEEK_HOLE);
        if (data < 0 && errno == ENXIO) return true;
        if (data < 0 || hole < 0) data = at, hole = last;
        if (data >= last) return true;
        if (hole > last) hole = last;
        uint64_t from = (start + (uint64_t)(data - first)) & ~page,
                 to = (start + (uint64_t)(hole - first) + page) & ~page;
        if (runs->count && from < runs->run[runs->count - 1].end) from = runs->run[runs->count - 1].end;
        if (from < to && !add_run(runs, from, to)) return false;
        at = hole;
    }
    return true;
}

static bool add_segments(const struct space *space, uint64_t start, uint64_t end, struct space_runs *runs) {
    for (size_t i = 0; i < space->segment_count; i++) {
        const struct space_segment *segment = &space->segments[i];
        uint64_t from = segment->start > start ? segment->start : start;
        uint64_t to = segment->start + segment->bytes < end ? segment->start + segment->bytes : end;
        if (from < to && !add_segment(segment, from, to, runs)) return false;
    }
    return true;
}

int space_runs_add(struct space *space, uint64_t start, uint64_t end, struct space_runs *runs,
                   struct ht_error *error) {
    bool enough = true;
    if (space_is_core(space)) enough = add_segments(space, start, end, runs);
    else {
        int scanned = space->no_scan ? 0 : scan(space, start, end, runs);
        if (!scanned) {
            space->no_scan = true;
            enough = read_entries(space, start, end, runs);
        } else enough = scanned > 0;
    }
    return enough ? 0 : ht_error_memory(error, "walk", "runs of pages");
}

size_t space_runs_find(const struct space_runs *runs, uint64_t address) {
    return HT_FIRST_ABOVE(runs->run, runs->count, end, address);
}

uint64_t space_runs_bytes(const struct space_runs *runs, uint64_t start, uint64_t end) {
    uint64_t bytes = 0;
    for (size_t i = space_runs_find(runs, start); i < runs->count && runs->run[i].start < end; i++) {
        uint64_t from = runs->run[i].start > start ? runs->run[i].start : start;
        uint64_t to = runs->run[i].end < end ? runs->run[i].end : end;
        bytes += to - from;
    }
    return bytes;
}

void space_runs_free(struct space_runs *runs) {
    free(runs->run);
    *runs = (struct space_runs){0};
}

// ---- the files that are mapped ----
//
// What of them is in nobody's memory is read from them, and not through the process, whose
// memory it would then be part of.

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
