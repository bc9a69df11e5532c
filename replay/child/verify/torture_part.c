// SPDX-License-Identifier: Apache-2.0
#include "torture_part.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allocator_calls.h"
#include "memory_probes.h"
#include "raw_calls.h"
#include "single_steps.h"
#include "verify_blocks.h"

enum { WHOLE_BYTES = 2048, LOOKED_AT_EVERY = 64 };

typedef void *one_number(size_t);
typedef void *two_numbers(size_t, size_t);
typedef void *block_and_numbers(void *, size_t,
                                size_t);  // with fewer arguments than it is called with, it reads those

void ht_torture_find(struct ht_torture *torture, void *(*own)(const char *name)) {
    static const char *const makers[HT_VERIFIED_FUNCTIONS] = {[HT_VERIFIED_ALIGNED_ALLOC] = "aligned_alloc",
                                                              [HT_VERIFIED_MEMALIGN] = "memalign",
                                                              [HT_VERIFIED_VALLOC] = "valloc",
                                                              [HT_VERIFIED_PVALLOC] = "pvalloc",
                                                              [HT_VERIFIED_REALLOCARRAY] = "reallocarray",
                                                              [HT_VERIFIED_NEW] = "_Znwm",
                                                              [HT_VERIFIED_NEW_ARRAY] = "_Znam",
                                                              [HT_VERIFIED_NEW_ALIGNED] =
                                                                  "_ZnwmSt11align_val_t"};
    static const char *const ends[HT_BLOCK_ENDS] = {
        [HT_END_SIZED] = "free_sized", [HT_END_ALIGNED_SIZED] = "free_aligned_sized",
        [HT_END_NEW] = "_ZdlPv",       [HT_END_NEW_SIZED] = "_ZdlPvm",
        [HT_END_NEW_ARRAY] = "_ZdaPv", [HT_END_NEW_ALIGNED] = "_ZdlPvSt11align_val_t"};
    static const enum ht_block_end needs[HT_VERIFIED_FUNCTIONS] = {[HT_VERIFIED_NEW] = HT_END_NEW,
                                                                   [HT_VERIFIED_NEW_ARRAY] = HT_END_NEW_ARRAY,
                                                                   [HT_VERIFIED_NEW_ALIGNED] =
                                                                       HT_END_NEW_ALIGNED};
    struct ht_torture_record *record = &torture->findings->torture;
    for (int i = 0; i < HT_BLOCK_ENDS; i++) torture->end[i] = (void (*)(void))own(ends[i]);
    for (int i = HT_VERIFIED_TRACE; i < HT_VERIFIED_FUNCTIONS; i++) {
        torture->make[i] = (void (*)(void))own(makers[i]);
        if (needs[i] && !torture->end[needs[i]]) torture->make[i] = NULL;
        if (!torture->make[i]) record->lacking |= 1u << i;
    }
    torture->make_nothrow = (void (*)(void))own("_ZnwmRKSt9nothrow_t");
    torture->usable_size = (uint64_t (*)(void *))own("malloc_usable_size");
    torture->findings->usable_unknown = !torture->usable_size;
}

uint64_t ht_torture_draw(struct ht_torturer *t, uint64_t below) {
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (uint64_t)((unsigned __int128)(t->random * 0x2545f4914f6cdd1d) * below >> 64);
}

uint64_t ht_torture_resident(const struct ht_torture *torture) {
    return torture->statm_fd < 0 ? 0 : ht_rss_anon_bytes(torture->statm_fd);
}

