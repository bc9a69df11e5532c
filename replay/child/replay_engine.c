// SPDX-License-Identifier: Apache-2.0
// The loop that is measured. It runs to the next mark without reading anything but the stream and the
// slot table, so that what the null replayer costs is small and the same for every allocator.
//
// Compiled once for each layout (engine_layouts.c), with its code at another place of a page: HT_LAYOUT_PLACE.
#include "replay_engine.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "allocator_calls.h"
#include "allocator_control.h"
#include "memory_probes.h"
#include "peak_watch.h"
#include "raw_calls.h"
#include "replay_feed.h"
#include "replay_window.h"
#include "surroundings.h"

__asm__(".text\n.p2align 12\n.skip " HT_LAYOUT_PLACE);

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { WRITTEN = 0x5a };

// Behind the last of so many pages of a block of `size` bytes, which may have fewer.
static uint64_t end_page(uint64_t size, uint64_t pages) {
    uint64_t block_pages = (size + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES;
    return pages < block_pages ? pages : block_pages;
}

// A block's last byte: one that does not begin with a page lies in one more page than it has.
static __attribute__((noinline)) void touch_last(const struct ht_lane *lane, char *block, uint64_t size) {
    uint64_t last = size - 1;
    ((volatile char *)block)[last / HT_TOUCH_PAGE_BYTES * lane->page_stride + last % HT_TOUCH_PAGE_BYTES] =
        WRITTEN;
}

// Writes one byte in each page from first_page on, of a block of `size` bytes, but no page past `pages`.
static void touch_pages(const struct ht_lane *lane, char *block, uint64_t first_page, uint64_t size,
                        uint64_t pages) {
    uint64_t behind = end_page(size, pages);
    for (uint64_t page = first_page; page < behind; page++) {
        ((volatile char *)block)[page * lane->page_stride] = WRITTEN;
    }
    if (size && pages > behind) touch_last(lane, block, size);
}

// One instruction where the processor has one: a fault in the middle of it takes longer than in a plain store.
static void copy_bytes(char *from, uint64_t bytes) {
#ifdef __x86_64__
    __asm__ volatile("rep stosb" : "+D"(from), "+c"(bytes) : "a"(WRITTEN) : "memory");
#else
    memset(from, WRITTEN, bytes);
#endif
}

// The same pages, but as programs fill them, which copy: each page after the first comes in the middle of a copy that
// begins on the page before. A little of each page is enough for that.
static void copy_pages(const struct ht_lane *lane, char *block, uint64_t first_page, uint64_t size,
                       uint64_t pages) {
    enum { BESIDE = 256 };
    uint64_t behind = end_page(size, pages);
    if (first_page < behind) ((volatile char *)block)[first_page * lane->page_stride] = WRITTEN;
    for (uint64_t page = first_page + 1; page < behind; page++) {
        uint64_t at = page * HT_TOUCH_PAGE_BYTES, within = (uintptr_t)(block + at) % HT_TOUCH_PAGE_BYTES;
        uint64_t begin = at - within > BESIDE ? at - within - BESIDE : 0;
        uint64_t end = at - within + BESIDE < size ? at - within + BESIDE : size;
        copy_bytes(lane->page_stride ? block + begin : block, end - begin);
    }
    if (pages > behind) touch_last(lane, block, size);
}

// Writes all of a block from byte `from` on, page by page: in the null replayer they are all the same page.
static void touch_whole(const struct ht_lane *lane, char *block, uint64_t from, uint64_t size) {
    uint64_t at = from;
    while (at < size) {
        uint64_t in_page = at % HT_TOUCH_PAGE_BYTES;
        uint64_t bytes = HT_TOUCH_PAGE_BYTES - in_page;
        if (bytes > size - at) bytes = size - at;
        memset(block + (at - in_page) / HT_TOUCH_PAGE_BYTES * lane->page_stride + in_page, WRITTEN, bytes);
        at += bytes;
    }
}

// First touch of what an allocation returned: its bytes from `from` on, where `from` is 0 for a new block
// and the former size for a reallocated one. pages: how many of its pages the program had resident in the
// end, or HT_PAGES_BY_RULE.
static __attribute__((noinline)) void touch_block(const struct ht_lane *lane, char *block, uint64_t from,
                                                  uint64_t size, uint64_t pages) {
    if (from >= size) return;
    uint64_t from_page = (from + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES;
    switch (lane->touch) {
    case HT_TOUCH_FIRST:
        if (from == 0) *(volatile char *)block = WRITTEN;
        break;
    case HT_TOUCH_PAGES: touch_pages(lane, block, from_page, size, HT_PAGES_BY_RULE); break;
    case HT_TOUCH_ALL: touch_whole(lane, block, from, size); break;
    case HT_TOUCH_RECORDED:
        if (size <= HT_TOUCH_PAGE_BYTES) memset(block + from, WRITTEN, size - from);
        else copy_pages(lane, block, from_page, size, pages);
        break;
    default: break;
    }
}

// calloc's memory is zero already, and programs rely on large blocks staying untouched: of those only pages
// known to have been resident are written, unless everything is asked for. Smaller ones are used (of those
// from 16 KiB on that were sampled in nine programs, all pages were resident).
static void touch_zeroed(const struct ht_lane *lane, char *block, uint64_t size, uint64_t pages) {
    if (lane->touch == HT_TOUCH_RECORDED) {
        if (pages == HT_PAGES_BY_RULE && size >= HT_CALLOC_LEFT_BYTES) return;
        touch_pages(lane, block, 0, size, pages);
    } else {
        touch_block(lane, block, 0, size, pages);
    }
}

// A program that frees a block has often just read it for the last time. Blocks of up to a page are gone
// through line by line, larger ones page by page.
static __attribute__((noinline)) void touch_freed(const struct ht_lane *lane, char *block, uint64_t bytes) {
    enum { LINE_BYTES = 64 };
    if (!block) return;
    bool whole = bytes <= HT_TOUCH_PAGE_BYTES;
    uint64_t step = whole ? LINE_BYTES : HT_TOUCH_PAGE_BYTES, stride = whole ? LINE_BYTES : lane->page_stride;
    volatile char *at = block;
    for (uint64_t passed = 0; passed < bytes; passed += step, at += stride) {
        if (lane->touch_free == HT_TOUCH_FREE_WRITE) *at = WRITTEN;
        else (void)*at;
    }
}

// The null replayer's blocks all are one page, which other threads write: a race that does not matter.
#ifdef __SANITIZE_THREAD__
#define UNWATCHED __attribute__((noinline, no_sanitize_thread))
#else
#define UNWATCHED inline
#endif
static UNWATCHED void read_byte(const char *at) { (void)*(const volatile char *)at; }

// The same as recorded: what decides is the word's place, so that no slot is always read or never. A block of
// no bytes may lie where nobody is allowed to read (hardened_malloc).
static inline void read_freed(const struct ht_lane *lane, const char *block, uint64_t bytes,
                              const uint64_t *word) {
    uint32_t draw = (uint32_t)((uintptr_t)word * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    if (block && bytes && draw <= lane->warm_of_2_32) read_byte(block);
}

static __attribute__((noinline, cold)) void call_failed(struct ht_lane *lane, const char *function,
                                                        uint64_t size) {
    if (size == 0) return;  // NULL is a good answer to malloc(0)
    if (lane->failures++ == 0) {
        snprintf(lane->first_failure, sizeof lane->first_failure, "%s of %llu bytes failed", function,
                 (unsigned long long)size);
    }
}

static __attribute__((noinline, cold)) void aligned_failed(struct ht_lane *lane, uint64_t alignment,
                                                           uint64_t size) {
    if (ht_known_alignment(&lane->known, alignment)) lane->known_failures++;
    else call_failed(lane, "posix_memalign", size);
}

// Where the time of a timed op goes; NULL in the loop that is not timed, where all of it folds away.
struct stopwatch {
    uint64_t before, between, after;
};
#define STAMP(which)                                                                                         \
    do {                                                                                                     \
        if (watch) watch->which = ht_ticks();                                                                \
    } while (0)

#define ENGINE_INLINE static inline __attribute__((always_inline))

// kind: enum ht_new_kind. word: where the call's words begin, for one that does not return.
ENGINE_INLINE void do_malloc(struct ht_lane *lane, void **entry, const uint64_t *word, unsigned kind,
                             uint64_t size, uint64_t pages, bool touch, struct stopwatch *watch) {
    char *block;
    STAMP(before);
    if (UNLIKELY(kind)) {
        lane->making = word;
        block = lane->operators->make[kind](size, NULL);
        lane->making = NULL;
    } else {
        block = HT_CALL_MALLOC(size);
    }
    STAMP(between);
    *entry = block;
    if (UNLIKELY(!block)) call_failed(lane, kind ? "operator new" : "malloc", size);
    else if (touch) touch_block(lane, block, 0, size, pages);
    STAMP(after);
}

ENGINE_INLINE void do_calloc(struct ht_lane *lane, void **entry, uint64_t count, uint64_t size,
                             uint64_t pages, bool touch, struct stopwatch *watch) {
    STAMP(before);
    char *block = HT_CALL_CALLOC(count, size);
    STAMP(between);
    *entry = block;
    if (UNLIKELY(!block)) call_failed(lane, "calloc", count * size);
    else if (touch) touch_zeroed(lane, block, count * size, pages);
    STAMP(after);
}

ENGINE_INLINE void do_realloc(struct ht_lane *lane, void **entry, uint64_t former, uint64_t size,
                              uint64_t pages, bool touch, struct stopwatch *watch) {
    void *old = *entry;
    STAMP(before);
    char *block = HT_CALL_REALLOC(old, size);
    STAMP(between);
    if (UNLIKELY(!block)) {
        call_failed(lane, "realloc", size);  // the old block stays
    } else {
        *entry = block;
        if (touch) touch_block(lane, block, former, size, pages);
    }
    STAMP(after);
}

ENGINE_INLINE void do_realloc_null(struct ht_lane *lane, void **entry, uint64_t size, uint64_t pages,
                                   bool touch, struct stopwatch *watch) {
    STAMP(before);
    char *block = HT_CALL_REALLOC(NULL, size);
    STAMP(between);
    *entry = block;
    if (UNLIKELY(!block)) call_failed(lane, "realloc", size);
    else if (touch) touch_block(lane, block, 0, size, pages);
    STAMP(after);
}

ENGINE_INLINE void do_aligned(struct ht_lane *lane, void **entry, uint64_t alignment, uint64_t size,
                              uint64_t pages, bool touch, struct stopwatch *watch) {
    void *block = NULL;
    STAMP(before);
    int failed = HT_CALL_POSIX_MEMALIGN(&block, alignment, size);
    STAMP(between);
    if (UNLIKELY(failed)) block = NULL;
    *entry = block;
    if (UNLIKELY(!block)) aligned_failed(lane, alignment, size);
    else if (touch) touch_block(lane, block, 0, size, pages);
    STAMP(after);
}

// how: ht_how_to_free, or the kind alone.
ENGINE_INLINE void do_free(const struct ht_lane *lane, void *block, uint64_t how, uint64_t size,
                           struct stopwatch *watch) {
    STAMP(before);
    if (UNLIKELY(how && block)) lane->operators->end[ht_free_kind(how)](block, size, ht_free_alignment(how));
    else HT_CALL_FREE(block);
    STAMP(between);
    STAMP(after);
}

static void touch_before_wide_free(const struct ht_lane *lane, const uint64_t *word, char *block) {
    if (lane->touch_free == HT_TOUCH_FREE_RECORDED) read_freed(lane, block, word[3], word);
    else if (lane->touch_free != HT_TOUCH_FREE_NONE) touch_freed(lane, block, word[3]);
}

ENGINE_INLINE void do_query(const struct ht_lane *lane, void *block, struct stopwatch *watch) {
    STAMP(before);
    if (lane->usable_size && block) lane->usable_size(block);
    STAMP(between);
    STAMP(after);
}

// What the program wrote long after the allocation: the trace knows of pages, so a user who asked for
// anything else has had it already.
static void touch_later(const struct ht_lane *lane, char *block, uint64_t size, uint64_t from,
                        uint64_t until) {
    // After a call that failed the slot may hold a smaller block; the run is void anyway.
    if (block && !lane->failures && lane->touch == HT_TOUCH_RECORDED)
        copy_pages(lane, block, from, size, until);
}

// No call: its reading, should one be asked for, is that of the touch.
ENGINE_INLINE void do_touch(const struct ht_lane *lane, char *block, uint64_t size, uint64_t from,
                            uint64_t until, struct stopwatch *watch) {
    STAMP(before);
    STAMP(between);
    touch_later(lane, block, size, from, until);
    STAMP(after);
}

// Of the pages that the bytes cover whole, because others share their blocks' edges. It is the kernel's work, and not the
// allocator's: passes of time are without it.
static __attribute__((noinline, cold)) void do_advise(const struct ht_lane *lane, char *block, uint64_t bytes,
                                                      uint64_t offset, uint64_t advice) {
    if (!block || !lane->page_stride) return;
    if (advice == HT_ADVISE_WRITTEN) {
        for (uint64_t at = offset; lane->touch == HT_TOUCH_RECORDED && at < offset + bytes;
             at += HT_TOUCH_PAGE_BYTES)
            ((volatile char *)block)[at] = WRITTEN;
        return;
    }
    if (lane->pass == HT_PASS_FLAT || lane->pass == HT_PASS_TIMED) return;
    uintptr_t page = HT_TOUCH_PAGE_BYTES, from = ((uintptr_t)block + offset + page - 1) & -page;
    uintptr_t until = ((uintptr_t)block + offset + bytes) & -page;
    if (from < until) madvise((void *)from, until - from, (int)advice);
}

ENGINE_INLINE void do_wide(struct ht_lane *lane, const uint64_t *word, bool touch, struct stopwatch *watch) {
    void **entry = lane->table + ht_word_slot(word[0]);
    uint64_t size = word[1], extra = word[2], pages = word[3];
    switch (ht_word_arg(word[0])) {
    case HT_WIDE_MALLOC: do_malloc(lane, entry, word, (unsigned)extra, size, pages, touch, watch); break;
    case HT_WIDE_CALLOC: do_calloc(lane, entry, extra, size, pages, touch, watch); break;
    case HT_WIDE_REALLOC: do_realloc(lane, entry, extra, size, pages, touch, watch); break;
    case HT_WIDE_REALLOC_NULL: do_realloc_null(lane, entry, size, pages, touch, watch); break;
    case HT_WIDE_ALIGNED: do_aligned(lane, entry, extra, size, pages, touch, watch); break;
    case HT_WIDE_QUERY: do_query(lane, *entry, watch); break;
    case HT_WIDE_FREE:
        touch_before_wide_free(lane, word, *entry);
        do_free(lane, *entry, extra, size, watch);
        break;
    case HT_WIDE_TOUCH: do_touch(lane, *entry, size, extra, pages, watch); break;
    case HT_WIDE_ADVISE: do_advise(lane, *entry, size, extra, pages); break;
    case HT_WIDE_STEER: lane->obey(lane->obeyed, word); break;
    default: __builtin_unreachable();
    }
}

static __attribute__((noinline)) void run_wide(struct ht_lane *lane, const uint64_t *word) {
    do_wide(lane, word, lane->touch != HT_TOUCH_NONE, NULL);
}

typedef uint32_t __attribute__((may_alias)) word_half;  // a word's low half, then its high one
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of a word comes first");

enum { TOUCHES_NEW = 1, TOUCHES_FREED = 2, READS_FREED = 4 };
#define LOOP_OPERATORS 0
#define LOOP_NAME      run_untouched
#define LOOP_TOUCHES   0
#include "replay_loop.h"
#define LOOP_NAME    run_touching
#define LOOP_TOUCHES TOUCHES_NEW
#include "replay_loop.h"
#define LOOP_NAME    run_touching_freed
#define LOOP_TOUCHES (TOUCHES_NEW | TOUCHES_FREED)
#include "replay_loop.h"
#define LOOP_NAME    run_reading_freed
#define LOOP_TOUCHES (TOUCHES_NEW | READS_FREED)
#include "replay_loop.h"
#undef LOOP_OPERATORS
#define LOOP_OPERATORS 1
#define LOOP_NAME      run_untouched_operators
#define LOOP_TOUCHES   0
#include "replay_loop.h"
#define LOOP_NAME    run_touching_operators
#define LOOP_TOUCHES TOUCHES_NEW
#include "replay_loop.h"
#define LOOP_NAME    run_touching_freed_operators
#define LOOP_TOUCHES (TOUCHES_NEW | TOUCHES_FREED)
#include "replay_loop.h"
#define LOOP_NAME    run_reading_freed_operators
#define LOOP_TOUCHES (TOUCHES_NEW | READS_FREED)
#include "replay_loop.h"
#undef LOOP_OPERATORS

// To the next mark at which the lane stops. Returns the words behind it.
static const uint64_t *run_to_mark(struct ht_lane *lane, const uint64_t *word) {
    const bool operators = lane->operator_calls;
    if (lane->touch_free == HT_TOUCH_FREE_RECORDED)
        return operators ? run_reading_freed_operators(lane, word) : run_reading_freed(lane, word);
    if (lane->touch_free != HT_TOUCH_FREE_NONE)
        return operators ? run_touching_freed_operators(lane, word) : run_touching_freed(lane, word);
    if (lane->touch != HT_TOUCH_NONE)
        return operators ? run_touching_operators(lane, word) : run_touching(lane, word);
    return operators ? run_untouched_operators(lane, word) : run_untouched(lane, word);
}

// One op with a stopwatch around the call and around the touch.
ENGINE_INLINE void run_timed(struct ht_lane *lane, const uint64_t *word, struct stopwatch *watch) {
    const bool touch = lane->touch != HT_TOUCH_NONE;
    const uint64_t w = word[0];
    void **entry = lane->table + ht_word_slot(w);
    const uint32_t size = ht_word_arg(w), bytes = ht_arg_bytes(size);  // the arg of FREE and MALLOC has both
    switch (ht_word_op(w)) {
    case HT_WORD_FREE:
        if (lane->touch_free == HT_TOUCH_FREE_RECORDED) read_freed(lane, *entry, bytes, word);
        else if (lane->touch_free != HT_TOUCH_FREE_NONE) touch_freed(lane, *entry, bytes);
        do_free(lane, *entry, ht_arg_kind(size), bytes, watch);
        break;
    case HT_WORD_MALLOC:
        do_malloc(lane, entry, word, ht_arg_kind(size), bytes, HT_PAGES_BY_RULE, touch, watch);
        break;
    case HT_WORD_CALLOC: do_calloc(lane, entry, word[1], size, HT_PAGES_BY_RULE, touch, watch); break;
    case HT_WORD_REALLOC: do_realloc(lane, entry, word[1], size, HT_PAGES_BY_RULE, touch, watch); break;
    case HT_WORD_WIDE: do_wide(lane, word, touch, watch); break;
    default: __builtin_unreachable();  // only calls are timed
    }
}

// Readings during which the thread lost its core are dropped. They divide a total that is CPU time, without
// preemption and without sleep, and one reading preempted for 4 ms outweighs 100,000 honest ones. Being long
// is no reason alone: a purge or a large unmapping takes as long. So the kernel's count of context switches
// decides, asked for only after a reading above the limit, because asking costs as much as ten calls. The
// count to compare with is taken before a reading whenever the last one is older than the limit; a switch
// before the reading that took longer than that has made it so, and costs no reading. What stays in is at
// most the limit.
struct switch_watch {
    uint64_t limit_ticks, seen_ticks;
    long seen;  // context switches of this thread up to seen_ticks
};
enum { SWITCH_LIMIT_CLOCK_READINGS = 2000 };  // of some 20 ns each: 40 us

static long context_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw + usage.ru_nivcsw;
}

static void before_reading(struct switch_watch *watch) {
    uint64_t now = ht_ticks();
    if (now - watch->seen_ticks <= watch->limit_ticks) return;
    watch->seen_ticks = now;
    watch->seen = context_switches();
}

static bool was_switched(const struct switch_watch *watch, const struct stopwatch *reading) {
    return reading->after - reading->before > watch->limit_ticks && context_switches() != watch->seen;
}

// The slot's entry is ours, not the allocator's: it is brought back.
static __attribute__((noinline)) void pollute(struct ht_lane *lane, const uint64_t *op) {
    ht_pollute(lane->polluter);
    (void)*(void *volatile *)(lane->table + ht_word_slot(*op));
}

static uint32_t reading_ticks(uint64_t ticks) {
    return ticks < HT_READING_TICKS_MAX ? (uint32_t)ticks : HT_READING_TICKS_MAX;
}

static void take_reading(struct ht_lane *lane, const uint64_t *op, struct ht_reading *reading,
                         struct switch_watch *switches) {
    struct stopwatch watch;
    if (lane->polluter) pollute(lane, op);
    before_reading(switches);
    run_timed(lane, op, &watch);
    if (UNLIKELY(was_switched(switches, &watch))) {
        reading->call_ticks = HT_READING_DROPPED;
        return;
    }
    reading->call_ticks = reading_ticks(watch.between - watch.before);
    reading->touch_ticks = reading_ticks(watch.after - watch.between);
}

// Not inlined: one layout has a second caller, and must have the same code as the others.
static __attribute__((noinline)) void take_sample(struct ht_lane *lane, uint32_t number) {
    if (lane->group) {
        lane->stop_at(lane->group, lane, number);
        return;
    }
    if (lane->purging) ht_purge_if_due(lane->purging);
    if (lane->ballast) ht_ballast_follow(lane->ballast, number);
    lane->rss_bytes[number] = ht_rss_anon_bytes(lane->statm_fd);
    if (lane->high_bytes) lane->high_bytes[number] = ht_peak_watch_take(lane->rss_bytes[number]);
    lane->samples_taken++;
    if (lane->residency) ht_residency_sample(lane->residency, number, lane->rss_bytes[number]);
}

// Which marks a pass stops at: it runs over the others as if they were not there.
static uint32_t stops_of(const struct ht_lane *lane) {
    static_assert(HT_MARK_END == 0, "every pass stops where a segment ends");
    switch (lane->silent ? HT_PASS_FLAT : lane->pass) {
    case HT_PASS_TIMED: return 1u << HT_MARK_END | 1u << HT_MARK_TIMED;
    case HT_PASS_GROUP:
    case HT_PASS_LIMIT:
    case HT_PASS_MEMORY: return 1u << HT_MARK_END | 1u << HT_MARK_SAMPLE;
    default: return 1u << HT_MARK_END;
    }
}

#ifndef ht_engine_layout_0  // a macro in the other layouts
// In a section of their own, or the rest would lie elsewhere than in the other layouts.
#define ONCE __attribute__((section(".text.once")))
ONCE void ht_engine_call(struct ht_lane *lane, const uint64_t *word) { run_timed(lane, word, NULL); }
ONCE void ht_engine_end_sample(struct ht_lane *lane) { take_sample(lane, lane->form->samples - 1); }
#endif

// Behind an operator new that found no memory: the words that follow it.
static const uint64_t *behind_failed_new(struct ht_lane *lane) {
    const uint64_t *word = lane->making;
    struct ht_word_call call = ht_word_call(word);
    lane->making = NULL;
    lane->table[call.slot] = NULL;
    call_failed(lane, "operator new", call.size);
    return word + ht_word_length(*word);
}

static void run_from(struct ht_lane *lane, const uint64_t *word) {
    struct switch_watch switches = {.limit_ticks = lane->clock_cost_ticks * SWITCH_LIMIT_CLOCK_READINGS};
    while (word) {
        lane->stops_at = stops_of(lane);
        word = run_to_mark(lane, word);
        uint64_t mark = word[-1];
        if (ht_word_slot(mark) == HT_MARK_END) {
            word = ht_feed_next(lane);
        } else if (ht_word_slot(mark) == HT_MARK_SAMPLE) {
            if (!ht_window_leaves_sample(lane, ht_word_arg(mark))) take_sample(lane, ht_word_arg(mark));
        } else {
            take_reading(lane, word, &lane->readings[ht_word_arg(mark)], &switches);
            word += ht_word_length(*word);
        }
    }
}

void ht_engine_layout_0(struct ht_lane *lane) {
    const uint64_t cpu_before_ns = ht_thread_cpu_ns();
    const uint64_t *word;
    if (setjmp(lane->without_memory) == 0) word = ht_feed_first(lane);
    else word = behind_failed_new(lane);
    run_from(lane, word);
    lane->cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}
