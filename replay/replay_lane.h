// One replay thread: its stream, its tallies, and what it shares with the others.
#ifndef HEAPTAPE_REPLAY_LANE_H
#define HEAPTAPE_REPLAY_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay_form.h"
#include "replay_job.h"

struct ht_lane;
struct ht_verify;

// How far the threads have come in trace time, and who waits for whom (replay_window.c).
struct ht_window {
    _Atomic uint64_t low_ns;      // no thread has an unexecuted op before this
    uint64_t width_ns;            // nobody passes low_ns + width_ns
    _Atomic uint64_t *places_ns;  // one per lane: trace time of its next pending op
    struct ht_lane *lanes;
    uint32_t lanes_count;
    bool alone;                   // one lane: nothing to wait for
    pthread_mutex_t lock;         // for what follows
    uint64_t next_wanted_ns;      // the lowest low_ns that a sleeping lane wants
    uint32_t *start_order;        // lanes by start time
    uint32_t started;             // how many of start_order exist
    struct ht_lane *leavers;      // ended threads whose stack can be had back after a join
    uint32_t running;             // lanes that have not executed all their ops
    _Atomic uint32_t all_done;    // futex: 1 once running is 0
    void (*replaying)(bool yes);  // the allocator's hook, or NULL (allocator.h)
    struct ht_outcome *outcome;   // where to say that a thread could not be started
};

struct ht_lane {
    // What the engine's loop needs, first.
    void **table;                 // slot -> block
    _Atomic uint32_t *handovers;  // slot -> number of handovers << 1 | somebody sleeps
    uint64_t page_stride;         // 4096; 0 in the null replayer, whose blocks all are one page
    uint64_t failures;
    uint64_t wait_cpu_ns;  // CPU time spent waiting, to be taken off
    uint64_t wait_ticks;
    struct ht_window *window;  // NULL: the lane that allocates what is inherited
    uint32_t number;
    uint32_t touch;
    uint32_t touch_free;

    uint32_t stops_at;  // bit set of enum ht_mark: the marks at which this pass stops

    struct ht_form *form;
    struct ht_stream *stream;
    struct ht_chunk *chunk;       // that it is in
    uint64_t starved_ticks;       // waited for the launcher to decode
    uint64_t *rss_bytes;          // the samples, shared by all lanes
    struct ht_reading *readings;  // likewise
    int statm_fd;
    uint32_t pass;
    uint64_t cpu_ns;
    uint64_t samples_taken;
    uint64_t clock_cost_ticks;  // what two readings in a row show
    char *pollution;            // a working set to run through before each timed op, or NULL
    uint64_t pollution_bytes;
    struct ht_verify *verify;  // NULL but in a pass that checks the allocator (verify_pass.c)
    char first_failure[128];

    // The window's.
    pthread_t thread;
    void *stack;
    struct ht_lane *next_leaver;
    uint64_t wanted_ns;
    bool sleeping;
    _Atomic uint32_t wake;  // futex
};

#endif
