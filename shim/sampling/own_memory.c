// SPDX-License-Identifier: Apache-2.0
#include "own_memory.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "chunks.h"
#include "process_memory.h"
#include "settings.h"
#include "sys.h"

enum {
    OBJECTS_MAX = 512,
    SEGMENTS_MAX = 16,
    // Counting the program's own pages may take at most one part in this many of the run. What was not used
    // may be used later, up to a limit, which is also what a run begins with. Counting what moves, which is its mappings
    // and stacks without its data, may take as much again. While the last whole count found nothing new in the rest
    // and no thread is new, whole counts may take less, if the kernel can count what moves.
    OWN_COST_SHARE = 100,
    STILL_COST_SHARE = 800,
    // A smaller change of the rest than one part in this many of RssAnon is none.
    STILL_SHARE = 1000,
    // They are counted again when RssAnon has changed by one part in this many.
    OWN_CHANGE_SHARE = 200
};
#define CREDIT_STAMPS_MAX (STAMPS_PER_S / 1000)
// Several times what the rest of a sample takes in a process with one thread.
#define MOVING_STAMPS_MAX (STAMPS_PER_S / 50000)

// Where the kernel lists each page by itself, counting more than this would stall the program for tens of
// milliseconds.
static const uint64_t ONE_BY_ONE_MAX = UINT64_C(16) << 30;

// Where the kernel does not show its tables to the process any more, asking for each page takes a microsecond a MiB and more.
static const uint64_t PRESENT_BYTES_MAX = UINT64_C(1) << 30;

// ---- where the rest lies ----
//
// The process's anonymous memory that the hooks do not know as the program's own. Most of it is the heap. What is not, such as
// a mapping by a bare system call, holds no block: a reader of the log, which knows all blocks, can tell. One thread at a time
// collects the pieces, by rising addresses.

enum {
    PIECES_MAX = 512,
    // Resident ranges that are no farther from each other are one piece. More where there are too many.
    GAP_BYTES_MIN = 64 << 10
};
// Where the kernel lists each page by itself, more would stall the program.
static const uint64_t PIECES_BYTES_MAX = UINT64_C(4) << 30;

struct piece {
    uintptr_t start, end;
    uint64_t resident_bytes;
};

static struct {
    struct piece piece[PIECES_MAX];
    size_t count;
    uint64_t gap_bytes, walked_bytes;
    bool too_much;
} pieces;

static void pieces_begin(void) {
    pieces.count = 0;
    pieces.walked_bytes = 0;
    pieces.too_much = false;
    pieces.gap_bytes = GAP_BYTES_MIN;
}

static bool joins(const struct piece *piece, uintptr_t start) {
    return start >= piece->end && start - piece->end <= pieces.gap_bytes;
}

static bool join_last(struct piece next) {
    struct piece *last = pieces.count ? &pieces.piece[pieces.count - 1] : NULL;
    if (!last || !joins(last, next.start)) return false;
    last->end = next.end;
    last->resident_bytes += next.resident_bytes;
    return true;
}

static void join_more(void) {
    size_t count = pieces.count;
    pieces.gap_bytes *= 4;
    pieces.count = 0;
    for (size_t i = 0; i < count; i++)
        if (!join_last(pieces.piece[i])) pieces.piece[pieces.count++] = pieces.piece[i];
}

static void add_resident(void *unused, uintptr_t start, uintptr_t end) {
    struct piece next = {start, end, end - start};
    (void)unused;
    if (join_last(next)) return;
    while (pieces.count == PIECES_MAX) join_more();
    pieces.piece[pieces.count++] = next;
}

static void pieces_add(struct page_counter *pages, uintptr_t start, uintptr_t end) {
    if (start >= end || pieces.too_much) return;
    uint64_t most = pages->fd < 0 ? PRESENT_BYTES_MAX : PIECES_BYTES_MAX;
    if (pages->fd < 0 || !pages->searches) pieces.walked_bytes += end - start;
    if (pieces.walked_bytes > most) pieces.too_much = true;
    else pages_each(pages, start, end, false, add_resident, NULL);
}

static bool pieces_are_known(void) { return !pieces.too_much && !recorder_sealed; }

