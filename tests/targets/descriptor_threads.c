// One thread allocates so that memory is sampled all the time; another is the only one that uses descriptors,
// and whatever it does not find as it left it is somebody else's doing.
// Usage: descriptor_threads COUNTS MODE [SECONDS]
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "target_modes.h"

enum {
    SIZE_OTHER = 7860,
    BLOCKS = 3000,
    BLOCK_BYTES = 40000,
    PART_BYTES = 4096,
    FOREIGN_FD = 5,
    FDS_LOOKED_AT = 64
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
                                               {"watched", allocate_only},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
