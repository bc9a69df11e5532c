// SPDX-License-Identifier: Apache-2.0
#include "process_memory.h"

#include <sys/ioctl.h>

#include "settings.h"
#include "sys.h"

static uint64_t parse_number(const char **at) {
    uint64_t value = 0;
    while (**at == ' ') ++*at;
    while (**at >= '0' && **at <= '9') value = value * 10 + (uint64_t)(*(*at)++ - '0');
    return value;
}

// That of the process is empty once its first thread has ended, though others go on.
static int open_of_thread(const char *of_thread, const char *of_process) {
    int fd = sys_open(of_thread, O_RDONLY | O_CLOEXEC, 0);
    return fd == -ENOENT ? sys_open(of_process, O_RDONLY | O_CLOEXEC, 0) : fd;  // Linux before 3.17
}

// Resident less shared of statm, the cheapest file that has it.
uint64_t rss_anonymous_bytes(void) {
    char text[128];
    int fd = open_of_thread("/proc/thread-self/statm", "/proc/self/statm");
    if (fd < 0) return 0;
    long got = sys_read(fd, text, sizeof text - 1);
    sys_close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    const char *at = text;
    parse_number(&at);
    uint64_t resident = parse_number(&at), shared = parse_number(&at);
    return (resident - shared) * settings.page_bytes;
}

// ---- the lines ----

bool maps_open(struct maps_file *maps) {
    maps->fd = open_of_thread("/proc/thread-self/maps", "/proc/self/maps");
    maps->at = maps->filled = 0;
    return maps->fd >= 0;
}

void maps_close(struct maps_file *maps) {
    if (maps->fd >= 0) sys_close(maps->fd);
    maps->fd = -1;
}

// 0 at the end.
static char peek(struct maps_file *maps) {
    if (maps->at == maps->filled) {
        long got = sys_read(maps->fd, maps->text, sizeof maps->text);
        maps->at = 0;
        maps->filled = got > 0 ? (size_t)got : 0;
        if (!maps->filled) return 0;
    }
    return maps->text[maps->at];
}

static char take(struct maps_file *maps) {
    char c = peek(maps);
    maps->at += c != 0;
    return c;
}

static uint64_t take_number(struct maps_file *maps, unsigned base) {
    uint64_t value = 0;
    for (;; take(maps)) {
        char c = peek(maps);
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
        if (digit >= base) return value;
        value = value * base + digit;
    }
}

// The name at the end of the line.
static enum mapping_kind take_kind(struct maps_file *maps, uint64_t inode) {
    static const char stack[] = "[stack]", heap[] = "[heap]", named[] = "[anon:";
    size_t length = 0, as_stack = 0, as_heap = 0, as_named = 0;
    while (peek(maps) == ' ') take(maps);
    for (char c = take(maps); c && c != '\n'; c = take(maps), length++) {
        as_stack += length == as_stack && length < sizeof stack - 1 && c == stack[length];
        as_heap += length == as_heap && length < sizeof heap - 1 && c == heap[length];
        as_named += length == as_named && length < sizeof named - 1 && c == named[length];
    }
    if (inode) return MAPPING_OF_FILE;
    if (!length || as_named == sizeof named - 1) return MAPPING_ANONYMOUS;
    if (as_heap == sizeof heap - 1 && length == as_heap) return MAPPING_BREAK;
    return as_stack == sizeof stack - 1 && length == as_stack ? MAPPING_STACK : MAPPING_OTHER;
}

// 7f0000000000-7f0000021000 rw-p 00000000 00:00 0     name
bool maps_next(struct maps_file *maps, struct mapping *mapping) {
    if (!peek(maps)) return false;
    mapping->start = take_number(maps, 16);
    take(maps);
    mapping->end = take_number(maps, 16);
    take(maps);
    mapping->readable = take(maps) == 'r';
    mapping->writable = take(maps) == 'w';
    mapping->executable = take(maps) == 'x';
    mapping->shared = take(maps) == 's';
    take(maps);
    mapping->offset = take_number(maps, 16);
    take(maps);
    take_number(maps, 16);
    take(maps);
    take_number(maps, 16);
    take(maps);
    mapping->inode = take_number(maps, 10);
    mapping->kind = take_kind(maps, mapping->inode);
    return mapping->start < mapping->end;
}

// ---- the pages ----

// As linux/fs.h has it, which may be older here.
struct page_search {
    uint64_t size, flags, start, end, walk_end, regions, regions_max, pages_max, inverted, all_of, any_of,
        reported;
};
_Static_assert(sizeof(struct page_search) == 96, "the kernel knows it by its size");

enum { SEARCH_OF_FILE = 1 << 2, SEARCH_PRESENT = 1 << 3, SEARCH_ZERO = 1 << 5 };
#define PAGEMAP_SEARCH _IOWR('f', 16, struct page_search)

bool pages_open(struct page_counter *counter) {
    counter->fd = open_of_thread("/proc/thread-self/pagemap", "/proc/self/pagemap");
    counter->searches = true;
    return counter->fd >= 0;
}

void pages_close(struct page_counter *counter) {
    if (counter->fd >= 0) sys_close(counter->fd);
    counter->fd = -1;
}

