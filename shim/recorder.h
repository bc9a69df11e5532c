// The state of a recording and of each recorded thread, shared by the shim's files.
//
// Who may call what: wrap.c (the hooks) calls everything; nothing here calls a hooked function except through
// `real`.
#ifndef HEAPTAPE_RECORDER_H
#define HEAPTAPE_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raw_append.h"

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define HIDDEN              __attribute__((visibility("hidden")))

// The allocator behind us: the first definition after our own in the loader's order.
struct real_functions {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    // operator new and delete of another library.
    void *(*new_[8])(size_t, size_t, const void *);
    void (*delete_[12])(void *, size_t, size_t);
    bool new_beside_malloc;             // in the same object: an allocator's own
    _Atomic unsigned char new_kind[8];  // enum new_kind of each form, where they are an allocator's own
};
// Where an allocator's operator new gets its memory decides who records it. Its forms differ: jemalloc's
// aligned ones call aligned_alloc, the others do not.
enum new_kind {
    NEW_UNKNOWN,    // the first call will tell
    NEW_ON_MALLOC,  // built on a function of the malloc family, whose hook records it
    NEW_OWN         // recorded as new
};
extern HIDDEN struct real_functions real;

enum {
    GATE_FRESH =
        0x7fffffffu,         // a thread that has not been seen yet; no epoch, and not what a wiped page reads
    GATE_BUSY = 0xffffffffu  // a hook of this thread is at work; inner calls pass through
};

// One page that the kernel wipes in a forked child: its epoch then reads 0 and matches no thread's gate.
struct epoch_page {
    _Atomic uint32_t epoch;  // 0 wiped by fork, EPOCH_OFF not recording, else recording
};
enum { EPOCH_WIPED = 0, EPOCH_OFF = 0x80000000u };
extern HIDDEN struct epoch_page *epoch_page;

// Everything that a thread needs on the fast path, in initial-exec TLS: two cache lines at most.
struct thread_state {
    uint32_t gate;     // equal to the page's epoch: record; anything else: look closer
    uint32_t windows;  // windows taken so far
    struct ht_cursor cursor;
    uint8_t *limit;  // an append may start below it
    uint64_t calls;
    int64_t sample_budget_bytes;  // bytes to allocate until memory is sampled again
    uint64_t sample_due_stamp;
    struct ht_window *window;
    uint32_t stream, tid;
    uint32_t epoch;     // the recording that the fields above belong to
    void *inner_block;  // what the last inner allocation returned: tells whether operator new is built on it
};
_Static_assert(sizeof(struct thread_state) <= 100, "static TLS is scarce");
extern HIDDEN __thread struct thread_state self __attribute__((tls_model("initial-exec")));

// The recording of this process.
struct recording {
    struct ht_raw_header *header;     // start of the mapping
    _Atomic uint64_t reserve_bytes;   // windows end before this; lowered at exit
    _Atomic uint64_t writable_bytes;  // the mapping may be written up to here
    char path[4096];
    uint64_t device, inode;
    uint32_t pid, sequence;
    uint32_t page_bytes;
    _Atomic uint32_t epoch;             // the epoch this recording runs under
    _Atomic uint64_t sample_due_stamp;  // no sample for the clock's sake before this
    _Atomic uint64_t sample_last_stamp;
};
extern HIDDEN struct recording recording;

// Decides what a call whose gate does not match means: starts the recording, opens the thread's stream,
// notices a fork. Returns true if the call is to be recorded; the gate is then busy. errno is preserved.
HIDDEN bool recorder_enter_slowly(struct thread_state *t);

// Makes room for one append (modifiers included). False if recording had to stop.
HIDDEN bool recorder_next_window(struct thread_state *t);

// Ends the recording for good; the header says why.
HIDDEN void recorder_stop(enum ht_stop_reason reason, int error_number);

HIDDEN void recorder_at_exit(void);
HIDDEN void recorder_thread_ends(struct thread_state *t);

static inline bool recorder_room(struct thread_state *t) {
    return likely(t->cursor.at < t->limit) || recorder_next_window(t);
}

// real.c
HIDDEN void real_resolve(void);
HIDDEN void real_resolve_cxx(void);
HIDDEN void *boot_allocate(size_t size, size_t alignment);
HIDDEN bool boot_owns(const void *block);
HIDDEN size_t boot_size(const void *block);

// symbols.c: NULL if no loaded object defines the symbol.
HIDDEN void *symbol_behind_us(const char *name);
HIDDEN void *symbol_anywhere(const char *name);

// clock.c
static inline uint64_t clock_counter(void);
HIDDEN uint64_t clock_mono_ns(void);
HIDDEN struct ht_clock_pair clock_pair(void);
HIDDEN uint64_t clock_realtime_ns(void);
HIDDEN uint64_t clock_process_cpu_ns(void);
HIDDEN uint64_t clock_thread_cpu_ns(void);

#if defined(__x86_64__)
static inline uint64_t clock_counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
enum { CLOCK_KIND = HT_CLOCK_TSC, CLOCK_SHIFT = 4 };
#define CLOCK_COUNTS_PER_S UINT64_C(2500000000)
#elif defined(__aarch64__)
static inline uint64_t clock_counter(void) {
    uint64_t counter;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
}
// The generic timer runs at 24 MHz to 1 GHz: no bits to spare.
enum { CLOCK_KIND = HT_CLOCK_CNTVCT, CLOCK_SHIFT = 0 };
#define CLOCK_COUNTS_PER_S UINT64_C(100000000)
#else
static inline uint64_t clock_counter(void) { return clock_mono_ns(); }
enum { CLOCK_KIND = HT_CLOCK_GETTIME, CLOCK_SHIFT = 2 };
#define CLOCK_COUNTS_PER_S UINT64_C(1000000000)
#endif

// For schedules only: near enough before the clock pairs tell the true rate.
#define STAMPS_PER_S           (CLOCK_COUNTS_PER_S >> CLOCK_SHIFT)
#define SAMPLE_INTERVAL_STAMPS (STAMPS_PER_S / 10)
#define SAMPLE_GAP_STAMPS      (STAMPS_PER_S / 2000)

static inline uint64_t stamp_now(void) { return clock_counter() >> CLOCK_SHIFT; }

// memory.c: what the program's memory looks like beside its calls.
HIDDEN void memory_start(void);
HIDDEN void memory_after_fork(void);
HIDDEN void memory_sample(struct thread_state *t, uint64_t stamp, bool final);
HIDDEN void memory_map(uintptr_t start, size_t bytes);
HIDDEN void memory_unmap(uintptr_t start, size_t bytes);
HIDDEN bool memory_is_own(uintptr_t address);
HIDDEN uint32_t memory_resident_pages(const void *block, size_t bytes);

// large.c: the live blocks of 64 KiB and more.
HIDDEN extern uint8_t large_filter[];
enum { LARGE_FILTER_BITS = 14 };
static inline bool large_maybe(const void *block) {
    return large_filter[(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LARGE_FILTER_BITS)] != 0;
}
HIDDEN void large_add(const void *block, size_t bytes);
// Takes a block out; its size, or 0 if it is not there.
HIDDEN size_t large_remove(const void *block);
HIDDEN void large_after_fork(void);
HIDDEN void large_each(void (*visit)(void *context, const void *block, size_t bytes), void *context);

// A variable of the environment. The program may have replaced getenv (bash does).
HIDDEN const char *environment(const char *name);

// context.c: the circumstances of the run, written into the header once.
HIDDEN uint32_t context_write(char *to, size_t room);

#endif
