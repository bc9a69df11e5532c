// SPDX-License-Identifier: Apache-2.0
// Which pages are in RAM, by the kernel's page tables: PAGEMAP_SCAN of Linux 6.7, else an entry a page.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grow.h"
#include "sorted.h"
#include "space.h"

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
    // Of few pages the entries are told faster.
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
