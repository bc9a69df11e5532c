// SPDX-License-Identifier: Apache-2.0
#include "coarse_clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "real.h"
#include "stamp.h"
#include "sys.h"

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

bool coarse_clock_words_hold(const struct coarse_clock *clock) {
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

struct coarse_clock coarse_clock_find(void) {
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
