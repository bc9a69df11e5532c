// SPDX-License-Identifier: Apache-2.0
#include "resident_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

// Bits of an entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst). The zero page is nobody's alone.
#define ENTRY_PRESENT   (UINT64_C(1) << 63)
#define ENTRY_OF_FILE   (UINT64_C(1) << 61)
#define ENTRY_EXCLUSIVE (UINT64_C(1) << 56)

struct reading {
    struct ht_resident_buffer *buffer;
    ht_resident_visitor *visit;
    void *context;
    int pagemap_fd, problem;
    // The mapping whose lines are being read.
    uint64_t from_page, until_page;
    enum ht_mapping_kind kind;
};

static uint64_t number_at(const char **at, unsigned base) {
    uint64_t value = 0;
    for (;; (*at)++) {
        unsigned digit = **at >= '0' && **at <= '9'   ? (unsigned)(**at - '0')
                         : **at >= 'a' && **at <= 'f' ? (unsigned)(**at - 'a' + 10)
                                                      : base;
        if (digit >= base) return value;
        value = value * base + digit;
    }
}

// As many pages of the mapping as are resident: the rest of a large mapping need not be read.
static void visit_mapping(struct reading *reading, uint64_t pages) {
    enum { ROOM = sizeof reading->buffer->entries / sizeof *reading->buffer->entries };
    uint64_t *entries = reading->buffer->entries;
    for (uint64_t page = reading->from_page; pages && page < reading->until_page;) {
        uint64_t count = reading->until_page - page < ROOM ? reading->until_page - page : ROOM;
        ssize_t got =
            pread(reading->pagemap_fd, entries, count * sizeof *entries, (off_t)(page * sizeof *entries));
        if (got < (ssize_t)sizeof *entries) {
            reading->problem = got < 0 ? errno : ENODATA;
            return;
        }
        count = (uint64_t)got / sizeof *entries;
        for (uint64_t i = 0; i < count && pages; i++) {
            if ((entries[i] & (ENTRY_PRESENT | ENTRY_OF_FILE | ENTRY_EXCLUSIVE)) !=
                (ENTRY_PRESENT | ENTRY_EXCLUSIVE))
                continue;
            reading->visit(reading->context, page + i, reading->kind);
            pages--;
        }
        page += count;
    }
}

// "7f12…-7f13… rw-p 00000000 00:00 0    [heap]"
static void begin_mapping(struct reading *reading, const char *line) {
    const char *at = line, *name;
    reading->from_page = number_at(&at, 16) / HT_SNAPSHOT_PAGE_BYTES;
    at++;
    reading->until_page = number_at(&at, 16) / HT_SNAPSHOT_PAGE_BYTES;
    for (int field = 0; field < 4; field++) at += strcspn(at + 1, " ") + 1;
    name = at + strspn(at, " ");
    reading->kind = !strcmp(name, "[heap]")                ? HT_MAPPING_HEAP
                    : !strncmp(name, "[stack", 6)          ? HT_MAPPING_STACK
                    : !*name || !strncmp(name, "[anon", 5) ? HT_MAPPING_ANONYMOUS
                                                           : HT_MAPPING_FILE;
}

static void take_line(struct reading *reading, const char *line) {
    static const char key[] = "Anonymous:";
    if ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f')) {
        begin_mapping(reading, line);
    } else if (!strncmp(line, key, sizeof key - 1)) {
        const char *at = line + sizeof key - 1 + strspn(line + sizeof key - 1, " ");
        visit_mapping(reading, number_at(&at, 10) * 1024 / HT_SNAPSHOT_PAGE_BYTES);
    }
}

static void take_lines(struct reading *reading, int smaps_fd) {
    char *text = reading->buffer->text;
    const size_t room = sizeof reading->buffer->text - 1;
    size_t filled = 0;
    for (;;) {
        ssize_t got = read(smaps_fd, text + filled, room - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) reading->problem = errno;
        if (got <= 0) return;
        filled += (size_t)got;
        text[filled] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            take_line(reading, line);
        }
        filled -= (size_t)(line - text);
        memmove(text, line, filled);
    }
}

int ht_resident_each(struct ht_resident_buffer *buffer, ht_resident_visitor *visit, void *context) {
    struct reading reading = {.buffer = buffer, .visit = visit, .context = context};
    reading.pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (reading.pagemap_fd < 0) return errno;
    int smaps_fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (smaps_fd < 0) reading.problem = errno;
    else take_lines(&reading, smaps_fd);
    if (smaps_fd >= 0) close(smaps_fd);
    close(reading.pagemap_fd);
    return reading.problem;
}
