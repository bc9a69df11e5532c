// SPDX-License-Identifier: Apache-2.0
#include "surroundings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "random_numbers.h"

enum { WRITTEN = 0x5a, SEED = 1 };

// Takes a random one out of `count`.
static void *take_any(struct ht_random *random, void **blocks, uint64_t count) {
    uint64_t taken = ht_random_next(random) % count;
    void *block = blocks[taken];
    blocks[taken] = blocks[count - 1];
    return block;
}

bool ht_age_heap(const struct ht_aging *aging, void **blocks) {
    struct ht_random random = {SEED};
    uint64_t to_free = 0;
    for (uint64_t i = 0; i < aging->blocks; i++) {
        uint64_t bytes = ht_aging_bytes(aging, i);
        void *block = malloc(bytes);
        if (!block && bytes) return false;
        if (block) memset(block, WRITTEN, bytes);
        if (!ht_aging_keeps(aging, i)) blocks[to_free++] = block;
    }
    for (; to_free; to_free--) free(take_any(&random, blocks, to_free));
    return true;
}

bool ht_age_without_heap(const struct ht_aging *aging) {
    if (!aging->kept_bytes) return true;
    void *memory = mmap(NULL, aging->kept_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory != MAP_FAILED;
}

enum { PAGE_BYTES = 4096 };

static uint64_t whole_pages(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

bool ht_ballast_prepare(struct ht_ballast *ballast, const uint64_t *own_bytes, uint64_t samples,
                        uint64_t *reached) {
    *ballast =
        (struct ht_ballast){.own_bytes = own_bytes, .reached = reached, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (uint64_t i = 0; i < samples; i++) {
        if (own_bytes[i] > ballast->room_bytes) ballast->room_bytes = own_bytes[i];
    }
    ballast->room_bytes = whole_pages(ballast->room_bytes) + PAGE_BYTES;
    void *memory = mmap(NULL, ballast->room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    ballast->memory = memory;
    return true;
}

void ht_ballast_follow(struct ht_ballast *ballast, uint64_t sample) {
    pthread_mutex_lock(&ballast->lock);
    uint64_t wanted = whole_pages(ballast->own_bytes[sample]), held = ballast->held_bytes;
    if (sample + 1 > *ballast->reached) *ballast->reached = sample + 1;
    for (uint64_t at = held; at < wanted; at += PAGE_BYTES) ((volatile char *)ballast->memory)[at] = 1;
    if (wanted < held) madvise(ballast->memory + wanted, held - wanted, MADV_REMOVE);
    ballast->held_bytes = wanted;
    pthread_mutex_unlock(&ballast->lock);
}

// Working sets are at least so large, so that a small share of one is not in the first-level caches and the first
// TLB any more when its turn comes again.
enum { DATA_BYTES_MIN = 256 << 10, CODE_BYTES_MIN = 256 << 10, PAGES_MIN = 1024 };

struct part {
    char *start;
    uint64_t count, of;     // lines or pages at a time, of so many
    _Atomic uint64_t turn;  // how many have had theirs
};

struct ht_polluter {
    struct part data, code, pages;
};

static void *map(uint64_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static bool map_part(struct part *part, uint64_t count, uint64_t least, uint64_t unit_bytes) {
    part->count = count;
    part->of = count > least ? count : least;
    if (!count) return true;
    part->start = map(part->of * unit_bytes);
    return part->start;
}

// A function in each line, which returns at once.
static bool make_code(struct part *part) {
#ifdef __x86_64__
    static const char function[] = {(char)0xc3};
#elif defined __aarch64__
    static const char function[] = {(char)0xc0, 0x03, 0x5f, (char)0xd6};
#else
    static const char function[1];
    errno = ENOTSUP;
    return !part->count;
#endif
    uint64_t bytes = part->of * HT_POLLUTION_LINE_BYTES;
    if (!part->count) return true;
    for (uint64_t at = 0; at < bytes; at += HT_POLLUTION_LINE_BYTES)
        memcpy(part->start + at, function, sizeof function);
    if (mprotect(part->start, bytes, PROT_READ | PROT_EXEC)) return false;
    __builtin___clear_cache(part->start, part->start + bytes);
    return true;
}

// Real pages of the usual size, each of its own.
static void make_pages(struct part *part) {
    if (!part->count) return;
    madvise(part->start, part->of * HT_POLLUTION_PAGE_BYTES, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < part->of; i++) ((volatile char *)part->start)[i * HT_POLLUTION_PAGE_BYTES] = 1;
}

struct ht_polluter *ht_polluter_make(const struct ht_pollution *pollution) {
    const uint64_t line = HT_POLLUTION_LINE_BYTES;
    struct ht_polluter *polluter = map(sizeof *polluter);
    if (!polluter || !map_part(&polluter->data, pollution->data_bytes / line, DATA_BYTES_MIN / line, line) ||
        !map_part(&polluter->code, pollution->code_bytes / line, CODE_BYTES_MIN / line, line) ||
        !map_part(&polluter->pages, pollution->pages, PAGES_MIN, HT_POLLUTION_PAGE_BYTES) ||
        !make_code(&polluter->code))
        return NULL;
    if (polluter->data.count) memset(polluter->data.start, 1, polluter->data.of * line);
    make_pages(&polluter->pages);
    return polluter;
}

// Here a part's next turn begins.
static uint64_t take_turn(struct part *part) {
    return part->count ? atomic_fetch_add_explicit(&part->turn, part->count, memory_order_relaxed) % part->of
                       : 0;
}

static uint64_t after(const struct part *part, uint64_t at) { return at + 1 < part->of ? at + 1 : 0; }

// Pages and data first, since both bring data into the caches, and code lies in the second level too.
void ht_pollute(struct ht_polluter *polluter) {
    const uint64_t lines_of_page = HT_POLLUTION_PAGE_BYTES / HT_POLLUTION_LINE_BYTES;
    struct part *part = &polluter->pages;
    uint64_t at = take_turn(part);
    for (uint64_t i = 0; i < part->count; i++, at = after(part, at)) {
        uint64_t line = at % lines_of_page;  // not all in the same set of the cache
        (void)*(volatile char *)(part->start + at * HT_POLLUTION_PAGE_BYTES + line * HT_POLLUTION_LINE_BYTES);
    }
    part = &polluter->data;
    at = take_turn(part);
    for (uint64_t i = 0; i < part->count; i++, at = after(part, at))
        ((volatile char *)part->start)[at * HT_POLLUTION_LINE_BYTES]++;
    part = &polluter->code;
    at = take_turn(part);
    for (uint64_t i = 0; i < part->count; i++, at = after(part, at))
        ((void (*)(void))(uintptr_t)(part->start + at * HT_POLLUTION_LINE_BYTES))();
}
