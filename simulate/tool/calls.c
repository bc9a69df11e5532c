// SPDX-License-Identifier: GPL-3.0-or-later
// Calls of the malloc family, from the outermost one's first instruction until the stack is above it again; and
// the function that options.within names, likewise. Each thread has its own.
#include "tool.h"
#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>

static struct running *threads;  // by ThreadId
static UInt running_tid, seen;

// The instructions of the running thread up to now; those of others come between.
static void count_call(void) {
    ULong instructions = counts.instructions - running.instructions_before;
    counts.allocator += instructions;
    counts.costs[running.kind][running.size_class].instructions += instructions;
    counts.loader = running.loader_before;  // what an allocator has the loader do is the allocator's
}
static void count_within(void) { counts.within += counts.instructions - running.within_before; }

void begin_counting(void) {
    running.instructions_before = running.within_before = counts.instructions;
    running.loader_before = counts.loader;
}

void count_what_runs(void) {
    if (running.in_allocator) count_call();
    if (running.counts) count_within();
    begin_counting();
}

static struct running new_thread(void) {
    return (struct running){.counts = !options.within, .leave_sp = NEVER_LEFT, .leave_within_sp = NEVER_LEFT};
}

// Another thread may get its number.
void forget_thread(UInt tid) {
    if (!threads) return;
    if (tid == running_tid) {
        process_accesses();
        count_what_runs();
        pause_profile();
        running = new_thread();
        begin_counting();
    }
    threads[tid] = new_thread();
}

void switch_thread(UInt tid) {
    if (tid == running_tid) return;
    if (!threads) {
        threads = VG_(malloc)("heaptape.threads", (VG_N_THREADS + 1) * sizeof *threads);
        for (UInt i = 0; i <= VG_N_THREADS; i++) threads[i] = new_thread();
        running = new_thread();
    }
    process_accesses();
    if (running_tid) {
        count_what_runs();
        pause_profile();
        threads[running_tid] = running;
        running = threads[tid];
        if (running.in_allocator) resume_profile();
        begin_counting();
    }
    if (tid >= seen) seen = tid;
    running_tid = tid;
    record_thread(tid);
}

UInt threads_seen(void) { return seen; }

// The malloc or free that the C++ library's operator calls.
static void enter_inner_call(ULong kind, ULong sp) {
    if (!running.in_operator || running.inner_sp || kind & CALL_OPERATOR) return;
    process_accesses();
    running.inner_sp = running.leave_sp = sp;
    running.inner_before = counts.instructions;
    running.inner_instructions = 0;
}

static void leave_inner_call(void) {
    if (!running.inner_sp || running.inner_instructions) return;
    running.inner_instructions = counts.instructions - running.inner_before;
    running.leave_sp = running.allocator_sp;
}

void enter_call(ULong kind, ULong sp, ULong first, ULong second, ULong third) {
    if (running.in_allocator) enter_inner_call(kind, sp);
    if (running.in_allocator || !running.counts) return;
    process_accesses();
    running.in_allocator = 1;
    running.allocator_sp = running.leave_sp = sp;
    running.in_operator = (kind & CALL_OPERATOR) != 0;
    running.inner_sp = 0;
    kind &= ~(ULong)CALL_OPERATOR;
    running.kind = (enum call_kind)kind;
    running.argument[0] = first;
    running.argument[1] = second;
    running.argument[2] = third;
    running.instructions_before = counts.instructions;
    running.loader_before = counts.loader;
    running.size_class = size_class_of_call();
    resume_profile();
    begin_branches_of_call();
    counts.calls[kind]++;
    counts.costs[kind][running.size_class].calls++;
}

// The stack is above what it was when a call of the allocator, or one within it, began.
void leave_call(ULong sp, ULong result) {
    process_accesses();
    leave_inner_call();
    if (sp <= running.allocator_sp) return;
    count_call();
    if (running.inner_sp)
        counts.operators += counts.instructions - running.instructions_before - running.inner_instructions;
    running.in_allocator = 0;
    running.leave_sp = NEVER_LEFT;
    pause_profile();
    keep_block_size(result);
    record_call(result);
    splice_call(result);
}

// Counts begin where the function does.
void enter_within(ULong sp) {
    if (running.counts) return;
    process_accesses();
    running.counts = 1;
    running.leave_within_sp = sp;
    running.within_before = counts.instructions;
    splice_begin();
}

void leave_within(void) {
    if (running.in_allocator) return;
    process_accesses();
    count_within();
    running.counts = 0;
    running.leave_within_sp = NEVER_LEFT;
}
