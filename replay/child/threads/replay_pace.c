// SPDX-License-Identifier: Apache-2.0
#include "replay_pace.h"

#include <errno.h>

#include "background_threads.h"
#include "raw_clock.h"

static void wait_until(const struct ht_window *window, uint64_t time_ns) {
    uint64_t moment_ns = window->real_start_ns + (uint64_t)((double)time_ns * window->real_ns_per_trace_ns);
    struct timespec moment = {.tv_sec = (time_t)(moment_ns / 1000000000u),
                              .tv_nsec = (long)(moment_ns % 1000000000u)};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) != 0 &&
           errno == EINTR) {
    }
}

void ht_pace_wait(struct ht_lane *lane, uint64_t time_ns) {
    uint64_t cpu_before_ns = ht_thread_cpu_ns();
    wait_until(lane->window, time_ns);
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}

void ht_pace_advance_alone(struct ht_lane *lane, uint64_t time_ns) {
    struct ht_window *window = lane->window;
    uint64_t cpu_before_ns = ht_thread_cpu_ns(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    ht_background_advance(&window->low_ns, time_ns);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    if (window->real_ns_per_trace_ns > 0) wait_until(window, time_ns);
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}

void ht_pace_to_end(struct ht_window *window, uint64_t end_ns) {
    if (end_ns > window->low_ns) ht_background_advance(&window->low_ns, end_ns);
    if (window->real_ns_per_trace_ns > 0) wait_until(window, end_ns);
}
