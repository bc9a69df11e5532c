// SPDX-License-Identifier: Apache-2.0
// The address space of another process, or of a core file: its mappings, its bytes, which of its pages are in RAM. All
// of it is hostile: a read may be short, a mapping may be gone, and nothing is read that is not in RAM already.
#ifndef HEAPTAPE_SPACE_H
#define HEAPTAPE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "error.h"

#define SPACE_PAGE_BYTES UINT64_C(4096)

struct space_mapping {
    uint64_t start, end, file_offset;
    bool readable, writable, shared, anonymous;
    bool behind_file;                     // anonymous, and right behind a mapping of a file: its zeroed data
    unsigned major_number, minor_number;  // of the file's device, and
    uint64_t inode;                       // of a running process
    const char *name;                     // "" of most anonymous ones
};

// Bytes of a core, or of a file that is mapped.
struct space_segment {
    uint64_t start, bytes, file_offset;
    int fd;
};

struct space {
    int memory_fd, pagemap_fd;  // pagemap_fd -1: a core, which does not say what was in RAM
    struct space_mapping *mappings;
    size_t mapping_count, mapping_room;
    struct space_segment
        *segments;  // by address: of a core all bytes, of a process what of files is not in RAM
    size_t segment_count, segment_room;
    int *files;  // that segments lie in, beside the core
    size_t file_count, file_room;
    char *names;   // what the mappings' names point into
    bool no_scan;  // the kernel (before 6.7) has no PAGEMAP_SCAN
};

// ioctl PAGEMAP_SCAN of Linux 6.7 (include/uapi/linux/fs.h), which the C library's headers here may not have.
struct space_scan {
    uint64_t size, flags, start, end, walk_end, regions, region_room, pages_max, inverted, all_of, any_of,
        wanted;
};
#define SPACE_SCAN_CALL _IOWR('f', 16, struct space_scan)

// Runs of pages in RAM that are the process's own, by address: anonymous ones, the zero page left out.
struct space_run {
    uint64_t start, end;
};

struct space_runs {
    struct space_run *run;
    size_t count, room;
    uint64_t bytes, swapped_bytes, huge_bytes;
};

static inline bool space_is_core(const struct space *space) { return space->pagemap_fd < 0; }

// How many bytes could be read from there on, 0 to `bytes`. Of a process only what is in RAM is read from its memory: a
// page that is not would be fetched, from swap or from a server that need not answer, and stay. Pages of files are then
// read from the files, untouched ones are zeros. Mappings that are shared, a device's registers among them, are left alone.
size_t space_read(const struct space *space, uint64_t address, void *to, size_t bytes);
bool space_read_all(const struct space *space, uint64_t address, void *to, size_t bytes);

// The mapping that holds the address, or NULL.
const struct space_mapping *space_mapping_at(const struct space *space, uint64_t address);
// The first that ends behind it, or NULL.
const struct space_mapping *space_mapping_from(const struct space *space, uint64_t address);

// Opens the files that are mapped, by their names in a folder, "" or "/proc/PID/root". Left out are those that are no
// longer the ones that were mapped, and those of file systems that need not answer, by the text of /proc/PID/mountinfo or
// NULL. 0 or -1 with error.
int space_add_files(struct space *space, const char *folder, const char *mounts, struct ht_error *error);

// Pages from `start` on that are alike, up to `end` at most.
struct space_stretch {
    uint64_t end;
    bool in_ram, swapped;
};
struct space_stretch space_stretch_at(const struct space *space, uint64_t start, uint64_t end);

// The first pages in [start, end) that are the kernel's zero page: empty where there are none, or the kernel (before 6.7) does
// not tell.
struct space_run space_zero_run(const struct space *space, uint64_t start, uint64_t end);

// Adds the runs of [start, end). 0 or -1 with error.
int space_runs_add(struct space *space, uint64_t start, uint64_t end, struct space_runs *runs,
                   struct ht_error *error);
// Bytes of [start, end) that are in the runs.
uint64_t space_runs_bytes(const struct space_runs *runs, uint64_t start, uint64_t end);
// The first run that ends behind the address, or runs->count.
size_t space_runs_find(const struct space_runs *runs, uint64_t address);
void space_runs_free(struct space_runs *runs);

// Parses the text of /proc/PID/maps, which the space keeps. 0 or -1 with error.
int space_parse_maps(struct space *space, char *text, const char *path, struct ht_error *error);
// Finishes lists of mappings and segments that were filled in any order.
void space_order(struct space *space);
void space_free(struct space *space);

// A window over pages that are in RAM, read in pieces as it moves; what is not in RAM reads as 0.
enum { SPACE_WINDOW_BYTES = 256 << 10 };
struct space_window {
    const struct space *space;
    const struct space_runs *runs;
    uint64_t start, end;
    uint8_t bytes[SPACE_WINDOW_BYTES];
};

void space_window_open(struct space_window *window, const struct space *space, const struct space_runs *runs);
// `bytes` (at most a page) at the address, which stay until the next call.
const void *space_window_at(struct space_window *window, uint64_t address, size_t bytes);
// What has been read is forgotten: the next call reads what is there then.
static inline void space_window_refresh(struct space_window *window) { window->start = window->end = 0; }

#endif