void heap_pieces_put(struct thread_state *t, uint64_t stamp) {
    for (size_t i = 0; i < pieces.count; i++) {
        const struct piece *piece = &pieces.piece[i];
        uint64_t all = (piece->end - piece->start) / settings.page_bytes,
                 resident = piece->resident_bytes / settings.page_bytes;
        const uint64_t word[3] = {stamp, piece->start, all << 32 | resident};
        if (!room_for_record(t)) return;
        ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, word, 3);
    }
    const struct ht_raw_header *header = t->recording->header;
    bool late = settings.starts_paused || header->sequence || header->parent_pid;
    const uint64_t end[3] = {stamp, 0, pieces.count | (late ? HT_PIECES_LATE : 0)};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, end, 3);
}

void heap_pieces_put_bound(struct thread_state *t, uint64_t stamp, uint64_t mapped_bytes) {
    const uint64_t word[3] = {stamp, HT_PIECES_MAPPED, mapped_bytes};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_HEAP_PIECE, word, 3);
}

// ---- the program's own ----

// A measurement, one at a time, with copies of what the hooks know.
static struct {
    atomic_flag taken;
    struct maps_file maps;
    struct page_counter pages;
    struct own_ranges own;
    struct own_moves moves;
    size_t next_range, next_stack;
    struct range stack[OWN_STACKS_MAX];  // where the last whole count found threads' stacks
    size_t found_stacks;
    size_t stacks_then;  // how many were noted at that time
    uint64_t bytes, counted_bytes;
    uint64_t moving_bytes;   // of `bytes`: of the program's own mappings and its threads' stacks
    uintptr_t object_start;  // where the object begins whose file the last mapping was of
    uint64_t object_inode;
    uintptr_t data_end;     // where the zero-initialised data of the last object ends
    uint64_t static_bytes;  // what is none of that and was there before the first allocation: the loader's
    uint64_t last_bytes, last_anonymous_bytes, last_stamp, asked_stamp;
    uint64_t last_elsewhere_bytes;  // of last_bytes: what a count of what moves does not see
    bool elsewhere_is_still;        // it did not change between the last two whole counts
    int64_t credit_stamps, moving_credit_stamps, pieces_credit_stamps;
    bool wants_pieces;           // this count looks at what is not own, too
    uint64_t pieces_counts;      // what that took
    bool only_pieces;            // what is own cannot be counted
    bool has_pieces;             // since the last sample began
    int64_t moving_cost_stamps;  // of the last count of what moves
    bool any;                    // that has been counted
} measured = {.taken = ATOMIC_FLAG_INIT, .maps = {.fd = -1}, .pages = {.fd = -1}};

static uintptr_t page_down(uintptr_t address) { return address & ~(uintptr_t)(settings.page_bytes - 1); }
static uintptr_t page_up(uintptr_t address) { return page_down(address + settings.page_bytes - 1); }

void own_after_fork(void) {
    own_ranges_after_fork();
    atomic_flag_clear(&measured.taken);
}

// ---- what is resident ----

static void count(uintptr_t start, uintptr_t end, bool of_file) {
    if (start >= end || measured.only_pieces) return;
    measured.counted_bytes += end - start;
    if (!measured.pages.searches && measured.counted_bytes > ONE_BY_ONE_MAX) return;
    measured.bytes += pages_anonymous_bytes(&measured.pages, start, end, of_file);
}

// None of it is known as the program's own.
static void look_at_rest(uintptr_t start, uintptr_t end) {
    if (!measured.wants_pieces || start >= end) return;
    uint64_t before = clock_counter();
    pieces_add(&measured.pages, start, end);
    measured.pieces_counts += clock_counter() - before;
}

// An object may go at any moment.
static bool read_memory(uintptr_t from, void *to, size_t bytes) {
    return sys_read_own((const void *)from, to, bytes);
}

// The end of the zero-initialised memory that follows a segment whose file ends at `file_end`; file_end if none does.
static uintptr_t read_segment_end(uintptr_t object, uintptr_t file_end) {
    ElfW(Ehdr) header;
    ElfW(Phdr) segment[SEGMENTS_MAX];
    uintptr_t end = file_end, bias = 0;
    if (read_memory(object, &header, sizeof header) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
        header.e_phnum <= SEGMENTS_MAX && header.e_phentsize == sizeof *segment &&
        read_memory(object + header.e_phoff, segment, header.e_phnum * sizeof *segment)) {
        bool first = true;
        for (unsigned i = 0; i < header.e_phnum; i++) {
            if (segment[i].p_type != PT_LOAD) continue;
            if (first) bias = object - page_down(segment[i].p_vaddr);
            first = false;
            uintptr_t start = bias + segment[i].p_vaddr;
            if (page_up(start + segment[i].p_filesz) == file_end) end = page_up(start + segment[i].p_memsz);
        }
    }
    return end;
}

