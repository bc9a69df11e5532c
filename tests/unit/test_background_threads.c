// SPDX-License-Identifier: Apache-2.0
// The allocator's threads under trace time: who wakes when, in which order, and that nobody is waited for in
// vain. Sleeping functions are those of background_threads.c, which this program has under the C library's names.
#include "unit_support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "background_threads.h"
#include "raw_calls.h"
#include "virtual_clock.h"

enum { SLEEPERS = 3, ROUNDS = 5, MS = 1000000 };

static _Atomic uint64_t trace_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static struct {
    uint64_t woken_ns[SLEEPERS * ROUNDS];
    int who[SLEEPERS * ROUNDS];
    _Atomic uint32_t count;
} seen;

static void note(int who) {
    uint32_t at = atomic_fetch_add(&seen.count, 1);
    seen.who[at] = who;
    seen.woken_ns[at] = trace_ns;
}

static void wait_for_sleepers(uint32_t count) {
    while (ht_background_sleepers() < count) ht_cpu_relax();
}

// Sleeper i sleeps for 7, 10 and 13 ms at a time.
static void *sleep_repeatedly(void *argument) {
    int who = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec time = {.tv_nsec = (7 + 3 * who) * MS};
        nanosleep(&time, NULL);
        note(who);
    }
    return NULL;
}

static void sleepers_wake_in_the_order_of_their_deadlines(void **state) {
    (void)state;
    pthread_t threads[SLEEPERS];
    uint64_t start_ns = trace_ns;
    seen.count = 0;
    for (int i = 0; i < SLEEPERS; i++) {
        pthread_create(&threads[i], NULL, sleep_repeatedly, (void *)(intptr_t)i);
    }
    wait_for_sleepers(SLEEPERS);
    ht_background_advance(&trace_ns, start_ns + 20 * MS + 1000);  // each waking is a few readings late
    assert_int_equal(trace_ns, start_ns + 20 * MS + 1000);
    assert_int_equal(seen.count, 5);  // at 7, 10, 13, 14 and 20
    ht_background_advance(&trace_ns, start_ns + 1000 * MS);
    assert_int_equal(seen.count, SLEEPERS * ROUNDS);
    for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
    uint64_t rounds[SLEEPERS] = {0};
    for (int i = 0; i < SLEEPERS * ROUNDS; i++) {
        int who = seen.who[i];
        uint64_t due_ns = start_ns + ++rounds[who] * (uint64_t)(7 + 3 * who) * MS;
        // Later by the nanoseconds that readings of the clock take.
        assert_in_range(seen.woken_ns[i], due_ns, due_ns + 1000);
        if (i > 0) assert_true(seen.woken_ns[i] >= seen.woken_ns[i - 1]);
    }
}

struct waiting {
    uint64_t ns;
    int result;
};

static void *wait_on_condition(void *argument) {
    struct waiting *waiting = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&lock);
    waiting->result = pthread_cond_timedwait(&cond, &lock, &until);
    waiting->ns = trace_ns;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void a_condition_times_out_by_trace_time(void **state) {
    (void)state;
    struct waiting waiting;
    pthread_t thread;
    uint64_t start_ns = trace_ns;
    pthread_create(&thread, NULL, wait_on_condition, &waiting);
    wait_for_sleepers(1);
    ht_background_advance(&trace_ns, start_ns + 60000ull * MS);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.result, ETIMEDOUT);
    assert_in_range(waiting.ns, start_ns + 10000ull * MS, start_ns + 10000ull * MS + 1000);
}

static void a_signal_comes_before_the_deadline(void **state) {
    (void)state;
    struct waiting waiting;
    pthread_t thread;
    uint64_t start_ns = trace_ns;
    pthread_create(&thread, NULL, wait_on_condition, &waiting);
    wait_for_sleepers(1);
    ht_background_advance(&trace_ns, start_ns + 5000ull * MS);
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
    ht_background_advance(&trace_ns, start_ns + 60000ull * MS);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.result, 0);
    assert_int_equal(waiting.ns, start_ns + 5000ull * MS);
}

