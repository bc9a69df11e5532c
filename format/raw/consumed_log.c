// SPDX-License-Identifier: Apache-2.0
#include "consumed_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

int consumed_log_check(const struct ht_raw_log *log, struct ht_error *error) {
    char consumer[HT_RAW_CONSUMER_BYTES], state[HT_RAW_CONSUMER_BYTES + 16];
    if (!ht_raw_consumer(log, consumer)) return 0;
    snprintf(state, sizeof state, "%s.state", consumer);
    if (access(state, F_OK))
        return ht_error_input(error, log->path, 12,
                              "expected a whole log, found one with holes: its trace is %s", consumer);
    return ht_error_input(error, log->path, 12,
                          "expected a whole log, found one with holes: heaptape convert --follow %s -o %s "
                          "resumes from %s.partial",
                          log->path, consumer, consumer);
}

// The lock lies on the field that the follower writes its trace's path into. It is a read lock, because a
// follower does not keep the log open for writing (its program would seem to be alive), and says by that what
// a write lock would: a process that finds another's there ends. It belongs to the open file, so that it ends
// with its process, however that ends.
static const struct flock CONSUMER_FIELD = {.l_type = F_RDLCK,
                                            .l_whence = SEEK_SET,
                                            .l_start = HT_RAW_CONSUMER_OFFSET,
                                            .l_len = HT_RAW_CONSUMER_BYTES};

// Is the lock on the field another follower's? Locks of other places, as network file systems make of flock,
// are not.
static bool is_followed(int fd) {
    struct flock found = CONSUMER_FIELD;
    found.l_type = F_WRLCK;
    return !fcntl(fd, F_OFD_GETLK, &found) && found.l_type != F_UNLCK &&
           found.l_start == CONSUMER_FIELD.l_start && found.l_len == CONSUMER_FIELD.l_len;
}

// Followers that begin at once take turns by another lock, which a follower has while it punches holes and
// may be stopped with. A process that does not get it within a second continues without: at worst both refuse
// then. So it is where that lock wants a file that is open for writing, as on network file systems.
static bool take_turn(int fd) {
    for (int tries = 0; tries < 100 && !is_followed(fd); tries++) {
        if (!flock(fd, LOCK_EX | LOCK_NB)) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

int consumed_log_lock(const struct ht_raw_log *log, bool *locked, struct ht_error *error) {
    struct flock lock = CONSUMER_FIELD;
    bool in_turn = take_turn(log->fd);
    *locked = !fcntl(log->fd, F_OFD_SETLK, &lock);
    bool followed = *locked && is_followed(log->fd);
    if (in_turn) flock(log->fd, LOCK_UN);
    if (!followed) return 0;
    lock.l_type = F_UNLCK;
    fcntl(log->fd, F_OFD_SETLK, &lock);
    errno = 0;
    return ht_error_system(error, log->path, "another process already follows this log");
}
