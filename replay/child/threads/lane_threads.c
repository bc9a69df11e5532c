// SPDX-License-Identifier: Apache-2.0
#include "lane_threads.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "older_libc.h"

// Only what is used becomes real. A library's thread-local storage lies on the stack too and must fit.
enum { STACK_BYTES = 2 << 20 };

// What the thread's end costs the allocator happens before this returns. It takes no lock of ours any more.
static void join(struct ht_window *window, struct ht_lane *lane) {
    pthread_join(lane->thread, NULL);
    window->stacks[window->stacks_count++] = lane->stack;
}

static struct ht_lane *take_leaver(struct ht_window *window) {
    struct ht_lane *leaver = window->leavers;
    if (leaver) window->leavers = leaver->next_leaver;
    return leaver;
}

void ht_lane_threads_join(struct ht_window *window) {
    for (struct ht_lane *leaver; (leaver = take_leaver(window));) join(window, leaver);
}

// A stack in shared memory, so that it is not the allocator's, unless the process forks: a former thread's, or a new one.
static void *get_stack(struct ht_window *window) {
    struct ht_lane *leaver = window->stacks_count ? NULL : take_leaver(window);
    if (leaver) join(window, leaver);
    if (window->stacks_count) return window->stacks[--window->stacks_count];
    int kind = window->forks ? MAP_PRIVATE : MAP_SHARED;
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return stack == MAP_FAILED ? NULL : stack;
}

static _Noreturn void refuse_start(const struct ht_lane *lane, int reason) {
    struct ht_outcome *outcome = lane->window->outcome;
    snprintf(outcome->message, sizeof outcome->message, "thread %u of %u cannot be started: %s",
             lane->number + 1, lane->window->lanes_count, strerror(reason));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(1);
}

void ht_lane_thread_start(struct ht_lane *lane, void *(*body)(void *lane)) {
    struct ht_window *window = lane->window;
    pthread_attr_t attributes;
    ht_lane_replaying(window, false);  // what the C library allocates for a thread is not the trace's
    lane->stack = get_stack(window);
    if (!lane->stack || pthread_attr_init(&attributes)) refuse_start(lane, ENOMEM);
    pthread_attr_setstack(&attributes, lane->stack, STACK_BYTES);
    int failed = pthread_create(&lane->thread, &attributes, body, lane);
    if (failed) refuse_start(lane, failed);
    pthread_attr_destroy(&attributes);
    ht_lane_replaying(window, true);
}
