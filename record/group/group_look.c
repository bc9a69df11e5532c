// SPDX-License-Identifier: Apache-2.0
#include "group_look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"
#include "kernel_text.h"
#include "now.h"
#include "space.h"

// ---- one process ----

enum group_look { GROUP_SEEN, GROUP_GONE, GROUP_FORBIDDEN, GROUP_NO_MEMORY };

// The bits are described in Documentation/admin-guide/mm/pagemap.rst.
#define ENTRY_PRESENT   (UINT64_C(1) << 63)
#define ENTRY_SWAPPED   (UINT64_C(1) << 62)
#define ENTRY_OF_A_FILE (UINT64_C(1) << 61)
#define ENTRY_EXCLUSIVE (UINT64_C(1) << 56)

// So many absent pages in a row divide a mapping: what a process has reserved takes no room in the file.
enum { GAP_PAGES = 512, TEXT_BYTES = 64 << 10 };

static enum group_look why_not(void) {
    return errno == EACCES || errno == EPERM ? GROUP_FORBIDDEN
           : errno == ENOMEM                 ? GROUP_NO_MEMORY
                                             : GROUP_GONE;
}

static int open_of(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

// ---- sums ----

// Older kernels do not have all of them.
static uint64_t bytes_after(const char *text, const char *key) {
    uint64_t bytes = ht_kernel_bytes(text, key);
    return bytes == UINT64_MAX ? 0 : bytes;
}

// Sums of /proc/PID/smaps_rollup.
static enum group_look group_sums_read(pid_t pid, struct ht_group_member *member) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    ssize_t got = ht_kernel_read(path, text, sizeof text);
    if (got <= 0) return got < 0 ? why_not() : GROUP_GONE;
    member->rss_bytes = bytes_after(text, "\nRss:");
    member->pss_bytes = bytes_after(text, "\nPss:");
    member->rss_anon_bytes = bytes_after(text, "\nAnonymous:");
    member->pss_anon_bytes = bytes_after(text, "\nPss_Anon:");
    member->swap_bytes = bytes_after(text, "\nSwap:");
    member->ksm_bytes = bytes_after(text, "\nKSM:");
    member->huge_bytes = bytes_after(text, "\nAnonHugePages:");
    return member->rss_bytes ? GROUP_SEEN : GROUP_GONE;
}

// ---- states ----

struct reading {
    struct ht_group_member *member;
    struct space space;
    size_t mapping_room, state_room;
    // The mapping whose lines are being read.
    uint64_t start, end, anonymous_bytes;
    uint32_t kind;
    bool wanted;
    // The piece of it that is being told.
    uint64_t piece_start;
    uint8_t *state;
    size_t pages, absent;  // absent: of these, so many at the end
};

// False for want of memory.
static bool end_piece(struct reading *reading) {
    size_t pages = reading->pages - reading->absent;
    struct ht_group_member *member = reading->member;
    reading->pages = reading->absent = 0;
    if (!pages) return true;
    uint8_t *state = malloc(pages);
    if (!state ||
        !ht_grow(&member->mapping, &reading->mapping_room, member->mappings + 1, sizeof *member->mapping)) {
        free(state);
        return false;
    }
    memcpy(state, reading->state, pages);
    member->mapping[member->mappings++] =
        (struct ht_group_mapping){.start = reading->piece_start,
                                  .end = reading->piece_start + pages * SPACE_PAGE_BYTES,
                                  .kind = reading->kind,
                                  .state = state};
    return true;
}

static bool put_page(struct reading *reading, uint64_t address, uint8_t state) {
    if (!reading->pages) {
        if (state == HT_PAGE_ABSENT) return true;
        reading->piece_start = address;
    }
    if (!ht_grow(&reading->state, &reading->state_room, reading->pages + 1, 1)) return false;
    reading->state[reading->pages++] = state;
    reading->absent = state == HT_PAGE_ABSENT ? reading->absent + 1 : 0;
    return reading->absent < GAP_PAGES || end_piece(reading);
}

static uint8_t state_of(uint64_t entry) {
    if (entry & ENTRY_SWAPPED) return HT_PAGE_SWAPPED;
    if (!(entry & ENTRY_PRESENT) || entry & ENTRY_OF_A_FILE) return HT_PAGE_ABSENT;
    return entry & ENTRY_EXCLUSIVE ? HT_PAGE_EXCLUSIVE : HT_PAGE_SHARED;
}

// Behind a row of pages that are not there: the next that is. If the kernel cannot tell at once, that is a few pages further.
static uint64_t next_page(const struct reading *reading, uint64_t at) {
    if (at >= reading->end) return at;
    struct space_stretch stretch = space_stretch_at(&reading->space, at, reading->end);
    return stretch.in_ram || stretch.swapped || stretch.end <= at ? at : stretch.end;
}

