// SPDX-License-Identifier: Apache-2.0
// Peaks of RSS just before memory is given back, by each call that does; and the calls do what they do without a watch.
#include "unit_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_probes.h"
#include "peak_watch.h"

enum { BLOCK_BYTES = 8 << 20, NEAR_BYTES = 512 << 10 };

static int statm_fd;

static void *mapped(size_t bytes, int flags) {
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    assert_true(block != MAP_FAILED);
    return block;
}

static char *filled(void) { return memset(mapped(BLOCK_BYTES, MAP_PRIVATE), 'x', BLOCK_BYTES); }

static void start(void) {
    statm_fd = ht_rss_open();
    assert_true(statm_fd >= 0);
    void *stack = mapped(HT_PEAK_WATCH_STACK_BYTES, MAP_SHARED | MAP_POPULATE);
    int refusal = ht_peak_watch_start(statm_fd, stack);
    if (refusal == ENOSYS || refusal == EINVAL || refusal == EPERM) exit(77);  // as under an emulator
    assert_int_equal(refusal, 0);
}

// The filter is for good: each test has a process of its own.
static void in_child(void (*body)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);              // cmocka has a handler
        setenv("CMOCKA_TEST_ABORT", "1", 1);  // else it would go on with the next test, here
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

// RSS has fallen by a block since, and what it was before is known.
static void assert_fell(uint64_t before_bytes) {
    uint64_t now_bytes = ht_rss_anon_bytes(statm_fd), highest_bytes = ht_peak_watch_take(now_bytes);
    assert_true(now_bytes + BLOCK_BYTES <= before_bytes + NEAR_BYTES);
    assert_in_range(highest_bytes, before_bytes - NEAR_BYTES, before_bytes + NEAR_BYTES);
    assert_int_equal(ht_peak_watch_take(5), 5);  // it was taken
}

static void assert_not_read(void) { assert_int_equal(ht_peak_watch_take(0), 0); }

static void calls_that_give_back(void) {
    start();
    char *block = filled();
    uint64_t before_bytes = ht_rss_anon_bytes(statm_fd);
    assert_int_equal(munmap(block, BLOCK_BYTES), 0);
    assert_fell(before_bytes);

    block = filled();
    assert_int_equal(madvise(block, BLOCK_BYTES, MADV_DONTNEED), 0);
    assert_fell(before_bytes);
    assert_true(block[0] == 0 && block[BLOCK_BYTES - 1] == 0);

    memset(block, 'y', BLOCK_BYTES);
    assert_true(mmap(block, BLOCK_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == block);
    assert_fell(before_bytes);
    munmap(block, BLOCK_BYTES);

    block = filled();
    ht_peak_watch_take(0);
    char *shorter = mremap(block, BLOCK_BYTES, 4096, MREMAP_MAYMOVE);
    assert_true(shorter == block && shorter[4095] == 'x');
    assert_fell(before_bytes);
    munmap(shorter, 4096);

    char *end = sbrk(0);
    assert_true(sbrk(BLOCK_BYTES) == end);
    memset(end, 'z', BLOCK_BYTES);
    ht_peak_watch_take(0);
    assert_true(sbrk(-BLOCK_BYTES) == end + BLOCK_BYTES && sbrk(0) == end);
    assert_fell(before_bytes);
}

static void calls_that_do_not(void) {
    start();
    char *end = sbrk(0), *block = filled();
    ht_peak_watch_take(0);
    assert_true(sbrk(4096) == end);
    char *larger = mremap(block, BLOCK_BYTES, 2 * BLOCK_BYTES, MREMAP_MAYMOVE);
    assert_true(larger != MAP_FAILED && larger[0] == 'x' && larger[BLOCK_BYTES] == 0);
    assert_int_equal(madvise(larger, BLOCK_BYTES, MADV_NOHUGEPAGE), 0);
    assert_int_equal(madvise(larger, BLOCK_BYTES, MADV_FREE), 0);
    assert_int_equal(mprotect(larger, BLOCK_BYTES, PROT_READ), 0);
    mapped(BLOCK_BYTES, MAP_PRIVATE);
    assert_not_read();
}

// As the kernel answers without a watch: errors are errors, and errno is left alone by what succeeds.
static void results_are_the_kernels(void) {
    start();
    errno = 0;
    assert_true(munmap((void *)1, 4096) == -1 && errno == EINVAL);
    assert_true(mmap((void *)1, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                MAP_FAILED);
    assert_int_equal(errno, EINVAL);
    errno = ERANGE;
    char *block = filled();
    assert_int_equal(munmap(block, BLOCK_BYTES), 0);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(syscall(SYS_munmap, (void *)1, 4096), -1);
    assert_int_equal(errno, EINVAL);

    // All six arguments count.
    char path[] = "/tmp/heaptape-watch-XXXXXX", page[4096];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && unlink(path) == 0);
    memset(page, 'a', sizeof page);
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    memset(page, 'b', sizeof page);
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    char *at = mapped(4096, MAP_PRIVATE);
    assert_true(mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096) == at && at[0] == 'b');
}