// Searches only once for each object.
static uintptr_t segment_end(uintptr_t object, uint64_t inode, uintptr_t file_end) {
    static struct {
        uintptr_t object, file_end, end;
        uint64_t inode;
    } known[OBJECTS_MAX];
    unsigned slot = (unsigned)(file_end / settings.page_bytes % OBJECTS_MAX);
    if (known[slot].file_end != file_end || known[slot].inode != inode || known[slot].object != object) {
        known[slot].object = object;
        known[slot].inode = inode;
        known[slot].file_end = file_end;
        known[slot].end = read_segment_end(object, file_end);
    }
    return known[slot].end;
}

// The end of the thread's stack that fills the mapping from its start on; 0 if it is none.
static uintptr_t stack_end_in(const struct mapping *mapping, const struct mapping *before) {
    while (measured.next_stack < measured.own.stacks &&
           measured.own.stack_end[measured.next_stack] <= mapping->start)
        measured.next_stack++;
    bool guarded = before->end == mapping->start && before->kind == MAPPING_ANONYMOUS && !before->readable;
    if (!guarded || !mapping->writable || measured.next_stack == measured.own.stacks) return 0;
    uintptr_t end = measured.own.stack_end[measured.next_stack];
    return end <= mapping->end ? end : 0;
}

// Returns where the stack ends, or the start if `end` is 0: there is none.
static uintptr_t count_stack(uintptr_t start, uintptr_t end) {
    if (!end) return start;
    uint64_t bytes_before = measured.bytes;
    count(start, end, false);
    measured.moving_bytes += measured.bytes - bytes_before;
    if (!measured.only_pieces) measured.stack[measured.found_stacks++] = (struct range){start, end};
    return end;
}

// Counts what is own of a mapping without a name that follows `before`: zero-initialised data of the object
// before it, a thread's stack behind its guard, and what the hooks know.
static void count_anonymous(const struct mapping *mapping, const struct mapping *before) {
    uintptr_t counted_to = count_stack(mapping->start, stack_end_in(mapping, before)), at = counted_to;
    if (before->kind == MAPPING_OF_FILE && before->writable && before->end == mapping->start &&
        measured.object_start)
        measured.data_end = segment_end(measured.object_start, before->inode, before->end);
    if (at < measured.data_end) at = measured.data_end;  // it may be cut by madvise or mprotect
    if (at > mapping->end) at = mapping->end;
    count(counted_to, at, false);
    // Where the kernel does not search, counting reserved address space would take too long.
    bool is_useful =
        mapping->readable || mapping->writable || (measured.pages.searches && measured.pages.fd >= 0);
    uint64_t bytes_before = measured.bytes;
    uintptr_t rest = at;
    for (; measured.next_range < measured.own.mapped.count; measured.next_range++) {
        struct range range = measured.own.mapped.range[measured.next_range];
        if (range.start >= mapping->end) break;
        uintptr_t start = range.start > at ? range.start : at;
        if (is_useful) {
            count(start, range.end < mapping->end ? range.end : mapping->end, false);
            look_at_rest(rest, start);
        }
        if (range.end > rest) rest = range.end;
        if (range.end > mapping->end) break;
    }
    if (is_useful) look_at_rest(rest, mapping->end);
    measured.moving_bytes += measured.bytes - bytes_before;
}

static void count_mapping(const struct mapping *mapping, const struct mapping *before) {
    // What the loader relocated and then made read-only lies before what is written.
    if (before->kind == MAPPING_OF_FILE && !before->writable && !before->executable && !before->shared &&
        mapping->writable && before->end == mapping->start)
        count(before->start, before->end, true);
    if (mapping->kind == MAPPING_OF_FILE) {
        bool continued = mapping->inode == measured.object_inode && before->end == mapping->start;
        if (mapping->offset == 0 && !continued) measured.object_start = mapping->start;
        else if (mapping->inode != measured.object_inode) measured.object_start = 0;
        measured.object_inode = mapping->inode;
    }
    if (mapping->shared) return;
    if (mapping->kind == MAPPING_ANONYMOUS) count_anonymous(mapping, before);
    else if (mapping->kind == MAPPING_BREAK) look_at_rest(mapping->start, mapping->end);
    else if (mapping->kind == MAPPING_STACK) count(mapping->start, mapping->end, false);
    else if (mapping->kind == MAPPING_OF_FILE && mapping->writable) count(mapping->start, mapping->end, true);
}

