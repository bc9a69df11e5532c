// SPDX-License-Identifier: Apache-2.0
// What the launcher asks of a measured child, and what the child answers: one page-aligned struct in a memfd
// that both map, followed by the RSS samples and the readings.
#ifndef HEAPTAPE_REPLAY_JOB_H
#define HEAPTAPE_REPLAY_JOB_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "child_figures.h"
#include "processor_number.h"
#include "random_numbers.h"
#include "snapshot_rows.h"
#include "verify_findings.h"

enum { HT_POLLUTION_LINE_BYTES = 64, HT_POLLUTION_PAGE_BYTES = 4096 };

struct ht_pollution {
    uint64_t data_bytes;  // written, a byte in each line
    uint64_t code_bytes;  // executed, an instruction in each line
    uint64_t pages;       // read, a byte of each
};

static inline bool ht_pollutes(const struct ht_pollution *pollution) {
    return pollution->data_bytes || pollution->code_bytes || pollution->pages;
}

// A heap that has been used: what the measured child does to its allocator before the trace begins (--age).
//
// As litterer does for programs (van Kempen and Berger), blocks of the program's own sizes are allocated, several times as
// many as the program has live at most, and all but a share of them are freed in random order.

enum { HT_AGING_SIZES_MAX = 1024 };

struct ht_aging {
    uint64_t blocks;            // 0: the heap is fresh
    uint64_t bytes;             // of all of them, as asked for
    uint64_t kept, kept_bytes;  // of those that are kept
    uint64_t kept_of_2_32;      // the share that is kept
    uint32_t sizes;
    uint64_t size_bytes[HT_AGING_SIZES_MAX];  // drawn from the blocks that the trace has live, over its time
};

// What comes of block i is drawn, and the same in every run and for all allocators.
static inline uint64_t ht_aging_draw(uint64_t i, uint64_t which) {
    struct ht_random random = {2 * i + which};
    return ht_random_next(&random) >> 32;
}

static inline uint64_t ht_aging_bytes(const struct ht_aging *aging, uint64_t i) {
    return aging->size_bytes[ht_aging_draw(i, 0) * aging->sizes >> 32];
}

static inline bool ht_aging_keeps(const struct ht_aging *aging, uint64_t i) {
    return ht_aging_draw(i, 1) < aging->kept_of_2_32;
}

// In the environment of a child that is to replay under virtual time: its clocks stand still while it starts.
#define HT_CLOCK_HELD "HEAPTAPE_CLOCK=held"

enum ht_pass {
    HT_PASS_DESCRIBE = 1,  // prove which allocator is loaded, report its version, replay nothing
    HT_PASS_FLAT,          // total CPU time
    HT_PASS_TIMED,         // single ops timed: the split by function, and into call and touch; latencies
    HT_PASS_MEMORY,        // RSS at the sample points
    HT_PASS_ACCOUNT,       // slop, the allocator's own statistics, system calls
    HT_PASS_SNAPSHOT,      // RSS at the sample points, and with some of them where each block lies
    HT_PASS_LIMIT,         // under a limit of memory: does it come to its end?
    HT_PASS_GROUP,         // with the processes that it forks: all meet, and the launcher looks at them
    HT_PASS_VERIFY,        // nothing is measured: is what the allocator does right?
    HT_PASS_TORTURE        // likewise, with calls of our own instead of the trace's
};

enum ht_touch { HT_TOUCH_NONE, HT_TOUCH_FIRST, HT_TOUCH_PAGES, HT_TOUCH_ALL, HT_TOUCH_RECORDED, HT_TOUCHES };

// What is done to a block's bytes just before it is freed. RECORDED: the first of them is read, of as many
// blocks as the recorded program had in its caches when it freed them.
enum ht_touch_free {
    HT_TOUCH_FREE_NONE,
    HT_TOUCH_FREE_READ,
    HT_TOUCH_FREE_WRITE,
    HT_TOUCH_FREE_RECORDED,
    HT_TOUCH_FREES
};

enum ht_outcome_state {
    HT_OUTCOME_NONE,     // the child ended before it could report anything
    HT_OUTCOME_REFUSED,  // the reason is in message
    HT_OUTCOME_RUNNING,
    HT_OUTCOME_DONE
};

enum { HT_REPEATS_MAX = 10000, HT_KIND_BYTES = 32, HT_LAYOUTS = 8 };

// Alignments that the allocator's version is known to get wrong (struct ht_fault); none where highest is 0.
struct ht_known_alignments {
    uint64_t lowest, highest;
};
static inline bool ht_known_alignment(const struct ht_known_alignments *known, uint64_t alignment) {
    return alignment >= known->lowest && alignment <= known->highest;
}

// A call that the allocator is asked for when it is described, because not every allocator serves it (ops.h).
enum ht_odd_function { HT_ODD_NONE, HT_ODD_ALIGNED_ALLOC, HT_ODD_MEMALIGN };
struct ht_odd_call {
    uint32_t function, zero;
    uint64_t alignment, size;
};
enum { HT_ODD_CALLS_MAX = 3 };

