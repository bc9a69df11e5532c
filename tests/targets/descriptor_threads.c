// SPDX-License-Identifier: Apache-2.0
// One thread allocates so that memory is sampled all the time; another is the only one that uses descriptors,
// and whatever it does not find as it left it is somebody else's doing.
// Usage: descriptor_threads COUNTS MODE [SECONDS]
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "target_modes.h"

enum {
    SIZE_OTHER = 7860,
    BLOCKS = 3000,
    BLOCK_BYTES = 40000,
    PART_BYTES = 4096,
    FOREIGN_FD = 5,
    FDS_LOOKED_AT = 64,
    STACK_BYTES = 64 << 10
};

static atomic_bool stop;

static void *allocate(void *unused) {
    static char *block[BLOCKS];
    (void)unused;
    while (!stop) {
        for (int i = 0; i < BLOCKS && !stop; i++) {
            volatile size_t size = BLOCK_BYTES;
            block[i] = malloc(size);
            memset(block[i], 1, BLOCK_BYTES);
            if (i % 10 == 0) free(tally_malloc(SIZE_OTHER));
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(block[i]);
            block[i] = NULL;
        }
    }
    return NULL;
}

static time_t end_of(const char *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + (seconds ? atoi(seconds) : 3);
}

static bool is_before(time_t end) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < end;
}

static int finish(pthread_t thread, int status, long wrong) {
    char text[64];
    stop = true;
    pthread_join(thread, NULL);
    int length = snprintf(text, sizeof text, "%ld found otherwise\n", wrong);
    if (write(1, text, (size_t)length) != length) target_fail("cannot write");
    return status;
}

static pthread_t begin(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate, NULL)) target_fail("no thread");
    return thread;
}

// A file of two parts, read one after the other: nobody else may move its offset, or close it.
static int close_all_and_read(char *seconds) {
    char path[] = "/tmp/descriptor_threads.XXXXXX", part[PART_BYTES];
    int file = mkstemp(path);
    for (int letter = 'x'; letter <= 'y'; letter++) {
        memset(part, letter, sizeof part);
        if (write(file, part, sizeof part) != sizeof part) target_fail("cannot write a file");
    }
    close(file);
    long wrong = 0;
    pthread_t thread = begin();
    for (time_t end = end_of(seconds); is_before(end);) {
        if (close_range(3, ~0U, 0)) target_fail("no close_range");
        int fd = open(path, O_RDONLY);
        for (int i = 0; i < 20; i++) (void)lseek(fd, 0, SEEK_CUR);
        wrong += read(fd, part, sizeof part) != sizeof part || part[0] != 'x';
        wrong += read(fd, part, sizeof part) != sizeof part || part[0] != 'y';
        wrong += close(fd) != 0;
    }
    unlink(path);
    return finish(thread, 65, wrong);
}

// A pipe's end is put at a free number: it stays there, and what was written comes out whole.
static int put_at_a_number(char *seconds) {
    int ends[2];
    struct stat wanted, found;
    long wrong = 0;
    if (pipe2(ends, O_NONBLOCK) || fstat(ends[0], &wanted)) target_fail("no pipe");
    pthread_t thread = begin();
    for (time_t end = end_of(seconds); is_before(end);) {
        char in[8] = "";
        if (dup2(ends[0], FOREIGN_FD) != FOREIGN_FD) {
            wrong++;  // EBUSY: somebody is about to open a file there
            continue;
        }
        if (write(ends[1], "abcdefg", 8) != 8) target_fail("cannot write into a pipe");
        for (int i = 0; i < 50; i++) wrong += fstat(FOREIGN_FD, &found) || found.st_ino != wanted.st_ino;
        wrong += read(ends[0], in, 8) != 8 || memcmp(in, "abcdefg", 8);
        wrong += close(FOREIGN_FD) != 0;
    }
    return finish(thread, 66, wrong);
}

static int count_unknown(const bool *known) {
    int count = 0;
    for (int fd = 0; fd < FDS_LOOKED_AT; fd++) count += fcntl(fd, F_GETFD) >= 0 && !known[fd];
    return count;
}

// What was open at the start is all that children find.
static int fork_and_look(char *seconds) {
    bool known[FDS_LOOKED_AT];
    long wrong = 0;
    for (int fd = 0; fd < FDS_LOOKED_AT; fd++) known[fd] = fcntl(fd, F_GETFD) >= 0;
    pthread_t thread = begin();
    for (time_t end = end_of(seconds); is_before(end);) {
        pid_t child = fork();
        if (child == 0) _exit(count_unknown(known));
        wrong += child_status(child);
    }
    return finish(thread, 67, wrong);
}

static struct looks {
    bool known[FDS_LOOKED_AT];
    atomic_bool stop;
    long wrong;
} *looks;

static int look_on(void *unused) {
    (void)unused;
    while (!looks->stop) looks->wrong += count_unknown(looks->known);
    return 0;
}

static void stop_at_alarm(int number) {
    (void)number;
    stop = true;
}

// A process of one thread whose descriptors are another process's as well.
static int share_descriptors(char *seconds, bool by_number) {
    int access = PROT_READ | PROT_WRITE;
    looks = mmap(NULL, sizeof *looks, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *stack = mmap(NULL, STACK_BYTES, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (looks == MAP_FAILED || stack == MAP_FAILED) target_fail("no memory");
    for (int fd = 0; fd < FDS_LOOKED_AT; fd++) looks->known[fd] = fcntl(fd, F_GETFD) >= 0;
    pid_t child = by_number ? (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL)
                            : clone(look_on, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
    if (child == 0) _exit(look_on(NULL));
    if (child < 0) target_fail("no child");
    signal(SIGALRM, stop_at_alarm);
    alarm(seconds ? (unsigned)atoi(seconds) : 3);
    allocate(NULL);
    looks->stop = true;
    if (child_status(child)) target_fail("the child did not end as it should");
    dprintf(1, "%ld found otherwise\n", looks->wrong);
    return 69;
}
static int share_by_clone(char *seconds) { return share_descriptors(seconds, false); }
static int share_by_number(char *seconds) { return share_descriptors(seconds, true); }

// For an observer outside: the program itself opens nothing.
static int allocate_only(char *seconds) {
    pthread_t thread = begin();
    for (time_t end = end_of(seconds); is_before(end);)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return finish(thread, 68, 0);
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"close_range", close_all_and_read},
                                               {"dup2", put_at_a_number},
                                               {"fork", fork_and_look},
                                               {"clone", share_by_clone},
                                               {"clone_by_number", share_by_number},
                                               {"watched", allocate_only},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
