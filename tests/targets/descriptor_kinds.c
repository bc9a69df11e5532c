// Programs that care for the numbers of their descriptors, or have none left.
// Usage: descriptor_kinds COUNTS MODE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "target_modes.h"

enum { SIZE_BEFORE = 7810, SIZE_AFTER, SIZE_OTHER, LARGEST_FD = 256 };

static void say(const char *what, long number) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s %ld\n", what, number);
    if (write(1, text, (size_t)length) != length) target_fail("cannot write");
}

static void no_more_descriptors(rlim_t count) {
    struct rlimit limit = {count, count};
    if (setrlimit(RLIMIT_NOFILE, &limit)) target_fail("cannot set the limit");
}

// open, dup, pipe and socket-like calls give the lowest free number; it is printed, for comparison.
static int print_numbers(char *unused) {
    (void)unused;
    int kept[40], ends[2];
    say("first", open("/dev/null", O_RDONLY));
    tally_churn(SIZE_BEFORE, 100);
    for (int i = 0; i < 40; i++) {
        tally_churn(SIZE_AFTER, 10000);
        free(malloc(1 << 20));
        kept[i] = open("/dev/null", O_RDONLY);
        say("open", kept[i]);
        if (i % 3 == 0) close(kept[i / 2]);
        if (i % 5 == 0) say("dup", dup(1));
        if (i % 7 == 0 && !pipe(ends)) say("pipe", ends[1]);
    }
    closefrom(3);
    tally_churn(SIZE_AFTER, 100000);
    say("after closefrom", open("/dev/null", O_RDONLY));
    close(0);
    free(malloc(1 << 20));
    say("instead of stdin", open("/dev/null", O_RDONLY));
    return 60;
}

static _Atomic int stop;

static void *allocate_beside(void *unused) {
    (void)unused;
    // Large blocks, so that a recorder that measures by allocated bytes does so all the time.
    while (!stop)
        for (int i = 0; i < 20; i++) {
            char *block = malloc(8 << 20);
            if (block) block[0] = 1;
            free(block);
        }
    return NULL;
}

// One thread allocates; the other's descriptors must be numbered as if it were alone.
static int numbers_beside_thread(char *unused) {
    (void)unused;
    pthread_t thread;
    long wrong = 0;
    int first = open("/dev/null", O_RDONLY);
    close(first);
    if (pthread_create(&thread, NULL, allocate_beside, NULL)) target_fail("no thread");
    for (int i = 0; i < 400000; i++) {
        int fd = open("/dev/null", O_RDONLY);
        wrong += fd != first;
        close(fd);
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("numbers that somebody else had", wrong);
    return 61;
}

// Puts a descriptor over the next numbers again and again: whoever opens and closes there destroys it.
static int dup_beside_thread(char *unused) {
    (void)unused;
    pthread_t thread;
    long lost = 0;
    if (pthread_create(&thread, NULL, allocate_beside, NULL)) target_fail("no thread");
    for (int i = 0; i < 100000; i++) {
        for (int fd = 3; fd < 6; fd++)
            if (dup2(1, fd) != fd) target_fail("dup2");
        for (int fd = 3; fd < 6; fd++) lost += fcntl(fd, F_GETFD) < 0;
        closefrom(3);
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("descriptors that somebody else closed", lost);
    return 62;
}

static int none_left(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    no_more_descriptors(0);
    tally_churn(SIZE_AFTER, 300000);
    for (int i = 0; i < 20; i++) free(malloc(1 << 20));
    say("open", open("/dev/null", O_RDONLY));
    return 63;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"numbers", print_numbers},
                                               {"numbers_beside", numbers_beside_thread},
                                               {"dup_beside", dup_beside_thread},
                                               {"none_left", none_left},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