static bool put_pages(struct reading *reading) {
    uint64_t entries[GAP_PAGES];
    for (uint64_t at = reading->start; at < reading->end;) {
        uint64_t wanted = (reading->end - at) / SPACE_PAGE_BYTES;
        if (wanted > GAP_PAGES) wanted = GAP_PAGES;
        ssize_t got = pread(reading->space.pagemap_fd, entries, wanted * sizeof *entries,
                            (off_t)(at / SPACE_PAGE_BYTES * sizeof *entries));
        if (got < (ssize_t)sizeof *entries) break;  // it has ended
        unsigned any = 0;
        for (size_t i = 0; i < (size_t)got / sizeof *entries; i++, at += SPACE_PAGE_BYTES) {
            uint8_t state = state_of(entries[i]);
            any |= state;
            if (!put_page(reading, at, state)) return false;
        }
        if (any) continue;
        if (!end_piece(reading)) return false;
        at = next_page(reading, at);
    }
    return end_piece(reading);
}

// The zero page looks as if it were shared; the kernel counts it as nobody's.
static void take_zero_pages_out(struct reading *reading, struct ht_group_mapping *piece) {
    for (uint64_t at = piece->start; at < piece->end;) {
        struct space_run run = space_zero_run(&reading->space, at, piece->end);
        for (uint64_t page = run.start; page < run.end; page += SPACE_PAGE_BYTES) {
            uint8_t *state = &piece->state[(page - piece->start) / SPACE_PAGE_BYTES];
            if (*state == HT_PAGE_SHARED) *state = HT_PAGE_ABSENT;
        }
        if (run.end <= at) return;
        at = run.end;
    }
}

// Absent ones at both ends leave it.
static bool trim(struct ht_group_mapping *piece) {
    size_t pages = (piece->end - piece->start) / SPACE_PAGE_BYTES, first = 0;
    while (pages && piece->state[pages - 1] == HT_PAGE_ABSENT) pages--;
    while (first < pages && piece->state[first] == HT_PAGE_ABSENT) first++;
    memmove(piece->state, piece->state + first, pages - first);
    piece->end = piece->start + pages * SPACE_PAGE_BYTES;
    piece->start += first * SPACE_PAGE_BYTES;
    return pages;
}

static void clean_pieces(struct reading *reading, size_t first) {
    struct ht_group_member *member = reading->member;
    uint64_t present = 0;
    for (size_t i = first; i < member->mappings; i++)
        for (uint64_t page = 0; page < (member->mapping[i].end - member->mapping[i].start) / SPACE_PAGE_BYTES;
             page++)
            present += member->mapping[i].state[page] == HT_PAGE_SHARED ||
                       member->mapping[i].state[page] == HT_PAGE_EXCLUSIVE;
    if (present * SPACE_PAGE_BYTES <= reading->anonymous_bytes) return;
    size_t kept = first;
    for (size_t i = first; i < member->mappings; i++) {
        take_zero_pages_out(reading, &member->mapping[i]);
        if (trim(&member->mapping[i])) member->mapping[kept++] = member->mapping[i];
        else free(member->mapping[i].state);
    }
    member->mappings = kept;
}

// ---- lines of smaps ----

static void begin_mapping(struct reading *reading, const struct ht_kernel_mapping *mapping) {
    reading->start = mapping->start;
    reading->end = mapping->end;
    reading->wanted =
        mapping->permissions[3] != 's' && mapping->start < mapping->end && mapping->end < INT64_MAX;
    reading->kind = mapping->inode                          ? HT_MAPPING_FILE
                    : !strncmp(mapping->name, "[heap]", 6)  ? HT_MAPPING_HEAP
                    : !strncmp(mapping->name, "[stack]", 7) ? HT_MAPPING_STACK
                                                            : HT_MAPPING_ANONYMOUS;
    reading->anonymous_bytes = 0;
}

static bool has_key(const char *line, const char *key, uint64_t *bytes) {
    if (strncmp(line, key, strlen(key))) return false;
    *bytes = ht_kernel_bytes(line, key);
    return true;
}

// Swap comes after Anonymous, once a mapping.
static bool take_line(struct reading *reading, const char *line) {
    uint64_t swapped;
    struct ht_kernel_mapping mapping;
    if (ht_kernel_mapping(line, &mapping)) begin_mapping(reading, &mapping);
    else if (!has_key(line, "Anonymous:", &reading->anonymous_bytes) && has_key(line, "Swap:", &swapped) &&
             reading->wanted && (swapped || reading->anonymous_bytes)) {
        size_t first = reading->member->mappings;
        if (!put_pages(reading)) return false;
        clean_pieces(reading, first);
    }
    return true;
}

// The mappings, and the state of each page.
static enum group_look group_pages_read(pid_t pid, struct ht_group_member *member) {
    struct reading reading = {.member = member,
                              .space = {.memory_fd = -1, .pagemap_fd = open_of(pid, "pagemap")}};
    int fd = reading.space.pagemap_fd < 0 ? -1 : open_of(pid, "smaps");
    FILE *lines = fd < 0 ? NULL : fdopen(fd, "r");
    enum group_look look = lines ? GROUP_SEEN : why_not();
    char *line = NULL;
    size_t room = 0;
    if (lines) setvbuf(lines, NULL, _IOFBF, TEXT_BYTES);
    while (look == GROUP_SEEN && getline(&line, &room, lines) > 0)
        if (!take_line(&reading, line)) look = GROUP_NO_MEMORY;
    if (lines) fclose(lines);
    else if (fd >= 0) close(fd);
    if (reading.space.pagemap_fd >= 0) close(reading.space.pagemap_fd);
    free(line);
    free(reading.state);
    // A process that has ended meanwhile has no mapping; the kernel's own processes have none at all.
    return look == GROUP_SEEN && !member->mappings ? GROUP_GONE : look;
}