// ---- on a machine that stands still, or does other things ----

static _Atomic bool has_worked;

static void work_for(uint64_t ns) {
    for (uint64_t begun_ns = ht_thread_cpu_ns(); ht_thread_cpu_ns() - begun_ns < ns;) ht_cpu_relax();
}

static void *stop_all_then_work(void *unused) {
    usleep(1000);
    kill(getpid(), SIGSTOP);
    work_for(20 * MS);
    has_worked = true;
    usleep(1000);
    return unused;
}

static void advance_past_who_stops_all(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, stop_all_then_work, NULL);
    wait_for_sleepers(1);
    ht_background_advance(&trace_ns, trace_ns + 2 * MS);
    _exit(has_worked ? 0 : 1);
}

// As if other programs had all processors for much longer than anyone has patience.
static void who_gets_no_processor_is_waited_for(void **state) {
    (void)state;
    int status;
    pid_t process = fork();
    assert_true(process >= 0);
    if (!process) advance_past_who_stops_all();
    assert_int_equal(waitpid(process, &status, WUNTRACED), process);
    assert_true(WIFSTOPPED(status));
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 300 * MS}, NULL);  // by no clock of the trace's
    kill(process, SIGCONT);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static _Atomic bool over;

static void *sleep_once_then_work(void *unused) {
    usleep(1000);
    while (!over) ht_cpu_relax();
    return unused;
}

static void who_does_not_sleep_again_is_not_waited_for_again(void **state) {
    (void)state;
    pthread_t thread;
    over = false;
    pthread_create(&thread, NULL, sleep_once_then_work, NULL);
    wait_for_sleepers(1);
    // Were it waited for each time, this would take a quarter of an hour.
    for (int i = 0; i < 10000; i++) ht_background_advance(&trace_ns, trace_ns + MS);
    over = true;
    pthread_join(thread, NULL);
    while (ht_background_sleepers()) ht_cpu_relax();  // joined, it is there for a moment more
}

static void clocks_show_trace_time_and_never_stand_still(void **state) {
    (void)state;
    struct timespec before, after, later;
    clock_gettime(CLOCK_MONOTONIC, &before);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_in_range(ht_timespec_ns(&after) - ht_timespec_ns(&before), 1, 1000);
    ht_background_advance(&trace_ns, trace_ns + 3600000ull * MS);
    clock_gettime(CLOCK_MONOTONIC, &later);
    assert_in_range(ht_timespec_ns(&later) - ht_timespec_ns(&after), 3599000ull * MS, 3600000ull * MS);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    assert_true(ht_timespec_ns(&before) < 600000ull * MS);
}

// A replay thread waits for what happens in real time, whatever the trace's, and sees that it has.
static void replay_threads_sleep_by_real_time(void **state) {
    (void)state;
    struct timespec before, after;
    uint64_t real_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    clock_gettime(CLOCK_MONOTONIC, &before);
    usleep(3000);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(ht_raw_clock_ns(CLOCK_MONOTONIC) - real_ns >= 3 * MS);
    assert_in_range(ht_timespec_ns(&after) - ht_timespec_ns(&before), 3 * MS, 3 * MS + 1000);
}

static int start(void **state) {
    (void)state;
    ht_virtual_clock_start(&trace_ns);
    ht_background_start(&trace_ns, 0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        // First: what it forks must have a single thread, or the thread sanitizer gives up.
        cmocka_unit_test(who_gets_no_processor_is_waited_for),
        cmocka_unit_test(sleepers_wake_in_the_order_of_their_deadlines),
        cmocka_unit_test(a_condition_times_out_by_trace_time),
        cmocka_unit_test(a_signal_comes_before_the_deadline),
        cmocka_unit_test(who_does_not_sleep_again_is_not_waited_for_again),
        cmocka_unit_test(clocks_show_trace_time_and_never_stand_still),
        cmocka_unit_test(replay_threads_sleep_by_real_time),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
