// SPDX-License-Identifier: Apache-2.0
// Programs under limits, which a recorder shares with them. What a mode could allocate goes as one number
// into the file REPORT, since it need not be the same to the last block. Usage: limit_kinds COUNTS MODE
// [REPORT]
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "target_modes.h"

enum { SIZE_BEFORE = 7830, SIZE_AFTER, SIZE_THREAD, SIZE_CHILD, MIB = 1 << 20 };

static void report(const char *path, long long number) {
    static struct plain_writer out;
    writer_open(&out, path);
    writer_print(&out, "%lld\n", number);
    writer_close(&out);
}

static volatile sig_atomic_t too_large;
static void count_too_large(int number) {
    (void)number;
    too_large++;
}

// Writes until its own file may grow no more; says how far that was, and how often it was told.
static int write_to_the_limit(char *path) {
    static char block[4096];
    char text[96];
    long long written = 0;
    struct sigaction action = {.sa_handler = count_too_large};
    sigaction(SIGXFSZ, &action, NULL);
    tally_churn(SIZE_BEFORE, 1000);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (ssize_t got; (got = write(fd, block, sizeof block)) > 0; written += got)
        tally_churn(SIZE_AFTER, 1000);
    int why = errno, length;
    tally_churn(SIZE_AFTER, 100000);
    for (int i = 0; i < 20; i++) free(malloc(MIB));
    length = snprintf(text, sizeof text, "%lld bytes, errno %d, %d signals\n", written, why, (int)too_large);
    return write(1, text, (size_t)length) == length ? 70 : 1;
}

// The limit comes when the recording is on, and forbids every growth of any file.
static int write_nothing_more(char *path) {
    struct rlimit none = {0, 0};
    tally_churn(SIZE_BEFORE, 1000);
    if (setrlimit(RLIMIT_FSIZE, &none)) target_fail("cannot set the limit");
    return write_to_the_limit(path) == 70 ? 71 : 1;
}

static long long allocate_to_the_end(void) {
    long long blocks = 0;
    while (blocks < 1 << 20) {
        char *volatile block = malloc(MIB / 4);
        if (!block) break;
        block[0] = 1;
        blocks++;
    }
    return blocks;
}

static int use_all_memory(char *path) {
    tally_churn(SIZE_BEFORE, 1000);
    report(path, allocate_to_the_end());
    if (errno != ENOMEM) return 1;
    return 72;
}

static void allocate_by_right(int depth);
static __attribute__((noinline)) void allocate_by_left(int depth) {
    if (depth) {
        allocate_by_left(depth - 1);
        allocate_by_right(depth - 1);
    }
    if (!depth) free(tally_malloc(SIZE_BEFORE));  // tested again, so that no call above is a tail call
}
static __attribute__((noinline)) void allocate_by_right(int depth) {
    allocate_by_left(depth);
    __asm__ volatile("");  // nor is this one
}

// The same after a hundred thousand allocations, each from a stack of its own.
static int use_all_memory_after_many_stacks(char *path) {
    allocate_by_left(17);
    return use_all_memory(path);
}

static long long memory_field_kib(const char *name) {
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *line = strstr(text, name);
    return line ? atoll(line + strlen(name)) : 0;
}

static int lock_by_function(void) { return mlockall(MCL_CURRENT | MCL_FUTURE); }
static int lock_by_number(void) { return (int)syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE); }

// All memory locked, present and future, as a user who may lock at most 64 MiB: what is only reserved must
// neither become real nor count as too much.
static int lock_all_memory(char *path, int (*lock)(void)) {
    static struct plain_writer out;
    struct rlimit limit;
    tally_churn(SIZE_BEFORE, 1000);
    writer_open(&out, path);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = limit.rlim_max < 64 * MIB ? limit.rlim_max : 64 * MIB;
    if (setrlimit(RLIMIT_MEMLOCK, &limit)) target_fail("cannot set the limit");
    if (geteuid() == 0 && setuid(65534)) target_fail("cannot change the user");
    if (lock()) target_fail("cannot lock the memory");
    tally_churn(SIZE_AFTER, 300000);
    for (int i = 0; i < 100; i++) free(malloc(MIB / 4));
    writer_print(&out, "%lld\n", memory_field_kib("VmRSS:"));
    writer_close(&out);
    return 73;
}

static int lock_all(char *path) { return lock_all_memory(path, lock_by_function); }
static int lock_all_by_number(char *path) { return lock_all_memory(path, lock_by_number); }

static void *allocate_on_little(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) free(tally_malloc(SIZE_THREAD));
    free(malloc(MIB));
    // The child's recording begins on this little stack too.
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 100);
        _exit(4);
    }
    if (child_status(pid) != 4) target_fail("the child did not end as it should");
    return NULL;
}

// Threads with the least stack that pthreads grants.
static int little_stacks(char *unused) {
    (void)unused;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)))
        target_fail("cannot set the stack's size");
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, allocate_on_little, NULL)) target_fail("no thread");
        pthread_join(thread, NULL);
    }
    return 74;
}

// Waits for a byte from stdin, in which time the log's folder may change under it.
static int wait_for_word(char *unused) {
    (void)unused;
    char byte;
    tally_churn(SIZE_BEFORE, 1000);
    if (write(1, ".", 1) != 1 || read(0, &byte, 1) != 1) return 1;
    for (int i = 0; i < 300000; i++) free(tally_malloc(SIZE_AFTER));
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 100);
        exit(4);
    }
    return child_status(pid) == 4 ? 75 : 1;
}

// operator new without a C++ library: what there is comes from the recorder alone. Its throwing form cannot answer
// that there is no memory.
static int new_without_cxx(char *unused) {
    (void)unused;
    void *(*new_nothrow)(size_t, const void *) =
        (void *(*)(size_t, const void *))dlsym(RTLD_DEFAULT, "_ZnwmRKSt9nothrow_t");
    void *(*new_throwing)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    if (!new_nothrow || !new_throwing) return 3;
    free(new_throwing(SIZE_BEFORE));
    tally_count(SIZE_BEFORE);
    if (new_nothrow(PTRDIFF_MAX, NULL)) return 1;
    new_throwing(PTRDIFF_MAX);
    return 1;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"fsize", write_to_the_limit},
                                               {"fsize_later", write_nothing_more},
                                               {"memory", use_all_memory},
                                               {"many_stacks", use_all_memory_after_many_stacks},
                                               {"mlockall", lock_all},
                                               {"mlockall_by_number", lock_all_by_number},
                                               {"little_stacks", little_stacks},
                                               {"wait", wait_for_word},
                                               {"new_without_cxx", new_without_cxx},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