// ---- the group ----

static void note_hidden(struct group_hidden *hidden, const struct tree_process *process) {
    for (size_t i = 0; i < hidden->named; i++)
        if (hidden->pid[i] == process->pid) return;
    if (hidden->named == GROUP_HIDDEN_NAMED) {
        hidden->more = true;
        return;
    }
    hidden->pid[hidden->named] = process->pid;
    memcpy(hidden->name[hidden->named++], process->name, sizeof process->name);
}

static bool is_over(const struct group_look_order *order) {
    return (order->stop && atomic_load(order->stop)) ||
           (order->until_ns && ht_now_ns(CLOCK_MONOTONIC) > order->until_ns);
}

struct group_look_sum group_look_sum(const struct group_look_order *order) {
    struct group_look_sum sum = {0};
    for (size_t i = 0; i < order->tree->count && !is_over(order); i++) {
        struct ht_group_member member = {0};
        enum group_look look = group_sums_read(order->tree->process[i].pid, &member);
        if (look == GROUP_FORBIDDEN) note_hidden(order->hidden, &order->tree->process[i]);
        if (look != GROUP_SEEN) continue;
        sum.pss_anon_bytes += member.pss_anon_bytes;
        sum.processes++;
    }
    return sum;
}

static enum group_look look_at(const struct tree_process *process, struct ht_group_member *member) {
    *member = (struct ht_group_member){.pid = (uint32_t)process->pid,
                                       .parent_pid = (uint32_t)process->parent,
                                       .start_ticks = process->start_ticks,
                                       .executed = process->executed};
    memcpy(member->name, process->name, sizeof member->name);
    enum group_look look = group_sums_read(process->pid, member);
    return look == GROUP_SEEN ? group_pages_read(process->pid, member) : look;
}

bool group_look_pages(const struct group_look_order *order, struct ht_group_snapshot *snapshot) {
    const struct group_tree *tree = order->tree;
    *snapshot = (struct ht_group_snapshot){.time_ns = ht_now_ns(CLOCK_MONOTONIC),
                                           .member = calloc(tree->count, sizeof *snapshot->member)};
    bool whole = snapshot->member;
    for (size_t i = 0; whole && i < tree->count; i++) {
        struct ht_group_member *member = &snapshot->member[snapshot->members++];
        enum group_look look = look_at(&tree->process[i], member);
        if (look == GROUP_FORBIDDEN) note_hidden(order->hidden, &tree->process[i]);
        if (look != GROUP_SEEN) {
            for (size_t j = 0; j < member->mappings; j++) free(member->mapping[j].state);
            free(member->mapping);
            *member = (struct ht_group_member){0};
            snapshot->members--;
        }
        // Without its root it is no group.
        whole = snapshot->members && look != GROUP_NO_MEMORY && !is_over(order);
    }
    snapshot->took_ns = ht_now_ns(CLOCK_MONOTONIC) - snapshot->time_ns;
    if (!whole) ht_group_snapshot_free(snapshot);
    return whole;
}

uint64_t group_snapshot_anonymous_bytes(const struct ht_group_snapshot *snapshot) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->members; i++) bytes += snapshot->member[i].pss_anon_bytes;
    return bytes;
}

uint64_t group_member_pages(const struct ht_group_member *member, enum ht_page_state state,
                            uint32_t page_bytes) {
    uint64_t pages = 0;
    for (size_t i = 0; i < member->mappings; i++) {
        const struct ht_group_mapping *mapping = &member->mapping[i];
        for (uint64_t page = 0; page < (mapping->end - mapping->start) / page_bytes; page++)
            pages += mapping->state[page] == state;
    }
    return pages;
}

bool group_snapshot_shares(const struct ht_group_snapshot *snapshot, uint32_t page_bytes) {
    for (size_t i = 1; i < snapshot->members; i++)
        if (!snapshot->member[i].executed &&
            group_member_pages(&snapshot->member[i], HT_PAGE_SHARED, page_bytes))
            return true;
    return false;
}

bool group_look_now(pid_t root, struct ht_group_snapshot *snapshot) {
    struct group_tree tree = {0};
    struct group_hidden hidden = {0};
    const struct group_look_order order = {.tree = &tree, .hidden = &hidden};
    *snapshot = (struct ht_group_snapshot){0};
    bool seen = sysconf(_SC_PAGESIZE) == SPACE_PAGE_BYTES && group_tree_find(&tree, root) && tree.count > 1 &&
                group_look_pages(&order, snapshot);
    group_tree_free(&tree);
    if (seen && group_snapshot_shares(snapshot, SPACE_PAGE_BYTES)) return true;
    ht_group_snapshot_free(snapshot);
    return false;
}
