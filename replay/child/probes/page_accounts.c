// SPDX-License-Identifier: Apache-2.0
#include "page_accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator_calls.h"
#include "kernel_text.h"

enum { PAGE_BYTES = HT_SNAPSHOT_PAGE_BYTES };

// An allocator that reports the requested bytes as usable shows its headers where a size fills what it is rounded to, so
// all small sizes are tried. Many of each: some allocators place neighbours at random.
enum { SMALLEST = 17, LARGEST = 48, OF_EACH = 16, SMALL_BLOCKS = (LARGEST - SMALLEST + 1) * OF_EACH };
// This many blocks of a large size are allocated in a row, up to some bytes; sizes are four to a doubling.
enum { FEWEST = 8, MOST = 64, ROW_BYTES = 4 << 20, LARGEST_POWER = 20, SMALLEST_POWER = 13 };

struct block {
    uint64_t start, end;
};

static struct block allocate(const struct ht_server *server, uint64_t bytes) {
    void *block = HT_CALL_MALLOC(bytes);
    uint64_t start = (uintptr_t)block;
    if (!block) return (struct block){0};
    return (struct block){start, start + (server->usable_size ? server->usable_size(block) : bytes)};
}

// The least distance between the end of one block and the start of the next.
static uint64_t least_gap(const struct block *blocks, unsigned count) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < count && blocks[i].end; k++) {
            uint64_t gap = blocks[k].start - blocks[i].end;
            if (blocks[k].start >= blocks[i].end && gap < least) least = gap;
        }
    }
    return least;
}

static bool share_pages(const struct block *one, const struct block *other) {
    return one->start / PAGE_BYTES <= (other->end - 1) / PAGE_BYTES &&
           other->start / PAGE_BYTES <= (one->end - 1) / PAGE_BYTES;
}

// Whether blocks of this size have their pages for themselves; then spacing knows of them, too.
static bool have_own_pages(const struct ht_server *server, uint64_t bytes, struct ht_block_spacing *spacing) {
    struct block blocks[MOST];
    unsigned count = bytes * MOST < ROW_BYTES     ? MOST
                     : bytes * FEWEST > ROW_BYTES ? FEWEST
                                                  : (unsigned)(ROW_BYTES / bytes);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = allocate(server, bytes);
        if (!blocks[i].end) return false;
        for (unsigned k = 0; k < i; k++)
            if (share_pages(&blocks[i], &blocks[k])) return false;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t usable = blocks[i].end - blocks[i].start, offset = blocks[i].start % PAGE_BYTES;
        if (usable < spacing->own_pages_from_bytes) spacing->own_pages_from_bytes = usable;
        if (spacing->own_pages_offset == HT_OFFSET_UNSEEN) spacing->own_pages_offset = offset;
        else if (spacing->own_pages_offset != offset) spacing->own_pages_offset = HT_OFFSET_ANY;
    }
    return true;
}

struct ht_block_spacing ht_block_spacing_measure(const struct ht_server *server) {
    static struct block blocks[SMALL_BLOCKS];
    struct ht_block_spacing spacing = {.own_pages_from_bytes = UINT64_MAX,
                                       .own_pages_offset = HT_OFFSET_UNSEEN};
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) blocks[i] = allocate(server, SMALLEST + i / OF_EACH);
    uint64_t gap = least_gap(blocks, SMALL_BLOCKS);
    // What is no smaller than a block may be a free one.
    if (gap < SMALLEST) spacing.header_bytes = gap;
    // From the largest size down to the first whose blocks share a page. No size is a multiple of the page: such blocks
    // would show nothing.
    for (unsigned i = 4 * LARGEST_POWER; i >= 4 * SMALLEST_POWER; i--) {
        uint64_t bytes = ((UINT64_C(4) + i % 4) << i / 4) / 4 + 40;
        if (!have_own_pages(server, bytes, &spacing)) break;
    }
    return spacing;
}