struct ht_job {
    uint32_t pass, touch, touch_free;
    uint32_t warm_of_2_32;     // with HT_TOUCH_FREE_RECORDED: how many freed blocks of 2^32 are read
    uint32_t operators;        // 1: operator new and delete as a program calls them
    uint32_t operator_calls;   // 1: the trace has some
    uint32_t virtual_time;     // 1: the allocator sees trace time
    uint32_t preloaded;        // 1: expect malloc in the object of expected_device and expected_inode
    uint32_t scale;            // copies of the trace that run side by side; 0 as 1
    uint32_t repeats;          // of the flat pass of a held form: how often the trace is replayed; 0 as 1
    uint32_t layout;           // below HT_LAYOUTS: which copy of the engine's code runs
    uint32_t fixed_addresses;  // 1: those of every such run; 0: the kernel draws them
    int32_t syscall_socket;    // of the accounting pass: where the filter's listener goes; -1: no filter
    uint32_t processors;       // that the allocator is shown; 0: those that there are
    int32_t group_stat_fd;     // of the limit pass: what its control group holds
    int32_t group_plan_fd;     // of the group pass (group_plan.h)
    uint32_t counted;          // 1: the launcher counts system calls, once it hears that the replay begins
    uint32_t by_turns;         // 1: of several threads one runs at a time, in an order that repeats
    uint32_t all_first;        // 1: threads are started before the first op
    uint32_t unwatched;        // 1: of the memory pass: RSS is not read within calls (peak_watch.h)
    uint64_t window_ns;
    // In passes that read RSS free memory is given back so often, in trace time; 0: never.
    uint64_t purge_ns;
    uint32_t purge_at_fork;         // 1: of the group pass: free memory is given back before each fork
    struct ht_pollution pollution;  // of the timed pass: before each timed op
    struct ht_aging aging;
    uint64_t end_ns;              // trace time at which the program ended
    double real_ns_per_trace_ns;  // 0: nothing waits for its recorded time
    uint64_t expected_device, expected_inode;
    uint64_t libc_device, libc_inode;  // of the C library that the process must have; inode 0: any
    struct ht_known_alignments known;
    struct ht_odd_call odd[HT_ODD_CALLS_MAX];
    uint32_t asks_spacing;  // 1: a child that is only described measures the spacing of blocks
    int32_t snapshot_fd;    // of the snapshot pass: where they are written
    struct ht_block_spacing spacing;
    uint32_t snapshots;
    uint32_t snapshot_sample[HT_SNAPSHOTS_MAX];  // with which of the samples of RSS
    uint32_t stretches;                          // after which of them the accounts are taken, in order
    uint32_t stretch_sample[HT_STRETCHES_MAX];
    uint32_t torture_threads;              // of the torture: at once; 1: no others than the initial one
    uint64_t torture_seed, torture_bytes;  // resident at most
    char kind[HT_KIND_BYTES];              // of a preloaded library, once that is known; empty: unknown
};

// One timed op: its call, and the first touch of what it returned. Both include the cost of a clock reading.
struct ht_reading {
    uint32_t call_ticks, touch_ticks;  // the first HT_READING_DROPPED: the thread was switched out meanwhile
};
static_assert(sizeof(struct ht_reading) == 8, "reading");
#define HT_READING_DROPPED   UINT32_MAX
#define HT_READING_TICKS_MAX (UINT32_MAX - 1)  // longer ones show this, some 1.5 seconds

struct ht_outcome {
    uint32_t state;
    uint32_t skips_queries;    // 1: the loaded allocator has no malloc_usable_size
    uint32_t lacks_operators;  // 1: nor operator new, and there is no C++ library
    uint32_t refused;          // a bit for each of the job's odd calls that returned NULL
    char message[320];
    char path[512];
    char build_id[80];
    char version[128];
    char kind[HT_KIND_BYTES];  // name of the loaded allocator's kind, empty if unknown
    uint64_t cpu_ns;        // of the replay threads, from first to last op, without waiting; of all repeats
    uint64_t first_cpu_ns;  // the same of the first repeat alone
    uint64_t wait_ns;       // real time that threads spent waiting for each other
    uint64_t starved_ns;    // real time that threads spent waiting for the launcher to decode
    uint64_t wall_ns;
    uint64_t operations;  // of all copies and repeats
    uint64_t failures;
    uint64_t known_failures;  // of calls, or findings of verification, that a known fault explains
    char first_failure[128];
    uint64_t minor_faults, major_faults;
    uint64_t rss_start_bytes, rss_end_bytes;
    uint64_t samples_taken;
    uint64_t samples_reached;  // of the limit pass, also of a child that was killed
    int32_t snapshot_problem;  // errno of a snapshot or of accounts that could not be taken
    uint32_t zero;
    uint64_t clock_cost_ticks;    // what two clock readings in a row show
    uint64_t ticks, ticks_ns;     // the cycle counter and the clock over the same span
    uint32_t background_threads;  // that the allocator has or had
    uint32_t cycle_counter_watched;
    uint64_t background_cpu_ns;      // theirs, from the start of the replay to its end
    char cycle_counter_reader[128];  // the object that read it first, empty if none did
    uint32_t processors_asked;       // 1: somebody asked on which of the shown ones it runs
    struct ht_block_spacing spacing;
};

struct ht_exchange {
    struct ht_job job;
    struct ht_outcome outcome;
    struct ht_child_figures figures;
    struct ht_verify_findings findings;
    struct ht_chosen_processors chosen;  // set by the launcher, along the run
};
// uint64_t rss_bytes[samples], then uint64_t[samples] of another figure (of the memory pass the highest RSS since the sample
// before, of the accounting pass what is untouched), then struct ht_reading[readings], then uint64_t
// live[slots / 64 + 1]: a bit for each slot that holds a block when all has been replayed, and uint64_t own_bytes[samples]:
// the recorded program's own memory (0 where it is not known). The last two are set by the launcher.
#define HT_EXCHANGE_RSS_OFFSET (128u << 10)

// What runs before each timed call, so that it finds caches and TLBs as a program leaves them that did something else.
static_assert(sizeof(struct ht_exchange) <= HT_EXCHANGE_RSS_OFFSET, "the exchange fits before the samples");

#endif
