// SPDX-License-Identifier: Apache-2.0
// Programs that watch a folder, or decide who may open its files, while they allocate.
// Usage: watches_files COUNTS told|asked FOLDER
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>

#include "target_modes.h"

enum { SIZE = 7950, ROUNDS = 16, PER_ROUND = 20000 };

static int told_of_changes(char *folder) {
    char events[4096];
    int watch = inotify_init1(IN_NONBLOCK);
    if (watch < 0 || inotify_add_watch(watch, folder, IN_ALL_EVENTS) < 0) target_fail("cannot watch");
    tally_churn(SIZE, ROUNDS * PER_ROUND);
    long got = read(watch, events, sizeof events);
    printf("%d\n", got > 0);
    return 90;
}

// The only thread answers, and allocates in between.
static void answer(int listener) {
    struct fanotify_event_metadata event[16];
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    while (poll(&ready, 1, 0) > 0) {
        long got = read(listener, event, sizeof event);
        for (struct fanotify_event_metadata *one = event; FAN_EVENT_OK(one, got);
             one = FAN_EVENT_NEXT(one, got)) {
            struct fanotify_response yes = {.fd = one->fd, .response = FAN_ALLOW};
            if (write(listener, &yes, sizeof yes) != sizeof yes) target_fail("cannot answer");
            close(one->fd);
        }
    }
}

static int asked_who_may_open(char *folder) {
    int listener = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
    if (listener < 0 ||
        fanotify_mark(listener, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_EVENT_ON_CHILD, AT_FDCWD, folder))
        target_fail("cannot be asked");
    for (int round = 0; round < ROUNDS; round++) {
        tally_churn(SIZE, PER_ROUND);
        answer(listener);
    }
    return 91;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"told", told_of_changes}, {"asked", asked_who_may_open}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
