// SPDX-License-Identifier: Apache-2.0
// The merge's state, for those who run it piece by piece: the follower of a growing log, and what keeps that
// one's state in a file.
#ifndef HEAPTAPE_MERGE_INSIDE_H
#define HEAPTAPE_MERGE_INSIDE_H

#include "heap_model.h"
#include "live_blocks.h"
#include "merge_result.h"
#include "overtaken_frees.h"
#include "sample_line.h"
#include "streams.h"

enum { NO_THREAD = UINT32_MAX };

// A realloc between its two records.
struct open_realloc {
    bool open;
    bool overtaken;  // by another thread's free of the block, and that is no foreign one
    uint8_t function;
    uint32_t slot;  // 0: the block was foreign
    uint64_t address, size, count;
};

// A stream as the merge reads it.
struct input {
    struct stream *stream;
    uint64_t key;  // stamp of its next record, or a bound below it
    uint32_t thread;
    bool idle;           // of a growing log: it has no record for now, and is in no order
    uint64_t floor_key;  // of a growing log: where the others may be already
    bool waited;         // its next record has been waited for
    uint64_t wait_address;
    uint64_t wait_stamp, wait_until_stamp;
    uint32_t next_waiter;  // another input that waits for the same address, plus one
    struct open_realloc realloc;
};

struct merge {
    const struct ht_raw_log *log;
    const struct merge_observer *observer;  // or NULL
    struct streams streams;
    struct heap_model heap;
    struct input *input;
    uint32_t inputs;
    uint32_t *order;  // a binary heap of inputs by key
    uint32_t order_count;
    struct map64 waiters;  // address -> first waiting input plus one
    uint32_t *blocked;     // inputs that wait, longest first
    uint32_t blocked_count;
    bool woke;  // the heap has new inputs in it
    bool held;  // of a growing log: the first input goes on when the horizon has grown
    struct overtaken_frees overtaken;
    uint64_t first_stamp;
    uint64_t ns_per_stamp;  // as a fixed-point number with ns_per_stamp_bits behind the point
    unsigned ns_per_stamp_bits;
    uint64_t wait_limit_stamps, early_limit_stamps, fork_slack_stamps;
    uint64_t last_sample_ns;
    struct heap_pieces pieces;
    struct sample_line samples;
    uint64_t horizon;         // no record beyond it is read; UINT64_MAX except in a growing log
    uint64_t late_records;    // of a growing log: those that came when the others were beyond them
    uint64_t bytes_limit;     // merge_run returns when it has read so much
    uint64_t bytes_reported;  // of the progress
    // Called at each fork record, if set, with the number of the forking thread's input. False ends the merge: the callee knows
    // why.
    bool (*at_fork)(struct merge *m, uint32_t input, uint64_t stamp);
    void *context;
    bool failed;
};

// A merge of a complete log, which has all its streams. NULL with error.
struct merge *merge_begin(const struct ht_raw_log *log, struct ht_trace_writer *writer,
                          struct ht_error *error);
// A merge of a growing log, which has no streams yet. NULL with error.
struct merge *merge_begin_growing(const struct ht_raw_log *log, struct ht_trace_writer *writer,
                                  struct ht_error *error);
// An input for each stream; those that are new are idle. False for want of memory.
bool merge_know_streams(struct merge *m);
// The idle input has records again.
void merge_ready(struct merge *m, uint32_t number);
// What was live at the start, as the first event of all: once, when the first input is there. Returns 0 or -1
// with error.
int merge_inherit(struct merge *m, const struct live_blocks *inherited, struct ht_error *error);
// Merges all that is stamped no later than the horizon, which may be raised again and again. Returns 0 or -1 with error.
int merge_run(struct merge *m, const struct merge_progress *progress, struct ht_error *error);
// All that is stamped earlier has been merged.
uint64_t merge_position(const struct merge *m);
// What is live now, to be freed by the caller; a block whose realloc is under way lives, where it was, or one byte behind
// that where another one lies by now. False for want of memory.
bool merge_live_blocks(struct merge *m, struct live_blocks *blocks);
// No more records will come: what merge_run does next goes to the end.
void merge_stop_growing(struct merge *m);
// What is left to do when all is merged; the threads are the caller's.
void merge_results(struct merge *m, struct merge_result *result);
// Frees the merge, except its threads.
void merge_end(struct merge *m);

#endif