struct ht_block_margin ht_block_margin(const struct ht_block_spacing *spacing, uint64_t address,
                                       uint64_t usable_bytes) {
    uint64_t end = address + usable_bytes, offset = address % PAGE_BYTES;
    if (usable_bytes >= spacing->own_pages_from_bytes &&
        (spacing->own_pages_offset == HT_OFFSET_ANY || spacing->own_pages_offset == offset))
        return (struct ht_block_margin){address - offset, (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES};
    return (struct ht_block_margin){address - spacing->header_bytes, end};
}

// Between the places of allocators that ask for one of their own and the program's.
#define FAR_ADDRESS UINT64_C(0x480000000000)

static void *map_at(uint64_t address, size_t bytes, int flags) {
    void *table = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return table == MAP_FAILED ? NULL : table;
}

void *ht_far_table(size_t bytes) {
    static uint64_t next = FAR_ADDRESS;
    void *table = map_at(next, bytes, MAP_FIXED_NOREPLACE);
    next += (bytes + (1 << 21) - 1) >> 21 << 21;
    return table ? table : map_at(0, bytes, 0);
}

// A table of 4 GiB, of which a page is real for each 128 MiB of heap.
bool ht_page_history_init(struct ht_page_history *history) {
    history->bits = ht_far_table(HT_HISTORY_PAGES / 8);
    return history->bits != NULL;
}

void ht_page_history_hold(const struct ht_page_history *history, uint64_t address, uint64_t bytes) {
    uint64_t page = address / PAGE_BYTES, end = (address + bytes - 1) / PAGE_BYTES + 1;
    if (!bytes || end > HT_HISTORY_PAGES) return;
    while (page < end) {
        uint64_t first = page % 64, count = end - page < 64 - first ? end - page : 64 - first;
        uint64_t bits = UINT64_MAX >> (64 - count) << first;
        _Atomic uint64_t *word = &history->bits[page / 64];
        if ((atomic_load_explicit(word, memory_order_relaxed) & bits) != bits) atomic_fetch_or(word, bits);
        page += count;
    }
}

bool ht_page_history_held(const struct ht_page_history *history, uint64_t page) {
    return page < HT_HISTORY_PAGES && atomic_load(&history->bits[page / 64]) >> page % 64 & 1;
}

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

static void begin_mapping(struct reading *reading, const struct ht_kernel_mapping *mapping) {
    const char *name = mapping->name;
    reading->from_page = mapping->start / PAGE_BYTES;
    reading->until_page = mapping->end / PAGE_BYTES;
    reading->kind = !strcmp(name, "[heap]")                ? HT_MAPPING_HEAP
                    : !strncmp(name, "[stack", 6)          ? HT_MAPPING_STACK
                    : !*name || !strncmp(name, "[anon", 5) ? HT_MAPPING_ANONYMOUS
                                                           : HT_MAPPING_FILE;
}

static void take_line(struct reading *reading, const char *line) {
    static const char key[] = "Anonymous:";
    struct ht_kernel_mapping mapping;
    if (ht_kernel_mapping(line, &mapping)) begin_mapping(reading, &mapping);
    else if (!strncmp(line, key, sizeof key - 1))
        visit_mapping(reading, ht_kernel_bytes(line, key) / PAGE_BYTES);
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

// Of 64 pages: those that held a block once and are resident; and which of them a live block lies in.
struct ht_page_bits {
    uint64_t resident, used;
};
#define TABLE_BYTES (HT_HISTORY_PAGES / 64 * sizeof(struct ht_page_bits))

struct taking {
    const struct ht_page_accounts *accounts;
    struct ht_stretch_accounts *found;
    uint64_t pages, never_held, used;
};

bool ht_page_accounts_init(struct ht_page_accounts *accounts, const struct ht_page_history *history,
                           const struct ht_block_spacing *spacing, struct ht_resident_buffer *buffer) {
    *accounts = (struct ht_page_accounts){ht_far_table(TABLE_BYTES), history, spacing, buffer};
    return accounts->bits != NULL;
}

static void take_page(void *context, uint64_t page, enum ht_mapping_kind kind) {
    struct taking *taking = context;
    (void)kind;
    taking->pages++;
    if (ht_page_history_held(taking->accounts->history, page))
        taking->accounts->bits[page / 64].resident |= UINT64_C(1) << page % 64;
    else taking->never_held++;
}

// How many of these pages are resident; from now on a live block lies in them.
static uint64_t use_pages(struct taking *taking, uint64_t page, uint64_t end) {
    uint64_t resident = 0;
    while (page < end) {
        uint64_t first = page % 64, count = end - page < 64 - first ? end - page : 64 - first;
        struct ht_page_bits *bits = &taking->accounts->bits[page / 64];
        uint64_t here = bits->resident & UINT64_MAX >> (64 - count) << first;
        resident += (uint64_t)__builtin_popcountll(here);
        taking->used += (uint64_t)__builtin_popcountll(here & ~bits->used);
        bits->used |= here;
        page += count;
    }
    return resident;
}

static bool is_resident(const struct taking *taking, uint64_t page) {
    return taking->accounts->bits[page / 64].resident >> page % 64 & 1;
}

// Resident bytes from start up to end.
static uint64_t use_bytes(struct taking *taking, uint64_t start, uint64_t end) {
    if (start >= end) return 0;
    uint64_t first = start / PAGE_BYTES, last = (end - 1) / PAGE_BYTES;
    uint64_t bytes = use_pages(taking, first, last + 1) * PAGE_BYTES;
    if (is_resident(taking, first)) bytes -= start % PAGE_BYTES;
    if (is_resident(taking, last)) bytes -= (last + 1) * PAGE_BYTES - end;
    return bytes;
}

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

static void take_block(struct taking *taking, uint64_t start, const struct ht_account_slot *slot) {
    struct ht_stretch_accounts *found = taking->found;
    uint64_t end = start + slot->usable_bytes,
             asked = start + least(slot->requested_bytes, slot->usable_bytes);
    uint64_t touched = least(end - slot->untouched_bytes, asked);
    struct ht_block_margin margin = ht_block_margin(taking->accounts->spacing, start, slot->usable_bytes);
    if ((margin.end - 1) / PAGE_BYTES >= HT_HISTORY_PAGES || margin.begin > start) return;
    uint64_t live = use_bytes(taking, start, touched), untouched = use_bytes(taking, touched, asked);
    found->live_bytes += live;
    found->untouched_bytes += untouched;
    found->rounding_bytes += use_bytes(taking, asked, end);
    found->headers_bytes += use_bytes(taking, margin.begin, start) + use_bytes(taking, end, margin.end);
    found->not_resident_bytes += asked - start - live - untouched;
}

// A block that another thread freed meanwhile may be counted with the one that came in its place: in a page is no
// more than a page.
static void cut_to_pages(struct ht_stretch_accounts *found, uint64_t bytes) {
    uint64_t *const each[] = {&found->live_bytes, &found->rounding_bytes, &found->untouched_bytes,
                              &found->headers_bytes};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        if (*each[i] > bytes) *each[i] = bytes;
        bytes -= *each[i];
    }
    found->holes_bytes = bytes;
}

int ht_page_accounts_take(struct ht_page_accounts *accounts, void *const *table,
                          const struct ht_account_slot *slots, uint64_t slots_count,
                          struct ht_stretch_accounts *found) {
    struct taking taking = {.accounts = accounts, .found = found};
    *found = (struct ht_stretch_accounts){0};
    int problem = ht_resident_each(accounts->buffer, take_page, &taking);
    for (uint64_t i = 0; i < slots_count && !problem; i++) {
        const struct ht_account_slot slot = slots[i];  // other threads change it
        if (slot.usable_bytes && slot.untouched_bytes <= slot.usable_bytes)
            take_block(&taking, (uintptr_t)table[i], &slot);
    }
    cut_to_pages(found, taking.used * PAGE_BYTES);
    found->free_pages_bytes = (taking.pages - taking.never_held - taking.used) * PAGE_BYTES;
    found->tables_bytes = taking.never_held * PAGE_BYTES;
    found->rss_bytes = taking.pages * PAGE_BYTES;
    // Gives the pages of the table back: the next taking finds it empty.
    if (madvise(accounts->bits, TABLE_BYTES, MADV_REMOVE) && !problem) problem = errno;
    return problem;
}