static void *map_and_unmap(void *argument) {
    for (int i = 0; i < 200; i++) {
        char *block = mapped(1 << 20, MAP_PRIVATE);
        block[0] = block[(1 << 20) - 1] = (char)i;
        if (munmap(block, 1 << 20)) return argument;
    }
    return NULL;
}

// Threads that were started since have the watch too, and take nothing from each other. They have stacks of their own, as
// replay threads do: the C library gives back one that is its own when all signals are blocked.
static void in_threads(void) {
    pthread_t threads[4];
    pthread_attr_t attributes;
    void *wrong;
    const size_t stack_bytes = 1 << 20;
    start();
    char *block = filled();
    uint64_t before_bytes = ht_rss_anon_bytes(statm_fd);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_attr_init(&attributes), 0);
        assert_int_equal(pthread_attr_setstack(&attributes, mapped(stack_bytes, MAP_SHARED), stack_bytes), 0);
        assert_int_equal(pthread_create(&threads[i], &attributes, map_and_unmap, &wrong), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    munmap(block, BLOCK_BYTES);
    assert_true(ht_peak_watch_take(0) >= before_bytes - NEAR_BYTES);
}

// Somebody sends it: nothing has been stopped, and the process ends by it.
static void sent(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        start();
        raise(SIGSYS);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) exit(77);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void ignore(int number) { (void)number; }

static void expect_busy(void) {
    void *stack = mapped(HT_PEAK_WATCH_STACK_BYTES, MAP_SHARED);
    assert_int_equal(ht_peak_watch_start(ht_rss_open(), stack), EBUSY);
    char *block = filled();
    assert_int_equal(munmap(block, BLOCK_BYTES), 0);
    assert_not_read();
}

static void whoever_has_the_signal_keeps_it(void) {
    struct sigaction action = {.sa_handler = ignore}, found;
    assert_int_equal(sigaction(SIGSYS, &action, NULL), 0);
    expect_busy();
    assert_true(sigaction(SIGSYS, NULL, &found) == 0 && found.sa_handler == ignore);
}

static void a_blocked_signal_is_left_blocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    expect_busy();
}

#define IN_CHILD(body)                                                                                       \
    static void test_##body(void **state) {                                                                  \
        (void)state;                                                                                         \
        in_child(body);                                                                                      \
    }
IN_CHILD(calls_that_give_back)
IN_CHILD(calls_that_do_not)
IN_CHILD(results_are_the_kernels)
IN_CHILD(in_threads)
IN_CHILD(sent)
IN_CHILD(whoever_has_the_signal_keeps_it)
IN_CHILD(a_blocked_signal_is_left_blocked)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_give_back),
        cmocka_unit_test(test_calls_that_do_not),
        cmocka_unit_test(test_results_are_the_kernels),
        cmocka_unit_test(test_in_threads),
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_whoever_has_the_signal_keeps_it),
        cmocka_unit_test(test_a_blocked_signal_is_left_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