uint64_t ht_torture_writable(void) {
    char line[128] = "";
    int fd = ht_rss_open();
    ssize_t got = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    char *at = line;
    if (fd >= 0) close(fd);
    for (int i = 0; got > 0 && i < 5; i++) strtoull(at, &at, 10);
    return got > 0 ? strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void tell(struct ht_torturer *t, struct ht_violation *violation) {
    uint32_t bit = 1u << violation->kind;
    violation->found_at = (struct ht_call_place){HT_STREAM_TORTURE, t->part};
    if (atomic_fetch_or(&t->of->findings->torture.told[t->part], bit) & bit)
        ht_verify_count(t->of->findings, violation->kind);
    else ht_verify_tell(t->of->findings, violation);
}

bool ht_torture_goes_on(struct ht_torturer *t) {
    struct ht_torture *torture = t->of;
    if (t->late || torture->stopped) return false;
    if (t->asked++ % LOOKED_AT_EVERY) return true;
    t->late = ht_raw_clock_ns(CLOCK_PROCESS_CPUTIME_ID) > t->until_ns;
    uint64_t resident = ht_torture_resident(torture);
    if (resident > torture->most_bytes && !atomic_exchange(&torture->stopped, true)) {
        struct ht_violation violation = {
            .kind = HT_VIOLATION_NOT_USED, .expected = torture->most_bytes, .offset = 1, .found = resident};
        tell(t, &violation);
    }
    return !t->late && !torture->stopped;
}

void ht_torture_add(struct ht_torturer *t) {
    struct ht_torture_record *record = &t->of->findings->torture;
    record->calls += t->calls;
    record->crossing_frees += t->crossing;
    record->moved += t->moved;
    record->in_place += t->in_place;
    t->calls = t->crossing = t->moved = t->in_place = 0;
}

static struct ht_violation violation_of(enum ht_violation_kind kind, const struct ht_block *block) {
    return (struct ht_violation){
        .kind = kind, .made_at = {HT_STREAM_TORTURE, block->function}, .bytes = block->bytes};
}

void ht_torture_tell(struct ht_torturer *t, enum ht_violation_kind kind, const struct ht_block *block,
                     uint64_t expected, uint64_t found) {
    struct ht_violation violation = violation_of(kind, block);
    if ((kind == HT_VIOLATION_ALIGNMENT || kind == HT_VIOLATION_FAILED) &&
        ht_known_alignment(&t->of->known, block->alignment)) {
        atomic_fetch_add(&t->of->findings->known, 1);
        return;
    }
    violation.expected = expected;
    violation.found = found;
    tell(t, &violation);
}

void ht_torture_departs(struct ht_torturer *t, enum ht_departure departure,
                        enum ht_verified_function function) {
    struct ht_torture_record *record = &t->of->findings->torture;
    record->departures[departure] |= 1u << function;
}

static void enter(const struct ht_torturer *t) {
    if (t->stepped) begin_steps();
}

static void leave(const struct ht_torturer *t) {
    if (t->stepped) end_steps();
}

static char *call(const struct ht_torturer *t, const struct ht_block *block) {
    void (*own)(void) = t->of->make[block->function];
    size_t bytes = block->bytes, alignment = block->alignment;
    void *made = NULL;
    switch (block->function) {
    case HT_VERIFIED_MALLOC: return HT_CALL_MALLOC(bytes);
    case HT_VERIFIED_CALLOC: return bytes % 8 ? HT_CALL_CALLOC(1, bytes) : HT_CALL_CALLOC(bytes / 8, 8);
    case HT_VERIFIED_REALLOC: return HT_CALL_REALLOC(NULL, bytes);
    case HT_VERIFIED_ALIGNED: return HT_CALL_POSIX_MEMALIGN(&made, alignment, bytes) ? NULL : made;
    case HT_VERIFIED_ALIGNED_ALLOC:
    case HT_VERIFIED_MEMALIGN: return ((two_numbers *)own)(alignment, bytes);
    case HT_VERIFIED_NEW_ALIGNED: return ((two_numbers *)own)(bytes, alignment);
    case HT_VERIFIED_REALLOCARRAY: return ((block_and_numbers *)own)(NULL, 1, bytes);
    default: return ((one_number *)own)(bytes);
    }
}

static void put_in_map(struct ht_torturer *t, struct ht_block *block) {
    struct ht_torture *torture = t->of;
    struct ht_map_nodes nodes = {(char *)torture->blocks, sizeof *torture->blocks};
    if (!t->alone) return;
    block->node.start = (uint64_t)block->at;
    block->node.bytes = block->bytes ? block->bytes : 1;
    block->mapped = true;
    uint32_t other = ht_map_add(&torture->map, nodes, (uint32_t)(block - torture->blocks));
    if (other == HT_MAP_NONE) return;
    const struct ht_block *overlapped = &torture->blocks[other];
    struct ht_violation violation = violation_of(HT_VIOLATION_OVERLAP, block);
    violation.other_made_at = (struct ht_call_place){HT_STREAM_TORTURE, overlapped->function};
    violation.offset = overlapped->node.start - block->node.start;  // modulo 2^64
    violation.expected = overlapped->node.bytes;
    tell(t, &violation);
}

static void take_out_of_map(struct ht_torture *torture, struct ht_block *block) {
    struct ht_map_nodes nodes = {(char *)torture->blocks, sizeof *torture->blocks};
    if (block->mapped) ht_map_remove(&torture->map, nodes, (uint32_t)(block - torture->blocks));
    block->mapped = false;
}

// All that malloc_usable_size gives is the program's to write, and is written.
static void fill(struct ht_torturer *t, struct ht_block *block) {
    uint64_t usable = block->bytes;
    if (t->of->usable_size && (usable = t->of->usable_size(block->at)) < block->bytes) {
        ht_torture_tell(t, HT_VIOLATION_USABLE, block, block->bytes, usable);
        usable = block->bytes;
    }
    bool large = usable >= HT_PATTERN_WHOLE_BYTES;
    block->pattern = (struct ht_pattern){.seed = t->random ^ (uint64_t)block->at * 0xd6e8feb86659fd93ull,
                                         .bytes = large ? block->bytes : usable,
                                         .pages = t->all_pages ? UINT64_MAX : 1,
                                         .usable = usable,
                                         .sparse = usable > WHOLE_BYTES};
    ht_pattern_fill(&block->pattern, block->at);
}

// What a call has returned.
static void take(struct ht_torturer *t, struct ht_block *block) {
    struct ht_verify_findings *findings = t->of->findings;
    uint64_t address = (uint64_t)block->at;
    block->maker = t->id;
    if (block->bytes && address % block->alignment)
        ht_torture_tell(t, HT_VIOLATION_ALIGNMENT, block, block->alignment, address & -address);
    put_in_map(t, block);
    fill(t, block);
    ht_verify_raise(&findings->largest_bytes, block->bytes);
    ht_verify_raise(&findings->largest_alignment, block->alignment);
    findings->blocks_by[block->function] = 1;
}

// Whether it is the allocator that had none, and not the machine.
static void tell_failed(struct ht_torturer *t, const struct ht_block *block) {
    const uint64_t slack = 16u << 20;
    uint64_t needed = block->bytes + 2 * block->alignment + slack;
    if (!block->bytes || block->bytes > t->of->most_bytes) return;
    void *room = mmap(NULL, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return;
    munmap(room, needed);
    ht_torture_tell(t, HT_VIOLATION_FAILED, block, 0, 0);
}

static void note(struct ht_torturer *t, const struct ht_block *block) {
    struct ht_torture_record *record = &t->of->findings->torture;
    t->calls++;
    if (!t->alone) return;
    record->function = block->function;
    record->bytes = block->bytes;
    record->alignment = block->alignment;
}

static uint64_t alignment_of(enum ht_verified_function function, uint64_t bytes, uint64_t asked) {
    switch (function) {
    case HT_VERIFIED_ALIGNED:
    case HT_VERIFIED_ALIGNED_ALLOC:
    case HT_VERIFIED_MEMALIGN:
    case HT_VERIFIED_NEW_ALIGNED: return asked;
    case HT_VERIFIED_VALLOC:
    case HT_VERIFIED_PVALLOC: return (uint64_t)sysconf(_SC_PAGESIZE);
    default: return ht_verify_alignment(bytes);
    }
}

bool ht_block_make(struct ht_torturer *t, struct ht_block *block, enum ht_verified_function function,
                   uint64_t bytes, uint64_t alignment) {
    block->at = NULL;
    block->function = function;
    block->alignment = alignment_of(function, bytes, alignment);
    block->bytes = bytes;
    if (function == HT_VERIFIED_ALIGNED_ALLOC || function == HT_VERIFIED_PVALLOC)
        block->bytes = (bytes + block->alignment - 1) / block->alignment * block->alignment;
    if (function >= HT_VERIFIED_TRACE && !t->of->make[function]) return false;
    note(t, block);
    enter(t);
    block->at = call(t, block);
    leave(t);
    if (!block->at) {
        tell_failed(t, block);
        return false;
    }
    struct ht_violation dirty = violation_of(HT_VIOLATION_ZEROS, block);
    uint8_t found = 0;
    if (function == HT_VERIFIED_CALLOC && !ht_all_zeros(block->at, block->bytes, &dirty.offset, &found)) {
        dirty.found = found;
        tell(t, &dirty);
    }
    take(t, block);
    return true;
}

static bool holds(struct ht_torturer *t, const struct ht_block *block, enum ht_violation_kind kind,
                  const char *at, uint64_t bytes) {
    struct ht_violation violation = violation_of(kind, block);
    uint8_t expected, found;
    if (ht_pattern_holds(&block->pattern, at, bytes, &violation.offset, &expected, &found)) return true;
    violation.expected = expected;
    violation.found = found;
    tell(t, &violation);
    return false;
}

// ht_block_check of what is written alone.
static bool block_holds(struct ht_torturer *t, const struct ht_block *block) {
    return holds(t, block, HT_VIOLATION_CHANGED, block->at, UINT64_MAX);
}

bool ht_block_check(struct ht_torturer *t, const struct ht_block *block) {
    __atomic_fetch_add(&t->of->findings->blocks_checked, 1, __ATOMIC_RELAXED);
    if (t->of->usable_size) {
        uint64_t usable = t->of->usable_size(block->at);
        if (usable < block->pattern.usable)
            ht_torture_tell(t, HT_VIOLATION_USABLE, block, block->pattern.usable, usable);
    }
    return block_holds(t, block);
}

bool ht_block_resize(struct ht_torturer *t, struct ht_block *block, uint64_t bytes) {
    bool held = ht_block_check(t, block);
    struct ht_block asked = *block;
    block_and_numbers *array = (block_and_numbers *)t->of->make[HT_VERIFIED_REALLOCARRAY];
    bool by_array = array && t->calls % 4 == 0;
    asked.function = by_array ? HT_VERIFIED_REALLOCARRAY : HT_VERIFIED_REALLOC;
    asked.bytes = bytes;
    asked.alignment = ht_verify_alignment(bytes);
    note(t, &asked);
    take_out_of_map(t->of, block);
    enter(t);
    char *moved = by_array ? array(block->at, 1, bytes) : HT_CALL_REALLOC(block->at, bytes);
    leave(t);
    if (!moved) {
        tell_failed(t, &asked);
        put_in_map(t, block);
        return false;
    }
    if (moved == block->at) t->in_place++;
    else t->moved++;
    if (held) holds(t, block, HT_VIOLATION_NOT_KEPT, moved, block->bytes < bytes ? block->bytes : bytes);
    asked.at = moved;
    asked.mapped = false;
    *block = asked;
    take(t, block);
    return true;
}

static void end(const struct ht_torturer *t, const struct ht_block *block) {
    const struct ht_torture *of = t->of;
    bool sized = t->calls & 1;
    void (*own)(void) = NULL;
    size_t first = block->bytes, second = 0;
    switch (block->function) {
    case HT_VERIFIED_NEW:
        own = of->end[sized && of->end[HT_END_NEW_SIZED] ? HT_END_NEW_SIZED : HT_END_NEW];
        break;
    case HT_VERIFIED_NEW_ARRAY: own = of->end[HT_END_NEW_ARRAY]; break;
    case HT_VERIFIED_NEW_ALIGNED:
        own = of->end[HT_END_NEW_ALIGNED];
        first = block->alignment;
        break;
    case HT_VERIFIED_ALIGNED_ALLOC:
        own = sized ? of->end[HT_END_ALIGNED_SIZED] : NULL;
        first = block->alignment;
        second = block->bytes;
        break;
    case HT_VERIFIED_MALLOC:
    case HT_VERIFIED_CALLOC:
    case HT_VERIFIED_REALLOC: own = sized ? of->end[HT_END_SIZED] : NULL; break;
    default: break;
    }
    if (own) ((block_and_numbers *)own)(block->at, first, second);
    else HT_CALL_FREE(block->at);
}

// Out of the map before the call, as in verify_pass.c.
void ht_block_end(struct ht_torturer *t, struct ht_block *block) {
    enum { SET_BEFORE = 4242 };
    if (!block->at) return;
    ht_block_check(t, block);
    take_out_of_map(t->of, block);
    t->crossing += block->maker != t->id;
    t->calls++;
    errno = SET_BEFORE;
    enter(t);
    end(t, block);
    leave(t);
    if (errno != SET_BEFORE && block->function < HT_VERIFIED_NEW)
        ht_torture_departs(t, HT_DEPARTURE_ERRNO, HT_VERIFIED_MALLOC);
    block->at = NULL;
}

void ht_block_forget(struct ht_torturer *t, struct ht_block *block) {
    take_out_of_map(t->of, block);
    block->at = NULL;
}

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

enum { NOT_DONE = 3 };
static const uint64_t part_ns =
    4000000000;  // of CPU time: by then, a part that takes some tenths of a second is cut short

struct ht_block *ht_slots_put(struct ht_torturer *t, struct ht_slots slots,
                              enum ht_verified_function function, uint64_t bytes, uint64_t alignment) {
    struct ht_block *block = t->of->blocks + slots.first + ht_torture_draw(t, slots.count);
    ht_block_end(t, block);
    ht_block_make(t, block, function, bytes, alignment);
    return block;
}

void ht_slots_end(struct ht_torturer *t, struct ht_slots slots) {
    bool backwards = ht_torture_draw(t, 2);
    for (uint32_t i = 0; i < slots.count; i++)
        ht_block_end(t, t->of->blocks + slots.first + (backwards ? slots.count - 1 - i : i));
}

void ht_slots_check(struct ht_torturer *t, struct ht_slots slots) {
    for (uint32_t i = 0; i < slots.count; i++) {
        const struct ht_block *block = t->of->blocks + slots.first + i;
        if (block->at) ht_block_check(t, block);
    }
}

enum ht_verified_function ht_any_function(struct ht_torturer *t, bool aligned) {
    static const enum ht_verified_function list[] = {
        HT_VERIFIED_MALLOC,   HT_VERIFIED_CALLOC,    HT_VERIFIED_REALLOC, HT_VERIFIED_REALLOCARRAY,
        HT_VERIFIED_NEW,      HT_VERIFIED_NEW_ARRAY, HT_VERIFIED_ALIGNED, HT_VERIFIED_ALIGNED_ALLOC,
        HT_VERIFIED_MEMALIGN, HT_VERIFIED_VALLOC,    HT_VERIFIED_PVALLOC, HT_VERIFIED_NEW_ALIGNED};
    const uint64_t unaligned = 6;
    for (;;) {
        enum ht_verified_function function =
            list[ht_torture_draw(t, aligned ? HT_VERIFIED_FUNCTIONS - 1 : unaligned)];
        if (function < HT_VERIFIED_TRACE || t->of->make[function]) return function;
    }
}

uint64_t ht_any_size(struct ht_torturer *t, unsigned bits) {
    uint64_t below = 2ull << ht_torture_draw(t, bits);
    return 1 + ht_torture_draw(t, below);
}

uint64_t ht_any_alignment(struct ht_torturer *t) { return 8ull << ht_torture_draw(t, 10); }

void ht_torture_contend(struct ht_torturer *t, uint64_t bytes, unsigned depth, unsigned times) {
    struct {
        char *at;
        struct ht_pattern pattern;
    } held[HT_DEPTH_MAX];
    for (unsigned i = 0; i < times && ht_torture_goes_on(t); i++) {
        for (unsigned k = 0; k < depth; k++) {
            held[k].at = HT_CALL_MALLOC(bytes);
            held[k].pattern =
                (struct ht_pattern){.seed = ++t->calls * 64 + t->number, .bytes = HT_PATTERN_SPAN_BYTES / 4};
            if (held[k].at) ht_pattern_fill(&held[k].pattern, held[k].at);
        }
        for (unsigned k = 0; k < depth; k++) {
            unsigned which = i % 2 ? k : depth - 1 - k;
            const struct ht_block block = {.at = held[which].at,
                                           .pattern = held[which].pattern,
                                           .bytes = bytes,
                                           .function = HT_VERIFIED_MALLOC};
            if (block.at) block_holds(t, &block);
            HT_CALL_FREE(block.at);
        }
    }
}

void ht_torture_tell_growth(struct ht_torturer *t, enum ht_verified_function function, uint64_t bytes,
                            uint64_t before, uint64_t freed) {
    const struct ht_block block = {.function = function, .bytes = bytes};
    uint64_t after = ht_torture_resident(t->of), kept = bytes > 64 * KIB ? 6 * MIB : bytes ? MIB : 4 * MIB;
    if (!t->late && after > before + kept + freed / 32)
        ht_torture_tell(t, HT_VIOLATION_NOT_USED, &block, freed, after - before);
}

void ht_torture_start_clock(struct ht_torturer *t) {
    t->late = false;
    t->until_ns = ht_raw_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + part_ns;
}

static void pause_us(long us) {
    const struct timespec moment = {.tv_nsec = us * 1000};
    syscall(SYS_nanosleep, &moment, NULL);
}

bool ht_torture_in_child(struct ht_torturer *t, bool (*body)(struct ht_torturer *t)) {
    const unsigned pause = 200, pauses_max = 200000;  // 40 s, and more where the machine is busy
    const struct ht_block none = {.function = HT_VERIFIED_MALLOC};
    int status = 0;
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (t->of->statm_fd >= 0) t->of->statm_fd = ht_rss_open();
        int silent = open("/dev/null", O_WRONLY);  // allocators print when they refuse
        if (silent >= 0) dup2(silent, STDERR_FILENO);
        t->calls = t->crossing = t->moved = t->in_place = 0;
        ht_torture_start_clock(t);
        bool done = body(t) && !t->late;
        ht_torture_add(t);
        _exit(done ? 0 : NOT_DONE);
    }
    for (unsigned i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
        if (i == pauses_max) kill(child, SIGKILL);
        pause_us(pause);
    }
    bool refuses = t->part == HT_TORTURE_REFUSALS || t->part == HT_TORTURE_NO_MEMORY;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && refuses)
        ht_torture_departs(t, HT_DEPARTURE_ABORT, HT_VERIFIED_MALLOC);
    else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTRAP)
        ht_torture_tell(t, HT_VIOLATION_ENDED, &none, 0, (uint64_t)WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
