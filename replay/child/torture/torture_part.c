// SPDX-License-Identifier: Apache-2.0
#include "torture_part.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allocator_calls.h"
#include "raw_clock.h"
#include "rss_probe.h"

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
            if (block.at) ht_block_holds(t, &block);
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
