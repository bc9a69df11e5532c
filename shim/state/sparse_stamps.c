// SPDX-License-Identifier: Apache-2.0
#include "sparse_stamps.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <time.h>

#include "apart.h"
#include "loader.h"
#include "sys.h"

// ---- the coarse clock ----

// CLOCK_MONOTONIC_COARSE: what the kernel writes at each tick into a page that every process can read.
struct coarse_clock {
    // The kernel's own function, not libc's, which the program may have replaced. NULL: there is none, or it makes a
    // system call.
    int (*read)(clockid_t, struct timespec *);
    // Where the kernel writes the seconds, and behind them the nanoseconds. They may be read while they are written.
    // NULL: not found, the function has to be called.
    const volatile uint64_t *words;
    uint64_t tick_ns;
};

#ifdef __aarch64__
#define CLOCK_FUNCTION "__kernel_clock_gettime"
#else
#define CLOCK_FUNCTION "__vdso_clock_gettime"
#endif

static int ask_kernel(clockid_t clock, struct timespec *now) {
    return (int)raw_syscall(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0);
}

static uint64_t least_counts(int (*read_clock)(clockid_t, struct timespec *)) {
    enum { TRIES = 8 };
    uint64_t least = UINT64_MAX;
    struct timespec now;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = clock_counter();
        read_clock(CLOCK_MONOTONIC_COARSE, &now);
        uint64_t counts = clock_counter() - before;
        if (counts < least) least = counts;
    }
    return least;
}

// Can the page be read, and is it one that only the kernel writes? It lets nobody copy such a page by process_vm_readv,
// while it does copy every other page that can be read.
static bool is_kernels(const volatile uint64_t *page) {
    uint64_t word;
    struct iovec to = {&word, sizeof word}, from = {(void *)(uintptr_t)page, sizeof word};
    return sys_can_read((uintptr_t)page) &&
           raw_syscall(SYS_process_vm_readv, sys_getpid(), (long)&to, 1, (long)&from, 1, 0) == -EFAULT;
}

static const volatile uint64_t *find_in_page(const volatile uint64_t *page, size_t words,
                                             const struct timespec *now) {
    for (size_t i = 0; i + 1 < words; i++)
        if (page[i] == (uint64_t)now->tv_sec && page[i + 1] == (uint64_t)now->tv_nsec) return page + i;
    return NULL;
}

enum { TRIES = 3 };  // one fails when the clock ticks meanwhile

// Do the words show what the function says? No more, where the process has entered a time namespace.
static bool coarse_clock_words_hold(const struct coarse_clock *clock) {
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct timespec now = {0};
        clock->read(CLOCK_MONOTONIC_COARSE, &now);
        if (clock->words[0] == (uint64_t)now.tv_sec && clock->words[1] == (uint64_t)now.tv_nsec) return true;
    }
    return false;
}

// The kernel keeps the words in one of the pages before its code. Where exactly depends on its version, so they are found
// by what they are now. In a time namespace they differ from what the function says, and are not found.
static const volatile uint64_t *find_words(const struct coarse_clock *clock, uintptr_t code) {
    enum { PAGES = 8 };
    const size_t page_bytes = getauxval(AT_PAGESZ);
    const volatile uint64_t *words = NULL;
    for (unsigned tries = 0; tries < TRIES && !words; tries++) {
        struct timespec now = {0};
        clock->read(CLOCK_MONOTONIC_COARSE, &now);
        for (unsigned i = 1; i <= PAGES && !words; i++) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives it as a number
            const volatile uint64_t *page = (const volatile uint64_t *)(code - i * page_bytes);
            if (is_kernels(page)) words = find_in_page(page, page_bytes / sizeof *page, &now);
        }
    }
    return words;
}

static struct coarse_clock coarse_clock_find(void) {
    struct coarse_clock clock = {0};
    struct timespec tick = {0};
    uintptr_t code = getauxval(AT_SYSINFO_EHDR);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives it as a number
    void *function = symbol_inside((const void *)code, CLOCK_FUNCTION);
    raw_syscall(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick, 0, 0, 0, 0);
    if (!function || tick.tv_sec || !tick.tv_nsec) return clock;
    clock.read = (int (*)(clockid_t, struct timespec *))function;
    if (2 * least_counts(clock.read) > least_counts(ask_kernel)) return (struct coarse_clock){0};
    clock.tick_ns = (uint64_t)tick.tv_nsec;
    clock.words = find_words(&clock, code);
    return clock;
}

// ---- stamps ----

static const char never;
static const char *single_threaded = &never;  // libc's
static struct coarse_clock coarse_clock;
struct sparse_stamps sparse_stamps = {.alone = &never, .clock = sparse_stamps.last};

// Another libc or emulator may lack one of these: then every call takes a stamp.
void sparse_stamps_find(void) {
    const char *libc = symbol_anywhere("__libc_single_threaded");
    if (!libc) return;
    coarse_clock = coarse_clock_find();
    if (!coarse_clock.read) return;
    if (coarse_clock.words) sparse_stamps.clock = coarse_clock.words;
    single_threaded = libc;
}

void sparse_stamps_begin(void) {
    atomic_store(&sparse_stamps.alone, single_threaded);
    apart_while_alone(single_threaded);
}

void sparse_stamps_end(void) {
    atomic_store(&sparse_stamps.alone, &never);
    apart_while_alone(NULL);
}

uint64_t sparse_stamps_tick_ns(void) {
    return atomic_load(&sparse_stamps.alone) == &never ? 0 : coarse_clock.tick_ns;
}

void sparse_stamps_next(void) { sparse_stamps.left = sparse_stamps.asked_left = 0; }

// Has the clock ticked since this was asked last?
static bool ticked(struct sparse_stamps *s) {
    uint64_t now[2];
    struct timespec asked = {0};
    if (coarse_clock.words) {
        now[0] = coarse_clock.words[0];
        now[1] = coarse_clock.words[1];
    } else {
        coarse_clock.read(CLOCK_MONOTONIC_COARSE, &asked);
        now[0] = (uint64_t)asked.tv_sec;
        now[1] = (uint64_t)asked.tv_nsec;
    }
    bool changed = now[0] != s->last[0] || now[1] != s->last[1];
    s->last[0] = now[0];
    s->last[1] = now[1];
    return changed;
}

bool sparse_stamps_due(void) {
    struct sparse_stamps *s = &sparse_stamps;
    if (coarse_clock.words && unlikely(!coarse_clock_words_hold(&coarse_clock))) {
        coarse_clock.words = NULL;
        s->clock = s->last;
        s->left = 0;
    }
    uint32_t *left = coarse_clock.words ? &s->left : &s->asked_left;
    bool after_tick = ticked(s);
    if (likely(!after_tick && *left)) {
        --*left;
        return false;
    }
    s->room = after_tick ? 0 : s->room < HT_UNTIMED_MAX ? 2 * s->room + 1 : s->room;
    *left = s->room;
    return true;
}