static bool copy_tables(void) {
    bool known = own_copy(&measured.own, &measured.moves);
    if (!known) measured.own.mapped.count = measured.own.stacks = 0;
    measured.next_range = measured.next_stack = 0;
    measured.bytes = measured.counted_bytes = measured.moving_bytes = 0;
    measured.object_start = measured.object_inode = measured.data_end = 0;
    return known;
}

// The kernel may already have taken the addresses of what other threads are about to unmap or to move, and not yet the pages. A
// part that is not found may be anywhere: then a count tells nothing of RssAnon, which does not change meanwhile.
static void look_for_leaving(void) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < measured.moves.leaving_count; i++) {
        struct range range = measured.moves.leaving[i];
        bytes += range.end - range.start;
    }
    if (bytes < OWN_MOVED_BYTES_MIN) return;
    for (size_t i = 0; i < measured.moves.leaving_count && measured.pages.searches; i++) {
        struct range range = measured.moves.leaving[i];
        bytes -= pages_anonymous_bytes(&measured.pages, range.start, range.end, false);
    }
    if (bytes >= OWN_MOVED_BYTES_MIN) measured.moves.unknown = true;
}

static bool nothing_moves(void) { return !measured.moves.unknown && !own_has_moved(&measured.moves); }

// False if that is unknown. Where the hooks could not follow, or the process may not read its page tables, the rest can be
// looked at all the same.
static bool measure(void) {
    struct mapping mapping, before = {0};
    bool known = copy_tables();
    if (!pages_open(&measured.pages)) known = false;
    if (!known && !measured.wants_pieces) {
        pages_close(&measured.pages);
        return false;
    }
    measured.only_pieces = !known;
    if (known) measured.stacks_then = measured.own.stacks;
    if (known) measured.found_stacks = 0;
    if (!maps_open(&measured.maps)) {
        measured.wants_pieces = measured.only_pieces = false;
        pages_close(&measured.pages);
        return false;
    }
    // The thread that seals us waits for us to be done.
    while (!recorder_sealed && maps_next(&measured.maps, &mapping)) {
        count_mapping(&mapping, &before);
        before = mapping;
    }
    maps_close(&measured.maps);
    measured.only_pieces = false;
    if (known) {
        look_for_leaving();
        recorder_memory_count(&measured.pages);
    }
    pages_close(&measured.pages);
    return known && !recorder_sealed && (measured.pages.searches || measured.counted_bytes <= ONE_BY_ONE_MAX);
}

static uint64_t ranges_bytes(void) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < measured.own.mapped.count; i++)
        bytes += measured.own.mapped.range[i].end - measured.own.mapped.range[i].start;
    return bytes;
}

// Counts what moves alone: the program's own mappings, as the hooks know them, since an allocator in front of the kernel, such
// as Python's or Ruby's, takes and returns megabytes between two calls of malloc, and the stacks of its threads, where the last
// whole count found them. Only where the kernel searches: else the time depends on the address space.
static bool measure_moving(void) {
    if (!measured.pages.searches || !copy_tables()) return false;
    if (!measured.own.mapped.count && !measured.found_stacks && !recorder_memory_is_counted())
        return !recorder_sealed;
    if (!pages_open(&measured.pages) && ranges_bytes() > PRESENT_BYTES_MAX) return false;
    size_t range = 0, stack = 0;
    uintptr_t counted_to = 0;  // a program may map a stack for itself: it is in both tables
    while ((range < measured.own.mapped.count || stack < measured.found_stacks) && !recorder_sealed) {
        bool is_stack = range == measured.own.mapped.count ||
                        (stack < measured.found_stacks &&
                         measured.stack[stack].start < measured.own.mapped.range[range].start);
        struct range next = is_stack ? measured.stack[stack++] : measured.own.mapped.range[range++];
        count(next.start > counted_to ? next.start : counted_to, next.end, false);
        if (next.end > counted_to) counted_to = next.end;
    }
    look_for_leaving();
    recorder_memory_count(&measured.pages);
    pages_close(&measured.pages);
    measured.moving_bytes = measured.bytes;
    return !recorder_sealed && measured.pages.searches;
}

void own_start(void) {
    own_end_early();
    // Twice: the first one touches memory of ours, which the second counts.
    if (!measure() || !measure()) return;
    uint64_t anonymous_bytes = rss_anonymous_bytes();
    measured.static_bytes = anonymous_bytes > measured.bytes ? anonymous_bytes - measured.bytes : 0;
    // For programs that forbid a count, as one does that changes its user.
    measured.last_elsewhere_bytes = measured.static_bytes + measured.bytes - measured.moving_bytes;
    measured.any = true;
}

static uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// Is it useful, and cheap enough?
static bool is_time(uint64_t stamp, uint64_t anonymous_bytes) {
    uint64_t last = measured.last_anonymous_bytes, change = difference(anonymous_bytes, last);
    return measured.credit_stamps > 0 &&
           (change >= last / OWN_CHANGE_SHARE || stamp - measured.last_stamp >= STAMPS_PER_S);
}

static void earn(int64_t *credit_stamps, int64_t stamps) {
    int64_t most = (int64_t)CREDIT_STAMPS_MAX, sum = *credit_stamps + stamps;
    *credit_stamps = sum < most ? sum : most;
}

static void earn_credit(uint64_t stamp) {
    int64_t passed = (int64_t)(stamp - measured.asked_stamp);
    measured.asked_stamp = stamp;
    bool is_still = measured.elsewhere_is_still && own_stacks() == measured.stacks_then;
    earn(&measured.credit_stamps, passed / (is_still ? STILL_COST_SHARE : OWN_COST_SHARE));
    earn(&measured.moving_credit_stamps, passed / OWN_COST_SHARE);
    earn(&measured.pieces_credit_stamps, passed / OWN_COST_SHARE);
}

// Sees to it that the rest is known as well, if that is paid for. Its cost is not that of the count.
static int64_t take_pieces(void) {
    if (!measured.wants_pieces) return 0;
    int64_t stamps = (int64_t)(measured.pieces_counts >> CLOCK_SHIFT);
    measured.pieces_credit_stamps -= stamps;
    measured.has_pieces = pieces_are_known();
    return stamps;
}

static bool measure_all(uint64_t stamp, uint64_t anonymous_bytes, bool final) {
    uint64_t started_ns = clock_thread_cpu_ns();
    measured.wants_pieces = final || measured.pieces_credit_stamps > 0;
    measured.pieces_counts = 0;
    pieces_begin();
    bool fresh = measure();
    int64_t pieces_stamps = take_pieces();
    if (fresh) {
        uint64_t elsewhere = measured.static_bytes + measured.bytes - measured.moving_bytes;
        uint64_t change = difference(elsewhere, measured.last_elsewhere_bytes);
        bool first = !measured.any;  // better than none
        measured.elsewhere_is_still =
            !first && measured.pages.searches && change <= anonymous_bytes / STILL_SHARE;
        measured.last_elsewhere_bytes = elsewhere;
        measured.any = true;
        fresh = nothing_moves();
        if (fresh || first) measured.last_bytes = elsewhere + measured.moving_bytes;
    }
    measured.last_anonymous_bytes = anonymous_bytes;
    measured.last_stamp = stamp;
    int64_t stamps = cpu_stamps_since(started_ns) - pieces_stamps;
    measured.credit_stamps -= stamps > 0 ? stamps : 0;
    measured.wants_pieces = false;
    return fresh;
}

// Only what moves is counted. At a new peak always, if that takes no longer than MOVING_STAMPS_MAX: such samples are few,
// however long the run. False, too, if there are stacks that no whole count has seen.
static bool measure_in_between(bool is_peak) {
    uint64_t started_ns = clock_thread_cpu_ns();
    bool paid = measured.moving_credit_stamps > 0;
    bool free_of_charge = is_peak && measured.moving_cost_stamps <= (int64_t)MOVING_STAMPS_MAX;
    if (!measured.any || !(paid || free_of_charge) || !measure_moving()) return false;
    bool known = nothing_moves();
    if (known) measured.last_bytes = measured.last_elsewhere_bytes + measured.moving_bytes;
    measured.moving_cost_stamps = cpu_stamps_since(started_ns);
    if (paid) measured.moving_credit_stamps -= measured.moving_cost_stamps;
    return known && measured.own.stacks == measured.stacks_then;
}

struct own_answer own_bytes(const struct own_question *question) {
    struct own_answer answer = {.bytes = measured.last_bytes};
    if (atomic_flag_test_and_set(&measured.taken)) return answer;  // another thread is at it
    earn_credit(question->stamp);
    measured.has_pieces = false;
    if (question->final || is_time(question->stamp, question->anonymous_bytes))
        answer.fresh = measure_all(question->stamp, question->anonymous_bytes, question->final);
    if (!answer.fresh) answer.fresh = measure_in_between(question->is_peak);
    answer.bytes = measured.last_bytes;
    answer.pieces = measured.has_pieces;
    if (!answer.pieces) atomic_flag_clear(&measured.taken);
    return answer;
}

void own_pieces_done(void) { atomic_flag_clear(&measured.taken); }
