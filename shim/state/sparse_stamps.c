#include "sparse_stamps.h"

#include <sys/auxv.h>

#include "real.h"
#include "sys.h"

#ifdef __aarch64__
#define CLOCK_FUNCTION "__kernel_clock_gettime"
#else
#define CLOCK_FUNCTION "__vdso_clock_gettime"
#endif

static const char never;
static const char *single_threaded = &never;  // libc's
static uint64_t tick_ns;
struct sparse_stamps sparse_stamps = {.alone = &never};

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

// The kernel's own function: libc's is one that the program may have replaced. With another libc or emulator one of
// these may be missing, or the function make a system call: then every call takes a stamp.
void sparse_stamps_find(void) {
    struct timespec tick = {0};
    const char *libc = symbol_anywhere("__libc_single_threaded");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives it as a number
    void *clock = symbol_inside((const void *)getauxval(AT_SYSINFO_EHDR), CLOCK_FUNCTION);
    raw_syscall(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick, 0, 0, 0, 0);
    if (!libc || !clock || tick.tv_sec || !tick.tv_nsec) return;
    sparse_stamps.read_clock = (int (*)(clockid_t, struct timespec *))clock;
    if (2 * least_counts(sparse_stamps.read_clock) > least_counts(ask_kernel)) return;
    tick_ns = (uint64_t)tick.tv_nsec;
    single_threaded = libc;
}

void sparse_stamps_begin(void) { atomic_store(&sparse_stamps.alone, single_threaded); }
void sparse_stamps_end(void) { atomic_store(&sparse_stamps.alone, &never); }

uint64_t sparse_stamps_tick_ns(void) { return atomic_load(&sparse_stamps.alone) == &never ? 0 : tick_ns; }

bool sparse_stamps_due(void) {
    struct sparse_stamps *s = &sparse_stamps;
    struct timespec now;
    s->read_clock(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    bool ticked = now_ns != s->tick_ns;
    if (likely(!ticked && s->left)) {
        s->left--;
        return false;
    }
    s->room = ticked ? 0 : s->room < HT_UNTIMED_MAX ? 2 * s->room + 1 : s->room;
    s->left = s->room;
    s->tick_ns = now_ns;
    return true;
}
