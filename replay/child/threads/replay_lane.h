// SPDX-License-Identifier: Apache-2.0
// One replay thread: its stream, its tallies, and what it shares with the others.
#ifndef HEAPTAPE_REPLAY_LANE_H
#define HEAPTAPE_REPLAY_LANE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane_heap.h"
#include "replay_form.h"
#include "replay_job.h"

struct ht_lane;
struct ht_residency_probe;
struct ht_accounting;
struct ht_verify;
struct ht_polluter;
struct ht_ballast;
struct ht_purging;
struct ht_obeyed;
struct ht_group_run;

// What waiting costs (replay_window.h).
struct ht_wait_costs {
    uint32_t turns_max;   // how long to spin before a sleep
    double turn_ns;       // what one turn takes
    uint64_t reading_ns;  // what one reading of the thread's CPU clock takes
};

// A thread that lasts waits, once it has executed all its ops, until it is to go on or to end.
enum ht_lane_call { HT_LANE_RUNS, HT_LANE_WAITS, HT_LANE_AGAIN, HT_LANE_DISMISSED };

enum { HT_LANE_APART_BYTES = 128 };  // processors fetch lines in pairs

// How far the threads have come in trace time, and who waits for whom (replay_window.c).
struct ht_window {
    _Atomic uint64_t low_ns;  // no thread has an unexecuted op before this
    uint64_t width_ns;        // nobody passes low_ns + width_ns
    uint64_t base_ns;         // where time 0 of the trace is: not at 0 once it has been replayed before
    bool alone;               // one lane: nothing to wait for
    bool by_turns;            // under simulation (replay_window.h)
    bool forks;               // stacks are private: a forked process has one of them, and writes to it
    bool all_first;           // all threads are started before the first op
    uint32_t lanes_count;
    struct ht_lane *lanes, *initial;  // initial: the lane on the initial thread, or NULL
    struct ht_wait_costs costs;
    void (*replaying)(bool yes);      // the allocator's hook, or NULL (allocator.h)
    void (*before_background)(void);  // called before the allocator's own threads work, or NULL
    double real_ns_per_trace_ns;      // 0: nothing waits for its recorded time
    uint64_t real_start_ns;           // by the monotonic clock, where trace time 0 is
    struct ht_outcome *outcome;       // where to say that a thread could not be started

    _Alignas(HT_LANE_APART_BYTES) pthread_mutex_t lock;  // for what follows
    struct ht_lane_heap places;                          // by the place at which each was seen last
    struct ht_lane_heap sleepers;                        // by the low_ns that each wants
    uint32_t *start_order;                               // lanes by start time
    uint32_t taking_part;                                // lanes in start_order
    uint32_t started;                                    // how many of start_order exist
    uint32_t running;                                    // lanes that have not executed all their ops
    struct ht_lane *leavers;  // lanes whose threads have ended and are to be joined
    struct ht_lane *in_turn;  // by turns: who has started and not left
    void **stacks;            // that nobody uses
    uint32_t stacks_count;
    _Atomic uint32_t stage;  // futex: enum ht_window_stage
};

enum ht_window_stage { HT_WINDOW_RUNS, HT_WINDOW_DONE };

// What makes a block, and ends one, other than malloc and free; these, where there is no such function. Called with
// more arguments than it has, a function reads those that it has.
typedef void *ht_new_call(size_t size, const void *nothrow);
typedef void ht_free_call(void *block, size_t size, size_t alignment);
struct ht_operators {
    ht_new_call *make[HT_NEW_KINDS];
    ht_free_call *end[HT_FREE_KINDS];
};

// Replays the lane's whole stream, in the way its pass asks for, and fills the lane's tallies.
typedef void ht_lane_run(struct ht_lane *lane);

// Each on lines of its own.
struct ht_lane {
    // What the engine's loop needs, first.
    _Alignas(HT_LANE_APART_BYTES) void **table;  // slot -> block
    _Atomic uint32_t *dependencies;              // slot -> number of dependencies << 1 | somebody sleeps
    uint64_t page_stride;  // 4096; 0 in the null replayer, whose blocks all are one page
    uint64_t failures;
    uint64_t wait_cpu_ns;      // CPU time spent waiting, to be taken off
    uint64_t wait_ns;          // by the clock, other than for its recorded time
    uint64_t turns;            // spent spinning, in neither of these two
    struct ht_window *window;  // NULL: the lane that allocates what is inherited
    uint32_t number;
    uint32_t touch;
    uint32_t touch_free;
    uint32_t warm_of_2_32;  // see struct ht_job
    struct ht_known_alignments known;
    uint64_t known_failures;
    uint64_t (*usable_size)(void *block);  // NULL: the allocator has none
    const struct ht_operators *operators;
    bool operator_calls;
    const uint64_t *making;  // words of the operator new that runs

    uint32_t stops_at;  // bit set of enum ht_mark: the marks at which this pass stops

    ht_lane_run *run;
    struct ht_form *form;
    struct ht_stream *stream;
    struct ht_segment *segment;  // that it is in
    uint64_t starved_ns;         // waited for the launcher to decode
    uint64_t *rss_bytes;         // the samples, shared by all lanes
    uint64_t *untouched_bytes;   // of the accounting pass, by sample, likewise
    uint64_t *high_bytes;  // of the memory pass, likewise, or NULL: the highest RSS since the sample before
    struct ht_reading *readings;  // likewise
    int statm_fd;
    uint32_t pass, layout;
    bool silent;            // takes no samples and no readings: another copy of the trace does
    bool has_end_sample;    // it has come to the last sample, which is taken once all lanes have ended
    uint32_t copies, copy;  // each segment is executed for so many tables, one after another; which it is at
    uint32_t copy_slots;    // from one table to the next
    uint64_t cpu_ns;        // from its first op to its last, waiting included
    uint64_t samples_taken;
    uint64_t clock_cost_ticks;             // what two readings in a row show
    struct ht_polluter *polluter;          // of caches and TLBs before each timed op, all lanes', or NULL
    struct ht_residency_probe *residency;  // of the memory pass, or NULL
    struct ht_accounting *accounting;      // of the accounting pass, or NULL
    struct ht_ballast *ballast;            // of the limit pass, or NULL
    struct ht_group_run *group;            // of the group pass, or NULL
    void (*stop_at)(struct ht_group_run *group, struct ht_lane *lane, uint32_t stop);  // of the group
    struct ht_purging *purging;  // of passes that read RSS, or NULL
    const struct ht_obeyed *obeyed;
    void (*obey)(const struct ht_obeyed *obeyed, const uint64_t *word);  // allocator_control.h
    struct ht_verify *verify;  // NULL but in a pass that checks the allocator (verify_pass.c)
    char first_failure[128];
    jmp_buf without_memory;  // where an operator new that finds none ends

    // The window's.
    pthread_t thread;
    pid_t tid;
    void *stack;
    struct ht_lane *next_leaver;
    bool idle;                // has no op in this run
    bool parked;              // its thread has executed all its ops, and lasts
    _Atomic uint32_t called;  // futex: enum ht_lane_call
    struct ht_lane *next_in_turn;
    _Atomic uint32_t *awaited;  // by turns: the slot's word that it waits for, or NULL
    uint32_t awaited_dependency;

    // What other threads read.
    _Alignas(HT_LANE_APART_BYTES) _Atomic uint64_t place_ns;  // trace time of its next pending op
    _Atomic uint32_t wake;                                    // futex
    _Atomic uint32_t in_call;                                 // of the snapshot pass alone
};

#endif