struct visitor {
    pages_visit *visit;
    void *context;
};

// False where the kernel cannot.
static bool search_tables(struct page_counter *counter, uintptr_t start, uintptr_t end, bool of_file,
                          const struct visitor *to) {
    // Whether a page is a file's takes ten times as long to find out as the rest.
    uint64_t none_of = SEARCH_ZERO | (of_file ? SEARCH_OF_FILE : 0);
    while (start < end && !recorder_sealed) {
        struct page_search ask = {.size = sizeof ask,
                                  .start = start,
                                  .end = end,
                                  .regions = (uintptr_t)counter->region,
                                  .regions_max = sizeof counter->region / sizeof *counter->region,
                                  .inverted = none_of,
                                  .all_of = SEARCH_PRESENT | none_of,
                                  .reported = SEARCH_PRESENT};
        long found = raw_syscall(SYS_ioctl, counter->fd, (long)PAGEMAP_SEARCH, (long)&ask, 0, 0, 0);
        if (found < 0) return false;
        for (long i = 0; i < found; i++)
            to->visit(to->context, counter->region[i].start, counter->region[i].end);
        if (ask.walk_end <= start) return false;
        start = ask.walk_end;
    }
    return true;
}

static void visit_page(const struct visitor *to, uintptr_t at) {
    to->visit(to->context, at, at + settings.page_bytes);
}

static void look_one_by_one(struct page_counter *counter, uintptr_t start, uintptr_t end,
                            const struct visitor *to) {
    enum { PAGES_AT_ONCE = sizeof counter->entry / sizeof *counter->entry };
    const uint64_t present = UINT64_C(1) << 63, of_file = UINT64_C(1) << 61;
    uint64_t page = settings.page_bytes;
    for (uintptr_t at = start; at < end && !recorder_sealed; at += PAGES_AT_ONCE * page) {
        uint64_t left = (end - at) / page, wanted = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
        long got = sys_pread(counter->fd, counter->entry, wanted * sizeof *counter->entry,
                             at / page * sizeof *counter->entry);
        for (long k = 0; k < got / (long)sizeof *counter->entry; k++)
            if ((counter->entry[k] & (present | of_file)) == present) visit_page(to, at + (uint64_t)k * page);
    }
}

// Counts memory that is no file's: what is there is anonymous, or the page of zeros.
static void look_for_present(uintptr_t start, uintptr_t end, const struct visitor *to) {
    enum { PAGES_AT_ONCE = 1024 };
    unsigned char present[PAGES_AT_ONCE];
    uint64_t page = settings.page_bytes;
    for (uintptr_t at = start; at < end && !recorder_sealed; at += PAGES_AT_ONCE * page) {
        uint64_t left = (end - at) / page, count = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
        if (sys_mincore(at, count * page, present)) continue;  // a part of it is not mapped any more
        for (uint64_t i = 0; i < count; i++)
            if (present[i] & 1) visit_page(to, at + i * page);
    }
}

void pages_each(struct page_counter *counter, uintptr_t start, uintptr_t end, bool of_file,
                pages_visit *visit, void *context) {
    const struct visitor to = {visit, context};
    if (start >= end) return;
    if (counter->fd < 0) {
        if (!of_file) look_for_present(start, end, &to);
    } else if (!counter->searches || !search_tables(counter, start, end, of_file, &to)) {
        counter->searches = false;
        look_one_by_one(counter, start, end, &to);
    }
}

static void add_bytes(void *sum, uintptr_t start, uintptr_t end) { *(uint64_t *)sum += end - start; }

uint64_t pages_anonymous_bytes(struct page_counter *counter, uintptr_t start, uintptr_t end, bool of_file) {
    uint64_t bytes = 0;
    pages_each(counter, start, end, of_file, add_bytes, &bytes);
    return bytes;
}

// ---- the recorder's own ----

enum { RANGES_MAX = 256 };

// Ranges of which only some pages are resident. They are added one after the other, and get shorter at most.
static struct {
    _Atomic uintptr_t start, end;
} sparse[RANGES_MAX];
static _Atomic uint32_t ranges;
static _Atomic uint64_t real_bytes, counted_bytes;

void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real) {
    uint32_t at = is_real ? RANGES_MAX : atomic_fetch_add(&ranges, 1);
    if (at >= RANGES_MAX) {
        real_bytes += bytes;
        return;
    }
    sparse[at].start = start;
    sparse[at].end = start + bytes;
}

static uint32_t ranges_now(void) { return ranges < RANGES_MAX ? ranges : RANGES_MAX; }

void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped) {
    for (uint32_t i = 0; i < ranges_now(); i++) {
        if (start < sparse[i].start || start >= sparse[i].end) continue;
        if (unmapped) sparse[i].end = start;
        return;
    }
    real_bytes -= bytes;
}

bool recorder_memory_is_counted(void) { return ranges > 0; }

void recorder_memory_count(struct page_counter *pages) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ranges_now(); i++)
        bytes += pages_anonymous_bytes(pages, sparse[i].start, sparse[i].end, false);
    counted_bytes = bytes;
}

uint64_t recorder_memory_bytes(void) { return real_bytes + counted_bytes; }
